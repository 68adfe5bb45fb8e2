"""People see their own frames of a traceback, and ours if they ask for them."""

from __future__ import annotations

import traceback
import warnings
from collections.abc import Callable
from contextlib import contextmanager
from typing import Any

import pytest

import apgas
from apgas.runtime import exceptions
from apgas.testing.job import Job

MakeJob = Callable[..., Job[Any]]


def fails() -> None:
    raise ValueError("on purpose")


def there() -> None:
    try:
        apgas.at(2, fails)
    except ValueError as error:
        raise KeyError("because of it") from error


def within() -> None:
    with apgas.finish():
        apgas.async_at(1, there)


def text_of(apgas_job: MakeJob) -> str:
    caught: list[BaseException] = []

    def main() -> None:
        try:
            within()
        except Exception as error:  # noqa: BLE001 - as a notebook would
            caught.append(exceptions.folded(error))

    apgas_job(main, places=3).run()
    return "".join(traceback.format_exception(caught[0]))


def ours(text: str) -> list[str]:
    return [line for line in text.splitlines() if "/apgas/" in line or "contextlib" in line or "concurrent" in line]


def test_the_frames_of_the_runtime_are_left_out(apgas_job: MakeJob) -> None:
    text = text_of(apgas_job)
    assert not ours(text), text
    assert text.count("in fails") == 2, "once as the error of place 2, once as the cause of that of place 1"
    assert "in there" in text
    assert "in within" in text


def test_who_asks_for_them_sees_them(apgas_job: MakeJob, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("APGAS_TRACEBACK", "full")
    text = text_of(apgas_job)
    assert ours(text)
    assert "in fails" in text


def test_an_error_of_the_runtime_alone_keeps_its_frames() -> None:
    with pytest.raises(AttributeError) as caught:
        exceptions._visible(3)  # type: ignore[arg-type]  # it is wrong on purpose
    caught.value.__traceback__ = caught.tb.tb_next
    assert exceptions.folded(caught.value).__traceback__ is caught.tb.tb_next


def test_contexts_of_the_program_stay() -> None:
    @contextmanager
    def mine() -> Any:
        fails()
        yield

    with pytest.raises(ValueError, match="on purpose") as caught, mine():
        pass
    files = [frame.filename for frame in traceback.extract_tb(exceptions.folded(caught.value).__traceback__)]
    assert any(file.endswith("contextlib.py") for file in files)


def test_a_warning_names_the_line_of_the_program() -> None:
    with pytest.warns(UserWarning, match="here") as caught:
        warnings.warn("here", stacklevel=exceptions.level_of_program())
    assert caught[0].filename == __file__


def test_benchmarks_are_programs() -> None:
    folder = apgas.__path__[0]
    assert exceptions.is_ours(f"{folder}/runtime/api.py")
    assert exceptions.is_ours(f"{folder.removesuffix('apgas')}glb/runner.py")
    assert not exceptions.is_ours(f"{folder}/benchmarks/uts/bag.py")
    assert not exceptions.is_ours(f"{folder}_of_mine/runtime/api.py")
