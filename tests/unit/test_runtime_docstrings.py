"""Every public name says what it does, takes, returns and raises."""

from __future__ import annotations

import doctest
import inspect
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mpiexec.programs import documented
from support import PATIENCE_S

import apgas
from apgas import _public
from apgas.testing.pytest_plugin import MakeJob

PUBLIC = [getattr(apgas, name) for name in apgas.__all__]
OF_ONE_PROGRAM = [value.__name__ for value in PUBLIC if documented.of_one_program(value)]
NEVER_FAIL = (apgas.attach, apgas.trace_between, apgas.trace_instant, apgas.trace_span)


def _callables() -> Iterator[Any]:
    for name in apgas.__all__:
        value = getattr(apgas, name)
        if inspect.isfunction(value):
            yield pytest.param(value, id=name)
        elif inspect.isclass(value):
            for method, own in vars(value).items():
                if inspect.isfunction(own) and not method.startswith("_"):
                    yield pytest.param(own, id=f"{name}.{method}")


@pytest.mark.parametrize("name", apgas.__all__)
def test_a_public_name_has_a_summary_of_one_line(name: str) -> None:
    text = vars(apgas)[name].__doc__ or ""
    summary, *rest = text.splitlines()
    assert summary.endswith("."), text
    assert not rest or not rest[0].strip(), text


@pytest.mark.parametrize("value", [*_callables()])
def test_a_public_function_says_what_it_takes_and_returns(value: Any) -> None:
    text = value.__doc__ or ""
    signature = inspect.signature(value)
    for name in signature.parameters.keys() - {"self"}:
        assert f"{name}: " in text, f"{name} is not described"
    if signature.return_annotation not in ("None", "Iterator[None]"):
        assert ("Yields:" if signature.return_annotation.startswith("Iterator[") else "Returns:") in text


@pytest.mark.parametrize("value", [value for value in PUBLIC if inspect.isfunction(value)])
def test_a_public_function_has_an_example(value: Any) -> None:
    assert "Example:\n    >>> " in (inspect.getdoc(value) or "")


@pytest.mark.parametrize("name", OF_ONE_PROGRAM)
def test_the_example_of_a_function_that_changes_the_program_works(
    name: str, apgas_job: MakeJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def main() -> doctest.TestResults:
        globs = {"apgas": apgas, "__name__": "__main__"}
        test = doctest.DocTestParser().get_doctest(getattr(apgas, name).__doc__, globs, name, name, 0)
        return doctest.DocTestRunner(verbose=False).run(test)

    monkeypatch.chdir(tmp_path)
    done = apgas_job(main, places=2).run()
    assert done.failed == 0
    assert done.attempted > 0


@pytest.mark.parametrize("value", [value for value in PUBLIC if inspect.isfunction(value) and value not in NEVER_FAIL])
def test_a_public_function_says_what_it_raises(value: Any) -> None:
    assert "Raises:" in (value.__doc__ or "")


def test_what_is_loaded_is_what_type_checkers_see() -> None:
    assert sorted(apgas.__all__) == sorted(_public.__all__)
    for name in _public.__all__:
        assert getattr(apgas, name) is getattr(_public, name), name


def test_the_public_names_are_loaded_when_one_is_used() -> None:
    code = (
        "import sys, apgas; assert not any(name.startswith('apgas.') for name in sys.modules); "
        "assert 'finish' in dir(apgas); from apgas import *; assert finish is apgas.finish; "
        "apgas.no_such_name"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.stderr.splitlines()[-1] == "AttributeError: module 'apgas' has no attribute 'no_such_name'"
