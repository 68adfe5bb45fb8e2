"""What is computed, and how long one emulated node is to take for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

NODES: Final = (1, 2, 4, 8, 12, 16)
QUICK_NODES: Final = (1, 4)
LEAST_S: Final = 32.0
QUICK_LEAST_S: Final = 1.2
"""One node takes at least so long, so that starting and ending do not decide."""
MOST_SHARE: Final = 0.8
"""The emulated nodes use at most so much of the cores in all: the rest is for everything that is not emulated."""
MOST_LAG_S: Final = 0.25
"""A worker that fell further behind its pace was held up by the machine."""


@dataclass(frozen=True)
class Program:
    """One benchmark.

    Attributes:
        name: As in ``python -m benchmarks.<name>``.
        title: As in the table.
        arguments: The problem.
        quick: A smaller one.
        paper: The program in the published results, its problem that ran on one node, and the unit of its problems.
    """

    name: str
    title: str
    arguments: tuple[str, ...]
    quick: tuple[str, ...]
    paper: tuple[str, str, str]

    def problem(self, quick: bool) -> tuple[str, ...]:
        """Return the arguments of the problem."""
        return self.quick if quick else self.arguments


PROGRAMS: Final = {
    program.name: program
    for program in (
        Program("uts", "UTS", ("--depth", "14"), ("--depth", "12"), ("UTS", "18", "d = ")),
        Program("nqueens", "N-Queens", ("-n", "16"), ("-n", "14"), ("NQueens", "17", "N = ")),
        Program("bc", "BC", ("--scale", "12"), ("--scale", "9"), ("BC", "17", "2^")),
        Program("pi", "Pi", ("--samples", "1e9"), ("--samples", "1e8"), ("Pi", "80000000000", "")),
    )
}


def one_node_s(cpu_s: float, nodes: int, cores: int, share: float, least_s: float) -> float:
    """Return how long one emulated node takes for a problem.

    Args:
        cpu_s: Seconds that a core takes for it at full speed.
        nodes: The most nodes that are emulated at once.
        cores: Cores of this machine.
        share: How much of them may be used in all.
        least_s: The least that is returned.
    """
    return max(least_s, cpu_s * nodes / (share * cores))
