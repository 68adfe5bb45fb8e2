"""Counts of what each place did, from which the ledger is made, and the summary of a run in a table and a sentence."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property, reduce
from operator import add
from typing import Final

_MOST: Final = ("kept_bytes", "worst_lag_s")


@dataclass(slots=True)
class Statistics:
    """Counts of one place, or of several merged.

    Attributes:
        steals_tried: Random victims asked.
        steals_won: Random victims that gave.
        steals_suffered: Bags given to random thieves.
        lifeline_requests: Lifeline buddies asked.
        lifeline_deals: Bags given to lifeline thieves.
        evacuation_deals: Bags given away because the place was to leave.
        sent: Bags given to other places (ledger).
        received: Bags taken from other places (ledger).
        tasks_sent: Tasks in the bags given, where bags have a length (ledger).
        tasks_received: Tasks in the bags taken, where bags have a length (ledger).
        bytes_sent: Bytes of the bags given.
        backups: Messages to place 0 with what another place has to do, or gives away (counted by place 0).
        backup_bytes: Bytes of the bags in them.
        kept_bytes: The most that such bags took at place 0 at one time.
        tasks: Tasks processed.
        busy_s: Worker-seconds spent processing, pauses of a limited rate included.
        balancing_s: Worker-seconds with a bag but not processing: giving work away, starting siblings.
        stealing_s: Worker-seconds without a bag while the place waited for the answer of a random victim.
        starving_s: Worker-seconds without a bag otherwise: no place had anything to give.
        worst_lag_s: Longest time that a worker of limited rate was behind its schedule.
        given_up_s: Worker-seconds that workers of limited rate were behind for good: too far to catch up.
    """

    steals_tried: int = 0
    steals_won: int = 0
    steals_suffered: int = 0
    lifeline_requests: int = 0
    lifeline_deals: int = 0
    evacuation_deals: int = 0
    sent: int = 0
    received: int = 0
    tasks_sent: int = 0
    tasks_received: int = 0
    bytes_sent: int = 0
    backups: int = 0
    backup_bytes: int = 0
    kept_bytes: int = 0
    tasks: int = 0
    busy_s: float = 0.0
    balancing_s: float = 0.0
    stealing_s: float = 0.0
    starving_s: float = 0.0
    worst_lag_s: float = 0.0
    given_up_s: float = 0.0

    def merge(self, other: Statistics) -> None:
        """Add ``other``'s counts; of what is the most or the worst of something the larger one stays."""
        for name in _COUNTS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name in _MOST:
            setattr(self, name, max(getattr(self, name), getattr(other, name)))

    def __reduce__(self) -> tuple[type[Statistics], tuple[float, ...]]:
        """Travel as the numbers alone: place 0 takes those of all places at each resize."""
        return Statistics, tuple(getattr(self, name) for name in Statistics.__slots__)


_COUNTS: Final = tuple(field.name for field in fields(Statistics) if field.name not in _MOST)

# The counts of many places, packed ------------------------------------------------------------------------------------
#
# At the end place 0 takes the counts of all places, and may be the only one that still works. So they travel as rows of
# numbers, one a place, that are put behind one another on the way. Place 0 adds up columns, and reads a row when a
# program wants to see it.

_FIELDS: Final = [(field.name, float if field.type == "float" else int) for field in fields(Statistics)]
_ROW: Final = struct.Struct("=q" + "".join("q" if kind is int else "d" for _, kind in _FIELDS))
"""The id of a place, and what it has counted: eight bytes each."""
ROW_BYTES: Final = _ROW.size
_WIDTH: Final = ROW_BYTES // 8


def packed(place: int, statistics: Statistics) -> bytes:
    """Return the row of a place."""
    # the bags of a program may count in the numbers of a library
    return _ROW.pack(place, *(kind(getattr(statistics, name)) for name, kind in _FIELDS))


def places_in(rows: bytes) -> list[int]:
    """Return the ids of the places whose rows these are."""
    ids: list[int] = memoryview(rows).cast("q")[::_WIDTH].tolist()
    return ids


def added_up(rows: bytes) -> Statistics:
    """Return what the places have counted together, as ``Statistics.merge`` would to the last bit."""
    total = Statistics()
    whole, real = memoryview(rows).cast("q"), memoryview(rows).cast("d")
    for at, (name, kind) in enumerate(_FIELDS if rows else (), 1):
        column = (whole if kind is int else real)[at::_WIDTH].tolist()
        # not ``sum``: from Python 3.12 on it compensates what additions one by one round off
        setattr(total, name, max(column) if name in _MOST else reduce(add, column))
    return total


class ByPlace(Mapping[int, Statistics]):
    """The counts of each place, by id: the ``rows`` of the end, and what leavers had handed in ``before``."""

    def __init__(self, rows: bytes, before: Mapping[int, Statistics]) -> None:
        self._rows = rows
        self._before = before

    @cached_property
    def _all(self) -> dict[int, Statistics]:
        found = {place: replace(statistics) for place, statistics in self._before.items()}
        for place, *counts in _ROW.iter_unpack(self._rows):
            found.setdefault(place, Statistics()).merge(Statistics(*counts))
        return dict(sorted(found.items()))

    def __getitem__(self, place: int) -> Statistics:
        return self._all[place]

    def __iter__(self) -> Iterator[int]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)

    def __repr__(self) -> str:
        return repr(self._all)


# The numbers of a bag -------------------------------------------------------------------------------------------------


def size_of(bag: object) -> tuple[int, int]:
    """Return the number of tasks that ``bag`` holds and its bytes, each 0 if it does not say."""
    return tasks_in(bag), int(getattr(bag, "nbytes", 0))


def tasks_in(bag: object) -> int:
    """Return the number of tasks that ``bag`` holds, or 0 if it has no length."""
    length = getattr(type(bag), "__len__", None)
    return 0 if length is None else int(length(bag))


# What the statistics say, for people: a line per place, and a sentence -----------------------------------------------

SUMMARY_HEADS: Final = (
    "place", "tasks", "share", "busy", "balancing", "stealing", "starving", "steals won", "given", "sent",
)  # fmt: skip
"""The columns of ``summary_rows``."""
_WELL: Final = 0.95
_UNEVEN: Final = 1.25
_PREFIXES: Final = ("", "k", "M", "G", "T", "P")
_CAUSES: Final = {
    "starving": "waited for work that no place had to give: there was too little of it at the beginning or at the end, "
    "or it could not be split",
    "stealing": "waited for the answers of victims: bags are worked off faster than new ones come",
    "balancing": "went into giving work away: bags are large, slow to split, or split too often",
}


def _shares(its: Statistics) -> dict[str, float]:
    """Where the time of workers went, as shares of 1."""
    parts = {"busy": its.busy_s, "balancing": its.balancing_s, "stealing": its.stealing_s, "starving": its.starving_s}
    total = sum(parts.values()) or 1.0
    return {name: part / total for name, part in parts.items()}


def summary_rows(places: Mapping[int, Statistics], total: Statistics) -> list[tuple[str, ...]]:
    """Return the cells under ``SUMMARY_HEADS``: one row per place, and the last one for all of them.

    "steals won": random victims that gave, of those that were asked; "given": bags given to thieves and, in brackets,
    by leavers; "sent": bytes of them.
    """
    lines = [_row(str(place), statistics, total.tasks) for place, statistics in sorted(places.items())]
    return [*lines, _row("all", total, total.tasks)]


def _row(name: str, its: Statistics, tasks: int) -> tuple[str, ...]:
    given = f"{its.steals_suffered + its.lifeline_deals}"
    if its.evacuation_deals:
        given += f" ({its.evacuation_deals})"
    return (
        name,
        _scaled(its.tasks),
        _percent(its.tasks / tasks if tasks else 0.0),
        *map(_percent, _shares(its).values()),
        f"{its.steals_won} of {its.steals_tried}",
        given,
        f"{_scaled(its.bytes_sent)}{'' if its.bytes_sent >= 999.5 else ' '}B",
    )


def summary_finding(places: Mapping[int, Statistics], total: Statistics) -> str:
    """Say in a sentence or two where the time went, and whether the work was spread evenly."""
    shares = _shares(total)
    said = f"Workers were busy {_percent(shares['busy'])} of the time"
    if shares["busy"] < _WELL:
        lost = max(_CAUSES, key=shares.__getitem__)
        said += f"; {_percent(shares[lost])} {_CAUSES[lost]}"
    return f"{said}. {_spread(places)}".rstrip()


def _spread(places: Mapping[int, Statistics]) -> str:
    if len(places) < 2:
        return ""
    busy = {place: its.busy_s for place, its in places.items()}
    mean = sum(busy.values()) / len(busy)
    most, least = max(busy, key=lambda place: busy[place]), min(busy, key=lambda place: busy[place])
    if busy[most] <= _UNEVEN * mean and busy[least] * _UNEVEN >= mean:
        return "The places worked about equally long."
    return f"Place {most} worked {busy[most]:.2f} s, place {least} {busy[least]:.2f} s; the mean is {mean:.2f} s."


def summary_text(places: Mapping[int, Statistics], total: Statistics) -> str:
    """Return the table and the sentence as plain text."""
    lines: Sequence[Sequence[str]] = [SUMMARY_HEADS, *summary_rows(places, total)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    table = ["  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)) for line in lines]
    return "\n".join([*table, summary_finding(places, total)])


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _scaled(value: float) -> str:
    power = 0
    while value >= 999.5 and power < len(_PREFIXES) - 1:
        value /= 1000
        power += 1
    return f"{value:.0f}" if power == 0 else f"{value:.3g} {_PREFIXES[power]}"
