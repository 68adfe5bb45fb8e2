"""What was measured, and its JSON form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from .catalogue import MOST_LAG_S, Program


@dataclass(frozen=True)
class Resize:
    """A grow or a shrink in the middle of a run: its kind, nodes and seconds."""

    kind: str
    nodes: int
    seconds: float


@dataclass
class Series:
    """One benchmark on 1, 2, … emulated nodes.

    Attributes:
        program: Which.
        problem: Its arguments.
        unit: What tasks are.
        rate: Tasks per second that a node is held to.
        share: How much of a core a node uses.
        runs_s: Seconds of each round, by nodes.
        lag_s: The furthest that a worker fell behind its pace, by nodes.
        verified: Whether every result was the known one; None if none is known.
        resizes: What was resized in a run of its own.
        failure: Why it is not complete; empty if it is.
    """

    program: Program
    problem: Sequence[str]
    unit: str = ""
    rate: float = 0.0
    share: float = 0.0
    runs_s: dict[int, list[float]] = field(default_factory=dict)
    lag_s: dict[int, float] = field(default_factory=dict)
    verified: bool | None = None
    resizes: list[Resize] = field(default_factory=list)
    failure: str = ""

    @property
    def seconds(self) -> dict[int, float]:
        """Median of the rounds by nodes."""
        return {nodes: median(runs) for nodes, runs in sorted(self.runs_s.items())}

    def speedup(self, nodes: int) -> float | None:
        """Return the time on one node over that on ``nodes``."""
        seconds = self.seconds
        return seconds[1] / seconds[nodes] if 1 in seconds and nodes in seconds else None

    def late(self, nodes: int) -> bool:
        """Tell whether the machine, not the emulated nodes, decided."""
        return self.lag_s.get(nodes, 0.0) > MOST_LAG_S

    def as_json(self) -> dict[str, object]:
        """Return the JSON form; seconds, tasks per second."""
        return {
            "benchmark": self.program.name,
            "problem": " ".join(self.problem),
            "unit": self.unit,
            "rate_per_node": self.rate,
            "share_of_a_core": self.share,
            "verified": self.verified,
            "nodes": {
                str(nodes): {
                    "seconds": seconds,
                    "runs_s": self.runs_s[nodes],
                    "speedup": self.speedup(nodes),
                    "worst_lag_s": self.lag_s[nodes],
                    "trusted": not self.late(nodes),
                }
                for nodes, seconds in self.seconds.items()
            },
            "resizes": [
                {"kind": resize.kind, "nodes": resize.nodes, "seconds": resize.seconds} for resize in self.resizes
            ],
            "failure": self.failure,
        }


@dataclass
class Results:
    """Everything that a run found out.

    Attributes:
        cores: Cores that were there.
        share: How much of them the emulated nodes were to use.
        rounds: How often everything was run.
        series: By benchmark.
        ended: Whether everything was measured.
    """

    cores: int
    share: float
    rounds: int
    series: dict[str, Series] = field(default_factory=dict)
    ended: bool = False

    @property
    def complete(self) -> bool:
        """Whether nothing failed, and no result was wrong."""
        return self.ended and all(not each.failure and each.verified is not False for each in self.series.values())

    def as_json(self, provenance: Mapping[str, object]) -> dict[str, object]:
        """Return the content of the JSON file."""
        return {
            "benchmark": "scaling",
            "emulated": "each node is a place whose worker is held to a rate",
            "share": self.share,
            "cores": self.cores,
            "ended": self.ended,
            "rounds": self.rounds,
            "series": [series.as_json() for series in self.series.values()],
            "provenance": dict(provenance),
        }
