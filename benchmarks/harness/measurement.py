"""What a run measured, and its JSON form (the command-line contract)."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from apgas import ResizeRecord
    from glb import Statistics


@dataclass
class Measurement:
    """One run of a benchmark.

    Attributes:
        benchmark: Its name.
        parameters: The instance.
        unit: What tasks are.
        rule: What a rate counts.
        noun: What the result counts, if it is a whole number.
        workers: Computing threads per place.
        places_start: Places when the first computation began.
        places_end: Places when the last one ended.
        result: The value.
        verified: Whether it is the expected one; None: unknown.
        checked_against: What it was compared with, in words.
        runs_s: Seconds of each repetition.
        tasks: Tasks of one computation.
        steals: Bags that moved from one place to another, for want of work there, in the last computation.
        resizes: What became of each order.
        startup: Seconds of the start on place 0: ``runtime_s`` from the making of its process to the program,
            ``balancer_s`` from there to the first computation; empty where the system does not tell.
        statistics: Sums over the places, last computation.
        places: The counts of each place that took part in it, with its id and node.
        counts: The same by place, as the balancer returned them; not in the JSON form.
        total: The sums, likewise.
        provenance: See ``provenance.gather``.
        notes: More lines for the table, name and text.
    """

    benchmark: str
    parameters: Mapping[str, object]
    unit: str
    rule: str
    noun: str
    workers: int
    places_start: int
    places_end: int = 0
    result: object = None
    verified: bool | None = None
    checked_against: str = ""
    runs_s: list[float] = field(default_factory=list)
    tasks: int = 0
    steals: int = 0
    resizes: Sequence[ResizeRecord] = ()
    startup: Mapping[str, float] = field(default_factory=dict)
    statistics: Mapping[str, object] = field(default_factory=dict)
    places: Sequence[Mapping[str, object]] = ()
    counts: Mapping[int, Statistics] = field(default_factory=dict)
    total: Statistics | None = None
    provenance: Mapping[str, object] = field(default_factory=dict)
    notes: Sequence[tuple[str, str]] = ()

    @property
    def seconds(self) -> float:
        """Median over the repetitions."""
        return median(self.runs_s)

    @property
    def rate(self) -> float:
        """Tasks per second."""
        return self.tasks / self.seconds if self.seconds > 0 else 0.0

    def carried_out(self, kind: str) -> int:
        """Return the number of orders of this kind, "grow" or "shrink", that were carried out."""
        return sum(resize.kind == kind and resize.outcome == "done" for resize in self.resizes)

    def as_json(self) -> dict[str, object]:
        """Return the content of the JSON file."""
        return {
            "benchmark": self.benchmark,
            "parameters": dict(self.parameters),
            "result": self.result,
            "verified": self.verified,
            "seconds": self.seconds,
            "runs_s": self.runs_s,
            "places_start": self.places_start,
            "places_end": self.places_end,
            "workers": self.workers,
            "grows": self.carried_out("grow"),
            "shrinks": self.carried_out("shrink"),
            "resizes": [_resize(resize) for resize in self.resizes],
            "tasks": self.tasks,
            "unit": self.unit,
            "steals": self.steals,
            "startup": dict(self.startup),
            "statistics": dict(self.statistics),
            "places": [dict(place) for place in self.places],
            "provenance": dict(self.provenance),
        }


def _resize(record: ResizeRecord) -> dict[str, object]:
    return {
        "kind": record.kind,
        "n": record.n,
        "at_s": record.at_s,
        "seconds": record.seconds,
        "phases": dict(record.phases),
        "outcome": record.outcome,
        "reason": record.reason,
        "nodes": list(record.nodes),
    }
