"""Which runs make up the picture, and what is kept of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from ...harness.errors import BadUsage
from .engine import Finish, Job, Machine, Model, Outcome

FINISHES: Final[tuple[Finish, ...]] = ("none", "tree", "home")
STEALS: Final = (0, 1, 2, 3, 5, 8)
RADICES: Final = (2, 4, 8, 16, 32)
MOST_PLACES: Final = 1_000_000
_STEP: Final = 4


@dataclass(frozen=True)
class Point:
    """One run of the model, in the terms of the table.

    Attributes:
        job: What was computed.
        efficiency: Ideal time over time, the end included.
        balance: Ideal time over time up to the last task.
        steals: Bags received per place.
        messages: Messages per place.
        home_messages: Messages that place 0 sent or received.
        spread_s: When 99 % of the places had had work; None if never.
        end_s: From the last task to the result.
        total_s: From the first task to the result.
    """

    job: Job
    efficiency: float
    balance: float
    steals: float
    messages: float
    home_messages: int
    spread_s: float | None
    end_s: float
    total_s: float

    @classmethod
    def of(cls, outcome: Outcome) -> Point:
        """Return what is kept of a run."""
        return cls(
            job=outcome.job,
            efficiency=outcome.efficiency,
            balance=outcome.balance,
            steals=outcome.steals,
            messages=outcome.messages_per_place,
            home_messages=outcome.home_messages,
            spread_s=outcome.spread_s[2],
            end_s=outcome.end_s,
            total_s=outcome.total_s,
        )

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Point:
        """Return what ``dataclasses.asdict`` wrote."""
        return cls(**{**content, "job": Job(**content["job"])})


@dataclass(frozen=True)
class Sweep:
    """The runs of one picture.

    Attributes:
        sizes: By number of places, for each kind of finish.
        steals: By number of random steals.
        graphs: By lifeline graph.
    """

    sizes: tuple[Job, ...]
    steals: tuple[Job, ...]
    graphs: tuple[Job, ...]

    @property
    def jobs(self) -> tuple[Job, ...]:
        """All runs, each once, small ones first."""
        return tuple(sorted(dict.fromkeys((*self.sizes, *self.steals, *self.graphs)), key=lambda job: job.places))


def sweep(places: Sequence[int], base: Job, at: int, most_reports: int) -> Sweep:
    """Return the runs for ``places``; w and the graphs are varied ``at`` a number of places.

    Args:
        places: Numbers of places.
        base: All but the number of places.
        at: Places of the runs with another w or graph.
        most_reports: Above so many places only the stealing itself is modelled.
    """
    still = replace(base, places=at, finish="none")
    hypercubes = tuple(replace(still, radix=radix) for radix in RADICES if radix <= at)
    others = [replace(still, lifelines="kautz", radix=4), replace(still, lifelines="random", radix=4)]
    return Sweep(
        sizes=tuple(
            replace(base, places=count, finish=finish)
            for finish in FINISHES
            for count in places
            if finish == "none" or count <= most_reports
        ),
        steals=tuple(replace(still, random_steals=steals) for steals in STEALS),
        graphs=(*hypercubes, *others, replace(still, lifelines="ring")),
    )


def run(job: Job, machine: Machine, on_progress: Any = None) -> Point:
    """Run the model once."""
    return Point.of(Model(job, machine, on_progress).run())


def parse_places(text: str) -> tuple[int, ...]:
    """Parse ``16,64,1000`` or ``16..100000``, which goes up in steps of 4 times.

    Raises:
        BadUsage: That makes no numbers of places.
    """
    try:
        found = sorted({count for part in text.split(",") for count in _range(part)})
    except ValueError:
        found = []
    if not found or found[0] < 2 or found[-1] > MOST_PLACES:
        raise BadUsage(
            f"--places {text}",
            f"these are no numbers of places from 2 to {MOST_PLACES:,}",
            "give them like --places 16,1000 or --places 16..4096",
        )
    return tuple(found)


def _range(part: str) -> Iterator[int]:
    first, dots, last = part.partition("..")
    count, most = int(first), int(last if dots else first)
    while count < most:
        yield count
        count *= _STEP
    yield most


def as_json(points: Sequence[Point], machine: Machine, provenance: Mapping[str, object]) -> dict[str, object]:
    """Return the content of the JSON file; seconds are those of the model."""
    return {
        "benchmark": "scaling model",
        "simulated": True,
        "machine": asdict(machine),
        "runs": [asdict(point) for point in points],
        "provenance": dict(provenance),
    }


def known(content: Mapping[str, Any], machine: Machine) -> dict[Job, Point]:
    """Return the runs in the content of a JSON file that need not be repeated."""
    if content.get("benchmark") != "scaling model" or content.get("machine") != asdict(machine):
        return {}
    points = [Point.from_json(run) for run in content["runs"]]
    return {point.job: point for point in points}
