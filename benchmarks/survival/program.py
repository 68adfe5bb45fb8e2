"""One job whose places are killed at random: ``program.py NAME SEED FOLDER KILLS``; prints one JSON object."""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import accumulate
from pathlib import Path
from random import Random
from typing import Any, Final, cast

import apgas
import glb
from apgas.testing.handlers import ReleaseNewest
from glb import search

from ..bc import command as bc
from ..harness.cli import Benchmark
from ..nqueens import command as nqueens
from ..pi import command as pi
from ..uts import command as uts

PLACES: Final = 4
RUN_S: Final = 1.0
"""Seconds that a computation lasts at least, with four places."""
ORDERS: Final = 100

SIZE, BOARDS = 9, 8394
Board = tuple[int, ...]
EMPTY: Board = ()


@dataclass(frozen=True)
class Case:
    """A problem, with its tasks and its result."""

    make: Callable[[], Benchmark[Any]] | None
    tasks: int
    result: object


CASES: Final = {
    "uts": Case(partial(uts.command, depth=12), 66_106_929, 66_106_929),
    "nqueens": Case(partial(nqueens.command, 13), 884_686, 73_712),
    "bc": Case(
        partial(bc.command, 11),
        2048,
        {"sum": 10802007.999999998, "maximum": 147504.81799634793, "digest": "af9545e53708fc64"},
    ),
    "pi": Case(partial(pi.build, 10_000_000, 1), 10_000_000, 4 * 7_853_412 / 10_000_000),
    "search": Case(None, BOARDS, 352),
}


def children(queens: Board) -> list[Board]:
    """Return the boards with a queen in one more row."""
    row = len(queens)
    return [
        (*queens, column)
        for column in range(SIZE if row < SIZE else 0)
        if all(column != other and abs(column - other) != row - at for at, other in enumerate(queens))
    ]


def warm_up(folder: Path, warm: Callable[[], object] | None) -> None:
    """Let place 0 know the process before it is worth killing."""
    name = folder / f"{apgas.here().id}"
    name.with_suffix(".new").write_text(str(os.getpid()), encoding="ascii")
    name.with_suffix(".new").rename(name)
    if warm is not None:
        warm()


@dataclass
class Kill:
    """A place that was killed.

    Attributes:
        what: ``place``, ``newcomer`` or ``leaver``.
        together: How many were killed at once.
        recovered_s: Seconds until what it had to do was dealt to others; None: it had nothing.
        tasks: How many tasks were dealt.
    """

    place: int
    what: str
    together: int
    recovered_s: float | None = None
    tasks: int = 0


class Hunter(logging.Handler, ReleaseNewest):
    """Kills one place or two at once, now and then, but never place 0, and listens for what is done about it.

    Places leave the ids of their processes in ``folder``.
    """

    def __init__(self, rng: Random, folder: Path, most: int) -> None:
        super().__init__(logging.INFO)
        self.kills: dict[int, Kill] = {}
        self.began = threading.Event()
        self.over = threading.Event()
        self._rng = rng
        self._folder = folder
        self._most = most
        self._at: dict[int, float] = {}

    @property
    def done(self) -> bool:
        """Whether as many as wanted were killed."""
        return len(self.kills) >= self._most

    def run(self) -> None:
        """Kill until there were enough."""
        self.began.wait()
        while not self.done and not self.over.wait(self._rng.uniform(0, 0.5)):
            living = sorted(self._processes())
            two = self._rng.random() < 0.3
            self._kill(self._rng.sample(living, min(len(living), 2 if two else 1)))

    def preShrink(self, nb_places: int) -> Sequence[apgas.Place]:
        """Choose who leaves, and kill some of them on their way out."""
        living = [place for place in apgas.places() if place.id in self._processes()]
        leavers = self._rng.sample(living, min(len(living), nb_places))
        if self._rng.random() < 0.5:
            kill = partial(self._kill, [place.id for place in leavers], "leaver")
            threading.Timer(self._rng.uniform(0, 0.02), kill).start()
        return leavers

    def emit(self, record: logging.LogRecord) -> None:
        """Note that what dead places had to do is done again."""
        now = time.monotonic()
        place, _, tasks = cast("tuple[int, int, int]", record.args)
        if (kill := self.kills.get(place)) is not None:
            kill.recovered_s, kill.tasks = now - self._at[place], tasks

    def _processes(self) -> dict[int, int]:
        pids = {int(path.name): path for path in self._folder.iterdir() if path.suffix != ".new"}
        return {place: int(pids[place].read_text()) for place in pids.keys() - {0, *self.kills}}

    def _kill(self, places: list[int], what: str = "") -> None:
        processes = self._processes()
        victims = [place for place in places if place in processes]
        for place in victims:
            with suppress(ProcessLookupError):  # it was released
                self._at[place] = time.monotonic()
                os.kill(processes[place], signal.SIGKILL)
                kind = what or ("place" if place < PLACES else "newcomer")
                self.kills[place] = Kill(place, kind, len(victims))


def compute(name: str, rng: Random, folder: Path, config: glb.Config) -> dict[str, object]:
    """Compute once; say whether the result is exact, and as many tasks were counted as there are."""
    case = CASES[name]
    config = replace(config, rate=case.tasks / (PLACES * RUN_S))
    value: object
    if case.make is None:
        found = search.fold(EMPTY, children, lambda queens: 1 if len(queens) == SIZE else None, config=config)
        value, statistics = found.result.value, found.statistics
    else:
        benchmark = case.make()
        config = replace(
            config,
            static=benchmark.static and rng.random() < 0.5,
            warm_up=partial(warm_up, folder, benchmark.warm_up),
        )
        outcome = glb.compute(benchmark.make_bag(config.rate), benchmark.make_result, config)
        value, statistics = benchmark.value(outcome.result), outcome.statistics
    return {
        "exact": value == case.result and statistics.tasks == case.tasks,
        "value": value,
        "tasks": statistics.tasks,
        "backups": statistics.backups,
        "backup_bytes": statistics.backup_bytes,
        "kept_bytes": statistics.kept_bytes,
    }


def main() -> None:
    """Compute until as many places as wanted were killed."""
    name, seed, folder, most = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4])
    rng = Random(f"{name} {seed}")
    hunter = Hunter(rng, folder, most)
    logger = logging.getLogger("glb")
    logger.setLevel(logging.INFO)
    logger.addHandler(hunter)
    config = glb.Config(
        workers=1,
        on_progress=lambda done, *_: hunter.began.set() if done else None,
        warm_up=partial(warm_up, folder, None),
        backup_s=rng.choice((0.05, 0.2, 1.0)),
        seed=seed,
    )
    times = accumulate(rng.uniform(0, 1) for _ in range(ORDERS))
    apgas.schedule_orders(",".join(f"{at:.2f}:{rng.choice(('+1', '+1', '+1', '-1'))}" for at in times))
    glb.set_user_handler(hunter)
    thread = threading.Thread(target=hunter.run)
    thread.start()
    runs = []
    try:
        while not hunter.done:
            runs.append(compute(name, rng, folder, config))
    finally:
        hunter.began.set()
        hunter.over.set()
        thread.join()
    kills = [asdict(kill) for kill in hunter.kills.values()]
    orders = [record.outcome for record in apgas.resizes()]
    places = [place.id for place in apgas.places()]
    sys.stdout.write(json.dumps({"runs": runs, "kills": kills, "orders": orders, "places": places}) + "\n")


if __name__ == "__main__":
    apgas.run(main)
