"""What a place more costs those above it in the trees, measured: ``python -m benchmarks.scaling per-place``.

The model of many places takes these figures (``Machine``). What is timed is the code that runs in a job, without the
messages, which the model counts apart.
"""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable, Sequence
from functools import partial
from statistics import median
from typing import Annotated, Final

import typer

from apgas.core.identity import Place
from apgas.core.messages import Members, PlaceInfo
from apgas.core.place import PlaceCore
from apgas.core.relay import branches
from apgas.runtime import serialization
from glb import messages
from glb.config import Harvest
from glb.core.ledger import Ledger
from glb.statistics import Statistics, added_up, packed, places_in

from ..compare import command_line, display
from ..compare.display import Sheet
from ..harness.errors import BadUsage

PROGRAM: Final = f"python -m {__package__} per-place"
_LEAST: Final = 1024


class Nothing:
    """A result without content: to merge results is the program's own affair."""

    def merge(self, other: Nothing) -> None:
        """Do nothing."""


def _handed_in(places: Sequence[int]) -> Harvest[Nothing]:
    counted = Statistics(300, 100, 100, 20, 10, 0, 110, 110, 9**9, 9**9, 9**8, 0, 0, 0, 9**10, 9.9, 0.01, 0.02, 0.03)
    return Harvest(Nothing(), b"".join(packed(place, counted) for place in places))


def _answers(places: Sequence[int]) -> list[list[bytes]]:
    """What the places below one answer when they are asked for results."""
    heads = branches(places, messages.FAN)
    return [[bytes(part) for part in serialization.dumps(_handed_in(branch))] for branch in heads]


def _cpu_s(act: Callable[[], object]) -> float:
    began_s = time.thread_time()
    act()
    return time.thread_time() - began_s


def count_s(places: int) -> float:
    """CPU seconds of place 0, per place, from asking for results to books that are closed."""
    answers = _answers(range(1, places))
    members = [Place(place) for place in range(places)]
    ledger = Ledger()
    ledger.joined(range(places))

    def collect() -> None:
        ids = array("q", [place.id for place in members])
        for branch in branches(ids[1:], messages.FAN):
            serialization.dumps((messages.collect, (1, branch[1:], 10.0), {}))
        harvest = _handed_in([0])
        harvest.add(serialization.loads(answer) for answer in answers)
        ledger.reported(places_in(harvest.rows), added_up(harvest.rows))
        set(ids).difference(places_in(harvest.rows))

    return _cpu_s(collect) / places


def carry_s(places: int) -> float:
    """CPU seconds of a child of place 0, per place below, to hand on what these hand in."""
    below = range(1, places // messages.FAN)
    answers = _answers(below)

    def hand_on() -> None:
        harvest = _handed_in([0])
        harvest.add(serialization.loads(answer) for answer in answers)
        serialization.dumps(harvest)

    return _cpu_s(hand_on) / len(below)


def member_s(places: int) -> float:
    """CPU seconds of any place, per member, to take the news of a newcomer and find whom to pass it on to."""
    infos = [PlaceInfo(place, "host", 1, "node", 1) for place in range(places + 1)]
    core = PlaceCore(1, infos[:-1], 0)
    return _cpu_s(lambda: core.received(0, Members(1, (infos[-1],), ()), [])) / places


FIGURES: Final[dict[str, tuple[Callable[[int], float], str]]] = {
    "count_s": (count_s, "place 0 takes what one place has counted"),
    "carry_s": (carry_s, "a place hands it on"),
    "member_s": (member_s, "a place takes the news of an epoch, for each member"),
}


def _command(
    places: Annotated[int, typer.Option(help="Places of the job.")] = 16384, rounds: command_line.Rounds = 21
) -> int:
    """Measure what a place more costs those above it in the trees of results and of news.

    Example: python -m benchmarks.scaling per-place --places 16384
    """
    command_line.check_rounds(rounds)
    if places < _LEAST:
        raise BadUsage(f"--places {places}", "what is shared by few places would be counted", f"give {_LEAST} or more")
    rows = [
        [name, about, f"{1e6 * median(measured(places) for _ in range(rounds)):.3f}"]
        for name, (measured, about) in FIGURES.items()
    ]
    sheet = Sheet(("figure", "of", "µs of CPU"), "llr", [rows])
    display.show_sheets(f"Costs of a place more on {places:,} places", [sheet], [f"medians of {rounds}"])
    return 0


main = partial(command_line.main, PROGRAM, _command)
