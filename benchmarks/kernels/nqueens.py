"""N-Queens: our kernel beside plain recursion in C and in Python."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Final

from ..harness.goals import OURS, Goal, Quantity
from ..nqueens.bag import known_solutions
from . import compiler
from .results import Contender, Measure, Setting, Work

if TYPE_CHECKING:
    from collections.abc import Mapping

_SIZES: Final = {False: 16, True: 14}
_NAIVE_SIZES: Final = {False: 10, True: 9}


def _amounts(solutions: int, size: int) -> Mapping[str, float]:
    if solutions != known_solutions(size):
        raise ArithmeticError(f"{solutions} solutions were counted where there are {known_solutions(size)}")
    return {"boards": 1, "solutions": solutions}


def _ours(setting: Setting) -> Work:
    from ..nqueens.kernel import run_kernel

    size = _SIZES[setting.quick]
    return lambda: _amounts(run_kernel(size), size)


def _in_c(setting: Setting) -> Work:
    size = _SIZES[setting.quick]
    solve = compiler.load("nqueens", setting.folder).nqueens_solve
    solve.restype = ctypes.c_int64
    return lambda: _amounts(solve(ctypes.c_int64(size)), size)


def _naive(setting: Setting) -> Work:
    size = _NAIVE_SIZES[setting.quick]
    return lambda: _amounts(count_solutions((1 << size) - 1, 0, 0, 0), size)


def count_solutions(full: int, columns: int, left: int, right: int) -> int:
    """Return the number of solutions below a placement, by plain recursion."""
    if columns == full:
        return 1
    solutions = 0
    free = full & ~(columns | left | right)
    while free:
        bit = free & -free
        free ^= bit
        solutions += count_solutions(full, columns | bit, (left | bit) << 1, (right | bit) >> 1)
    return solutions


NQUEENS: Final = Measure(
    name="nqueens",
    title=lambda quick: f"N-Queens, N={_SIZES[quick]}",
    quantities=(Quantity("solutions", "solutions", "1/s", (Goal(">=", 8, "c"),)),),
    contenders=(
        Contender(OURS, "ours", _ours),
        Contender("c", "plain recursion in C", _in_c),
        Contender("python", "the same in Python", _naive),
    ),
    rule="N-Queens: all solutions are counted; we search one of the eight images of each, the others all of them "
    "(Python on a smaller board)",
)
