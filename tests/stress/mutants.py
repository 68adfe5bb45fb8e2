"""Mutation testing: do the fast tests find small faults that are put into the code one at a time?

``PYTHONPATH=tests python -m stress.mutants 'glb/core/*.py' tests/unit/test_glb_*.py`` takes a random sample of the
faults that the operators of Cosmic Ray (``pip install cosmic-ray``) can put into functions, and of statements that are
left out, at most one at a place. The tests are collected once. For each mutant a fork of that process exchanges the
code of one function and runs the tests until the first fails: no file is changed, and a mutant costs a second or two.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import inspect
import os
import resource
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from random import Random
from types import CodeType, FunctionType
from typing import Any, Final, TypeAlias

import pytest
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.operators.operator import Operator
from cosmic_ray.plugins import get_operator, operator_names
from parso.python.tree import Keyword

ROOT: Final = Path(__file__).resolve().parents[2]
LIMIT_S: Final = 60
"""For the tests of a mutant of CPU time, for one of them of real time; together they need a few seconds."""


class Omission(Operator):  # type: ignore[misc]  # Cosmic Ray carries no types
    """Leaves a statement out."""

    def mutation_positions(self, node: Any) -> Iterator[tuple[Any, Any]]:
        """Where there is one that does something."""
        if node.type == "simple_stmt" and node.children[0].type in ("expr_stmt", "atom_expr", "power", "del_stmt"):
            yield node.start_pos, node.end_pos

    def mutate(self, node: Any, index: int) -> Any:
        """Put ``pass`` in its place."""
        old = node.children[0]
        node.children[0] = Keyword("pass", old.start_pos, old.get_first_leaf().prefix)
        return node

    @classmethod
    def examples(cls) -> tuple[()]:
        """None."""
        return ()


Mutant: TypeAlias = tuple[str, CodeType, CodeType]
"""One fault in one function: where it is, and the function's code without and with it."""


def sample(files: list[Path], count: int, rng: Random) -> list[Mutant]:
    """At most ``count`` mutants, each at another place."""
    operators = [Omission(), *(get_operator(name)() for name in operator_names() if not get_operator(name).arguments())]
    places: dict[tuple[Path, Any], list[tuple[Any, int]]] = {}
    for path in files:
        tree = get_ast(path.read_text(encoding="utf-8"))
        for operator in operators:
            starts = [start for node in ast_nodes(tree) for start, _ in operator.mutation_positions(node)]
            for occurrence, start in enumerate(starts):
                places.setdefault((path, start), []).append((operator, occurrence))
    order = sorted(places)
    rng.shuffle(order)
    found: list[Mutant] = []
    while order and len(found) < count:
        path, start = place = order.pop()
        found += _mutant(path, start[0], *rng.choice(places[place]))
    return found


def _mutant(path: Path, line: int, operator: Any, occurrence: int) -> Iterator[Mutant]:
    """The mutant, if it is one of a function: what is evaluated at import, like types and defaults, is left alone."""
    text = path.read_text(encoding="utf-8")
    changed = mutate_code(text, operator, occurrence)
    pairs = zip(text.splitlines(), changed.splitlines(), strict=False)
    fault = next((f"-   {before.strip()}\n+   {after.strip()}" for before, after in pairs if before != after), "")
    try:
        mutated = _functions(compile(changed, path, "exec", dont_inherit=True))
    except SyntaxError:  # some operators do not look at what is around
        return
    for key, old in _functions(compile(text, path, "exec", dont_inherit=True)).items():
        if mutated.get(key, old) != old:
            yield f"{path.relative_to(ROOT)}:{line}\n{fault}", old, mutated[key]


def _functions(code: CodeType) -> dict[tuple[str, str, int], CodeType]:
    found = {}
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            found.update({_key(inner): inner} if inner.co_flags & inspect.CO_OPTIMIZED else _functions(inner))
    return found


def _key(code: CodeType) -> tuple[str, str, int]:
    return code.co_filename, code.co_qualname, code.co_firstlineno


class Runner:
    """A plugin of pytest that runs the collected tests on every mutant instead of once."""

    def __init__(self, mutants: list[Mutant]) -> None:
        self._mutants = mutants
        self.survivors = 0

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run them all."""
        if not self._passes(session, None):
            sys.exit("the tests fail without any mutant")
        for number, mutant in enumerate(self._mutants, start=1):
            if self._passes(session, mutant):
                self.survivors += 1
                print(f"\n{number} survives: {mutant[0]}", flush=True)
        return True

    def _passes(self, session: pytest.Session, mutant: Mutant | None) -> bool:
        if child := os.fork():
            status = os.waitpid(child, 0)[1]
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)  # what a test has left
            return status == 0
        try:
            os.setsid()
            resource.setrlimit(resource.RLIMIT_CPU, (LIMIT_S, LIMIT_S))
            for stream in (1, 2):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
            for found in gc.get_objects() if mutant else ():
                if isinstance(found, FunctionType) and mutant and _key(found.__code__) == _key(mutant[1]):
                    found.__code__ = mutant[2]
            for item, after in zip(session.items, [*session.items[1:], None], strict=True):
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
                if session.testsfailed:
                    break
            os._exit(bool(session.testsfailed))
        finally:
            os._exit(1)


def main() -> int:
    """Run a sample of the mutants of a package; say which survive."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("code", help="pattern of the files to put faults into, such as 'glb/core/*.py'")
    parser.add_argument("tests", nargs="+", help="test files")
    parser.add_argument("--sample", type=int, default=60, help="how many mutants (60)")
    parser.add_argument("--seed", type=int, default=1, help="of the sample (1)")
    options = parser.parse_args()
    mutants = sample(sorted(ROOT.glob(options.code)), options.sample, Random(options.seed))
    runner = Runner(mutants)
    with tempfile.TemporaryDirectory() as folder:
        wishes = (
            f"-x -q -s -p no:cacheprovider --hypothesis-profile fail-fast --basetemp {folder}/t -o timeout={LIMIT_S}"
        )
        pytest.main([*wishes.split(), *options.tests], [runner])
    print(f"{options.code}: {len(mutants)} mutants, {len(mutants) - runner.survivors} killed")
    return 1 if runner.survivors else 0


if __name__ == "__main__":
    sys.exit(main())
