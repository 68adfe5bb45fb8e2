"""A sweep whose cells are simulated on workloads that are read or drawn once, by their names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, Protocol, Self, TypeVar

from scheduler_bridge.experiments.sweep import Cell, Figures


class Named(Protocol):
    """A workload of an experiment."""

    @property
    def name(self) -> str:
        """As cells have it."""


_Trace = TypeVar("_Trace", bound=Named)


@dataclass(frozen=True, slots=True)
class OnTraces(Generic[_Trace]):
    """Simulates cells, each on its workload; travels to other places."""

    traces: Mapping[str, _Trace]
    simulate: Callable[[_Trace, Cell], Figures]

    @classmethod
    def of(cls, traces: Iterable[_Trace], simulate: Callable[[_Trace, Cell], Figures]) -> Self:
        """From the workloads that there are."""
        return cls({trace.name: trace for trace in traces}, simulate)

    def __call__(self, cell: Cell) -> Figures:
        """Simulate ``cell``."""
        return self.simulate(self.traces[cell.trace], cell)
