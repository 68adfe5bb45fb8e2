"""The whole-state validator runs in every place of every test's job."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import Leftovers, mpirun

PROGRAM = Path(__file__).parent / "programs" / "contradicting.py"


@pytest.mark.parametrize("place", [0, 1])
def test_a_state_that_contradicts_itself_ends_the_job(place: int, leftovers: Leftovers) -> None:
    job = mpirun(2, [PROGRAM, str(place)])
    leftovers.check(job.mark)
    assert job.rc != 0
    assert "the state contradicts itself after PlaceCore." in job.err
    assert "survived" not in job.out


def test_places_do_not_validate_unless_asked(leftovers: Leftovers) -> None:
    # The same damage to a count that only the validator reads goes unnoticed then.
    job = mpirun(2, [PROGRAM, "0"], env={"APGAS_VALIDATE": ""})
    leftovers.check(job.mark)
    assert (job.rc, job.out) == (0, "survived\n"), job.err
