"""Reads what the 2024 paper published of its real runs: every job, the strong scaling, the means of its figures.

What is peculiar about the data, and what is done about it: 100 % malleable, seed 47 holds two runs, and 60 %, seed 47
none, so the runs are told apart where ids begin again. A rigid job named ``UTS_19_rigid_4`` ran on 8 nodes in 116 runs
of the same jobs: the nodes that a rigid job had count, not its name. 24 jobs have an error in a resize: they went on
with fewer nodes than they held.
"""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

NODES: Final = 32
WALLTIME_S: Final = 800.0
"""Every job asked for this [code]; the published table has no column for it."""
SHARES: Final = (0, 20, 40, 60, 80, 100)
FOLDER: Final = "reference/real-runs-32-nodes"
UTILIZATION: Final = "AverageNodeUtilization.csv"

T = TypeVar("T")


class BadReferenceError(ValueError):
    """The published data are not there, or not as they should be; the text names the file."""


class RunKey(NamedTuple):
    """A run: the published name of the policy, malleable jobs in percent, seed, and which run of these."""

    strategy: str
    share: int
    seed: int
    number: int


@dataclass(frozen=True, slots=True)
class RealJob:
    """A job of a real run. Times in seconds since the run's beginning.

    It is no ``JobRecord``: the published table has numbers of orders and one size, not the course of the job.

    Attributes:
        job_id: Its number in the batch.
        name: As published: program, input, class, sizes.
        program: Program and input, as in the strong scaling.
        malleable: Whether it could be resized.
        min_nodes: Fewest nodes.
        max_nodes: Most nodes; of a rigid job, those that it had.
        submit_s: Submission.
        start_s: Start.
        end_s: End.
        start_nodes: Nodes at the start.
        shrinks: Shrink orders.
        grows: Grow orders.
        failed: A resize of it failed.
    """

    job_id: int
    name: str
    program: tuple[str, str]
    malleable: bool
    min_nodes: int
    max_nodes: int
    submit_s: float
    start_s: float
    end_s: float
    start_nodes: int
    shrinks: int
    grows: int
    failed: bool

    @property
    def stuck(self) -> bool:
        """Whether it held the nodes of its start until its end, though a resize failed: none was carried out."""
        return self.failed and not self.shrinks and not self.grows

    @property
    def least_nodes(self) -> int:
        """It never held fewer."""
        return self.min_nodes if self.shrinks or self.grows else self.start_nodes


@dataclass(frozen=True)
class Reference:
    """The published data.

    Attributes:
        runs: The jobs of each run.
        scaling: Median runtime in seconds by nodes, for each program and input.
        utilization: Published mean utilization in percent, by policy and share.
    """

    runs: dict[RunKey, tuple[RealJob, ...]]
    scaling: dict[tuple[str, str], dict[int, float]]
    utilization: dict[tuple[str, int], float]

    @cached_property
    def strategies(self) -> tuple[str, ...]:
        """The published policies."""
        return tuple(sorted({key.strategy for key in self.runs}))


def read_reference(data: Path) -> Reference:
    """Read the published data.

    Args:
        data: The folder with ``reference/real-runs-32-nodes``.

    Raises:
        BadReferenceError: A file is missing or not as it should be.
    """
    folder = data / FOLDER
    runs: dict[RunKey, list[RealJob]] = {}
    numbers: dict[tuple[str, int, int], int] = {}
    for row, job in _rows(folder / "jobs.csv", lambda row: (row, _job(row))):
        batch = (row["strategy"], int(row["malleable_percent"]), int(row["seed"]))
        key = RunKey(*batch, numbers.setdefault(batch, 0))
        if any(other.job_id == job.job_id for other in runs.get(key, ())):
            numbers[batch] += 1
            key = RunKey(*batch, numbers[batch])
        runs.setdefault(key, []).append(job)
    scaling: dict[tuple[str, str], dict[int, float]] = {}
    for program, nodes, seconds in _rows(folder / "strong_scaling.csv", _point):
        scaling.setdefault(program, {})[nodes] = seconds
    utilization: dict[tuple[str, int], float] = {}
    for row in _rows(folder / UTILIZATION, dict):
        share, *_ = row.values()
        utilization.update({(name, int(share)): float(value) for name, value in list(row.items())[1:]})
    return Reference({key: tuple(jobs) for key, jobs in runs.items()}, scaling, utilization)


def _rows(path: Path, read: Callable[[dict[str, str]], T]) -> list[T]:
    try:
        with path.open(encoding="utf-8", newline="") as file:
            return [read(row) for row in csv.DictReader(file)]
    except FileNotFoundError:
        raise BadReferenceError(f"{path}: not there") from None
    except (KeyError, TypeError, ValueError) as error:
        raise BadReferenceError(f"{path}: {type(error).__name__}: {error}") from None


def _job(row: dict[str, str]) -> RealJob:
    program, size, kind, sizes = row["job_name"].split("_")
    low, _, high = sizes.partition("-")
    malleable = kind == "malleable"
    start_nodes = int(row["start_nodes"])
    return RealJob(
        job_id=int(row["id"]),
        name=row["job_name"],
        program=(program, size),
        malleable=malleable,
        min_nodes=int(low) if malleable else start_nodes,
        max_nodes=int(high) if malleable else start_nodes,
        submit_s=float(row["submit_s"]),
        start_s=float(row["start_s"]),
        end_s=float(row["end_s"]),
        start_nodes=start_nodes,
        shrinks=int(row["shrink_count"]),
        grows=int(row["grow_count"]),
        failed=row["error_elastic"] == "True",
    )


def _point(row: dict[str, str]) -> tuple[tuple[str, str], int, float]:
    return (row["program"], row["size"]), int(row["nodes"]), float(row["median_s"])
