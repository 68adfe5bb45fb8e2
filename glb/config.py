"""Settings of a computation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from glb.core.graphs import Graph
from glb.core.lifelines import GRAPHS
from glb.errors import ConfigError


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
    warm_up: Callable[[], None] | None = None

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
        if isinstance(self.lifelines, str) and self.lifelines not in GRAPHS:
            raise ConfigError(f"lifelines is {self.lifelines!r}; it must be one of {', '.join(GRAPHS)}, or a graph")
