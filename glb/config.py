"""Settings of a computation, and what every place must know of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

import msgspec

import apgas
from apgas.runtime import serialization
from apgas.runtime.driver import required_driver
from glb.bag import Result
from glb.core.backup import Backup
from glb.core.lifelines import GRAPHS, Graph
from glb.errors import ConfigError
from glb.statistics import Statistics


def check_whole(name: str, value: object, least: int) -> None:
    """Refuse what is not a whole number of at least ``least``.

    Raises:
        ConfigError: It is none; names it.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ConfigError(f"{name} is {value!r}; it must be a whole number of at least {least}")


@dataclass(frozen=True, kw_only=True)
class Config:
    """How to balance; the defaults suit most programs.

    Attributes:
        workers: Computing threads in each place; None: cores divided by the initial places on the machine, at least 1;
            and 1 for a bag whose ``releases_gil`` is False.
        granularity: Tasks per call of ``process``; None: tuned to calls of ``target_s``. Where calls take 5 ms or more,
            the rest of the bag is within reach of others during the call.
        target_s: Seconds that a call of ``process`` should take when the granularity tunes itself.
        random_steals: Random victims that a place asks before it turns to its lifelines.
        lifelines: Shape of the lifeline graph: ``hypercube`` (cyclic, of any number of places), ``kautz`` (the shortest
            ways for its out-degree), ``random`` (random regular), ``ring``, ``complete``, or a ``glb.Graph``.
        radix: Radix of the hypercube; out-degree of ``kautz`` and ``random``.
        rate: Tasks per second that a worker may process, to emulate slower nodes; None: no limit.
        static: Partition the bag over all places at the start instead of giving it to place 0.
        seed: Seed of the choice of victims and of the ``random`` graph.
        affinity: Whether the places of a machine share out the cores that they have inherited, a part each in
            proportion to its workers, as long as there is a core for every worker. Where the system knows no affinity
            this has no effect.
        on_progress: Called on place 0, in a thread of its own, with (tasks done, places, workers).
        warm_up: Called once on every place before it works; not counted in the seconds of the initial places.
        backup_s: In a resilient job: seconds of work that are done again, at most about, for each place that dies; the
            computation goes on without it. Where places share cores, a second of work takes longer. None: the loss of a
            place ends the computation. Otherwise without effect.
        target_efficiency: The share of the nodes' time, like 0.9, that is to go into work: the job asks for nodes and
            gives some back to hold it, and keeps the count of its reversals from one computation to the next. An
            ``apgas.Sizing`` has more settings. None: the job leaves its size to others.
    """

    workers: int | None = None
    granularity: int | None = None
    target_s: float = 0.0003
    random_steals: int = 3
    lifelines: str | Graph = "hypercube"
    radix: int = 2
    rate: float | None = None
    static: bool = False
    seed: int = 0
    affinity: bool = True
    on_progress: Callable[[int, int, int], None] | None = None
    warm_up: Callable[[], object] | None = None
    backup_s: float | None = 1.0
    target_efficiency: float | apgas.Sizing | None = None

    def __post_init__(self) -> None:
        for name, least in (("workers", 1), ("granularity", 1), ("random_steals", 0), ("radix", 2)):
            value = getattr(self, name)
            if value is None and name in ("workers", "granularity"):
                continue
            check_whole(name, value, least)
        if self.rate is not None and not 0 < self.rate < float("inf"):
            raise ConfigError(f"rate is {self.rate!r}; it must be a positive number of tasks per second")
        if not 0.00005 <= self.target_s <= 60:
            raise ConfigError(f"target_s is {self.target_s!r}; it must be between 0.00005 and 60 seconds")
        if self.backup_s is not None and not 0 < self.backup_s < float("inf"):
            raise ConfigError(f"backup_s is {self.backup_s!r}; it must be a positive number of seconds, or None")
        if self.target_efficiency is not None:
            try:
                apgas.Sizing.of(self.target_efficiency)
            except (apgas.UsageError, TypeError) as error:
                raise ConfigError(f"target_efficiency is {self.target_efficiency!r}: {error}") from None
        if isinstance(self.lifelines, str) and self.lifelines not in GRAPHS:
            raise ConfigError(f"lifelines is {self.lifelines!r}; it must be one of {', '.join(GRAPHS)}, or a graph")


def computation_survives(config: Config) -> bool:
    """Return whether a computation with these settings goes on when a place other than 0 dies."""
    return config.backup_s is not None and apgas.resilient()


def freeze(value: object) -> tuple[bytes, ...]:
    """Pickle something as if it travelled, and copy what would travel beside the pickle.

    Objects that it refers to on places are kept for good, for nothing counts these copies.

    Raises:
        TypeError: It cannot be pickled; the text says what in it.
    """
    payload = serialization.dumps(value)
    if isinstance(payload, serialization.Carrying):
        for handle in payload.handles:
            required_driver().counting.keep(handle)
    return tuple(map(bytes, payload))


# What every place must know of a computation, and what it hands in ---------------------------------------------------

R = TypeVar("R", bound=Result)
T = TypeVar("T")


class Setup(Generic[R]):
    """The parameters of a computation; picklable.

    What comes from the program is unpickled on first use only: it may import for half a second, and a newcomer shall
    answer before that. ``keeps``: whether it goes on in another life of the program if place 0 dies.

    Raises:
        TypeError: As for ``freeze``.
    """

    def __init__(
        self, number: int, make_result: Callable[[], R], workers: int, config: Config, *, keeps: bool = False
    ) -> None:
        self.number = number
        self.workers = workers
        self.survives = computation_survives(config)
        self.keeps = keeps
        self.config = replace(config, on_progress=None, warm_up=None, target_efficiency=None)
        self._frozen = freeze((make_result, config.warm_up))
        self._program: tuple[Callable[[], R], Callable[[], object] | None] | None = make_result, config.warm_up

    def __getstate__(self) -> dict[str, object]:
        return self.__dict__ | {"_program": None}

    def make_result(self) -> R:
        """Make an empty result."""
        return self._load()[0]()

    def warm_up(self) -> None:
        """Load the program's part and call its warm-up, if it has one."""
        warm_up = self._load()[1]
        if warm_up is not None:
            warm_up()

    def _load(self) -> tuple[Callable[[], R], Callable[[], object] | None]:
        if self._program is None:
            self._program = serialization.loads(self._frozen)
        return self._program


class PlaceResult(msgspec.Struct, Generic[R], frozen=True):
    """Result and counts of a place since it joined or since its last report.

    Attributes:
        result: Its part of the result; None: it is in the backup, or the place has given the computation up.
        present_s: The time that the report covers; may begin before the computation.
        backup: Its last one, if the computation survives losses.
    """

    place: int
    result: R | None
    statistics: Statistics
    present_s: float
    backup: Backup[R] | None = None

    def counted(self, running_s: float, workers: int) -> Statistics:
        """Return the counts without the wait of ``workers`` for others to warm up, which is not starving."""
        early_s = max(0.0, self.present_s - running_s)
        return replace(self.statistics, starving_s=max(0.0, self.statistics.starving_s - early_s * workers))


class Harvest(msgspec.Struct, Generic[R]):
    """What some places hand in at the end: their results, merged, and what each of them has counted, ``packed``."""

    result: R
    rows: bytes

    def add(self, others: Iterable[Harvest[R]]) -> None:
        """Take what other places have handed in; it is not to be used any more."""
        rows = [self.rows]
        for other in others:
            self.result.merge(other.result)
            rows.append(other.rows)
        self.rows = b"".join(rows)


def everywhere(places: Sequence[int], fn: Callable[..., T], *args: object, survives: bool) -> dict[int, T]:
    """Run ``fn(*args)`` on all ``places`` at once and return the values by place.

    With ``survives`` those of places that die meanwhile are missing; else their loss is an error.

    Raises:
        ExceptionGroup: It failed on some of them.
    """
    futures: dict[int, apgas.Future[T]] = {}
    with suppress_losses(survives), apgas.finish():
        for place in places:
            try:
                futures[place] = apgas.async_at(place, fn, *args)
            except apgas.DeadPlaceError:
                if not survives:
                    raise
    return {place: future.result() for place, future in futures.items() if future.exception() is None}


@contextmanager
def suppress_losses(survives: bool = True) -> Iterator[None]:
    """Pass over a group of errors if all of them report the death of places, which the computation ``survives``."""
    try:
        yield
    except ExceptionGroup as group:
        if not survives or group.split(apgas.DeadPlaceError)[1] is not None:
            raise
