"""Where a place is taken, its id is taken, too; what is neither is refused in words."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support import PATIENCE_S

import apgas
from apgas.core.identity import Place
from apgas.core.membership import Membership
from apgas.core.messages import PlaceInfo
from apgas.errors import PlaceGoneError
from apgas.testing.job import Job

MakeJob = Callable[..., Job[Any]]


def where() -> int:
    return apgas.here().id


def notify(heard: apgas.GlobalRef[threading.Event]) -> None:
    heard.get().set()


def test_ids_are_places(apgas_job: MakeJob) -> None:
    def main() -> None:
        assert [apgas.at(number, where) for number in (0, 1, 2)] == [0, 1, 2]
        assert apgas.at(np.int64(1), where) == 1  # type: ignore[arg-type]  # what it gives is an int
        with apgas.finish():
            assert apgas.async_at(2, where).result() == 2
        heard = threading.Event()
        for call in (apgas.immediate, apgas.uncounted):
            heard.clear()
            call(0, notify, apgas.GlobalRef(heard))
            assert heard.wait(PATIENCE_S)
        assert apgas.place(1) == apgas.places()[1]

    apgas_job(main, places=3).run()


@pytest.mark.parametrize("call", [apgas.at, apgas.async_at, apgas.immediate, apgas.uncounted])
@pytest.mark.parametrize("wrong", [True, "1", 1.0, None, [0]])
def test_what_is_no_place_is_refused(apgas_job: MakeJob, call: Any, wrong: object) -> None:
    def main() -> None:
        with pytest.raises(TypeError, match="a place is needed, or its id as an int, not ") as caught:
            call(wrong, where)
        assert repr(wrong) in str(caught.value)
        assert type(wrong).__name__ in str(caught.value)
        with pytest.raises(TypeError, match="a place is needed"):
            apgas.place(wrong)  # type: ignore[arg-type]  # it is wrong on purpose

    apgas_job(main, places=2).run()


@pytest.mark.parametrize("call", [apgas.at, apgas.async_at, apgas.uncounted])
@pytest.mark.parametrize("wrong", [9, -1, Place(9)])
def test_a_place_that_never_was_is_named_beside_those_that_are(apgas_job: MakeJob, call: Any, wrong: int) -> None:
    def main() -> None:
        with pytest.raises(PlaceGoneError, match=rf"place {Place.number(wrong)} does not exist; there are 0 to 2 "):
            call(wrong, where)

    apgas_job(main, places=3).run()


def test_gaps_are_reported() -> None:
    members = Membership([PlaceInfo(number, "host", 1, "node", 1) for number in (0, 1, 3, 5, 6, 7)], 0)
    with pytest.raises(PlaceGoneError, match="there are 0 to 1, 3, 5 to 7 "):
        members.require(12)
