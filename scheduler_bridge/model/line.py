"""The waiting jobs in order, and the search for the next one that may start."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeAlias

from scheduler_bridge.model.job import JobSpec

Need: TypeAlias = Callable[[JobSpec, int], int]
"""The fewest nodes that a job starts with while so many are in service: a pure function, always the same object."""


class Line(Protocol):
    """A walk along the waiting jobs, the most urgent first. Every job is met at most once.

    Attributes:
        need: The nodes that the job found last needs.
    """

    need: int

    def next(self) -> JobSpec | None:
        """The next job, whatever it needs; None at the end."""

    def next_fitting(self, least: int, most: int, spare: int, now: float, by_s: float) -> JobSpec | None:
        """The next job that needs ``least`` to ``most`` nodes, and at most ``spare`` of them unless it ends in time.

        In time is a job that starts ``now`` on the nodes that it needs, and ends by its walltime not after ``by_s``.
        Jobs on the way are passed.
        """


class PlainLine:
    """A walk that looks at every job.

    Args:
        queue: The jobs, the most urgent first.
        need: What they need.
        total_nodes: Nodes in service.
        walltime_s: How long they may take on so many nodes.
    """

    def __init__(
        self, queue: Sequence[JobSpec], need: Need, total_nodes: int, walltime_s: Callable[[JobSpec, int], float]
    ) -> None:
        self.need = 0
        self._walltime_s = walltime_s
        self._jobs: Iterator[JobSpec] = iter(queue)
        self._need = need
        self._total_nodes = total_nodes

    def next(self) -> JobSpec | None:
        """The next job."""
        spec = next(self._jobs, None)
        if spec is not None:
            self.need = self._need(spec, self._total_nodes)
        return spec

    def next_fitting(self, least: int, most: int, spare: int, now: float, by_s: float) -> JobSpec | None:
        """The next job that fits."""
        while (spec := self.next()) is not None:
            if least <= self.need <= most and (self.need <= spare or now + self._walltime_s(spec, self.need) <= by_s):
                return spec
        return None
