"""The problems, how long one emulated node is to take for it, and the published running times."""

from __future__ import annotations

import csv
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

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
        option: What says how large a problem is.
        usual: The size of the problem.
        quick: That of a smaller one.
        on_cores: That of one that takes 15 to 35 s of a real core.
        of_a_copy: What makes that one take some seconds.
        paper: The program in the published results, its problem that ran on one node, and the unit of its problems.
    """

    name: str
    title: str
    option: str
    usual: str
    quick: str
    on_cores: str
    of_a_copy: str
    paper: tuple[str, str, str]


PROGRAMS: Final = {
    program.name: program
    for program in (
        Program("uts", "UTS", "--depth", "14", "12", "16", "15", ("UTS", "18", "d = ")),
        Program("nqueens", "N-Queens", "-n", "16", "14", "18", "17", ("NQueens", "17", "N = ")),
        Program("bc", "BC", "--scale", "12", "9", "15", "14", ("BC", "17", "2^")),
        Program("pi", "Pi", "--samples", "1e9", "1e8", "4e10", "1e10", ("Pi", "80000000000", "")),
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


# The published running times, where their file is at hand ------------------------------------------------------------

Published: TypeAlias = Mapping[str, Mapping[str, Mapping[int, float]]]
"""Seconds by program, problem and number of nodes."""
VARIABLE: Final = "MALLEABLE_DATA"
_FILE: Final = Path("reference", "real-runs-32-nodes", "strong_scaling.csv")


def read_published() -> Published:
    """Return the medians; nothing without the file.

    It is below the folder that MALLEABLE_DATA names, or ``shared/data`` beside the project's folder.

    Raises:
        ValueError: The file is no such table.
    """
    named, root = os.environ.get(VARIABLE), Path(__file__).resolve().parents[2]
    folders = [Path(named)] if named else [root / "shared" / "data", root.parent / "shared" / "data"]
    path = next((folder / _FILE for folder in folders if (folder / _FILE).is_file()), None)
    found: dict[str, dict[str, dict[int, float]]] = {}
    if path is None:
        return found
    with path.open(encoding="utf-8", newline="") as stream:
        for number, row in enumerate(csv.DictReader(stream), 2):
            try:
                problems = found.setdefault(row["program"], {})
                problems.setdefault(row["size"], {})[int(row["nodes"])] = float(row["median_s"])
            except (KeyError, TypeError, ValueError):
                raise ValueError(f"{path}:{number}: no program, size, nodes and median_s") from None
    return found


def efficiency(times: Mapping[int, float], nodes: int) -> float | None:
    """Return the speed-up over one node divided by ``nodes``; None if one of the two is not there."""
    return times[1] / (nodes * times[nodes]) if 1 in times and nodes in times else None


def spoken_problem(size: str, unit: str) -> str:
    """Write a problem of the paper: d = 18, 2^17, 8e10."""
    return f"{int(size):.2g}".replace("e+", "e").replace(".0e", "e") if not unit else f"{unit}{size}"
