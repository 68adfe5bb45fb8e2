"""Runs the examples in the texts of the public names, each in a finish of its own; prints how many went well."""

from __future__ import annotations

import doctest
import os
import sys
from typing import Any

import apgas


def of_one_program(value: object) -> bool:
    """Whether a public name changes the program for good: then its example is tried on simulated places."""
    return getattr(value, "__module__", "") == "apgas.runtime.malleable" or value is apgas.trace


def examples(names: list[str]) -> list[doctest.DocTest]:
    parser = doctest.DocTestParser()
    found = []
    for name in names:
        text = getattr(apgas, name).__doc__ or ""
        globs: dict[str, Any] = {"apgas": apgas, "__name__": "__main__"}
        test = parser.get_doctest(text, globs, name, f"apgas.{name}", 0)
        if test.examples:
            found.append(test)
    return found


def main() -> None:
    without = {"run"}  # its example starts a program
    if os.environ.get("APGAS_TRANSPORT") != "mpi":
        without.add("comm")
    names = [name for name in apgas.__all__ if name not in without]
    tests = examples([name for name in names if not of_one_program(getattr(apgas, name))])
    runner = doctest.DocTestRunner(verbose=False)
    for test in tests:
        with apgas.finish():
            runner.run(test, out=sys.stderr.write, clear_globs=False)  # activities may need them later
    print(f"{runner.failures} of {runner.tries} went wrong in", *sorted(test.name for test in tests), flush=True)


if __name__ == "__main__":
    apgas.run(main)
