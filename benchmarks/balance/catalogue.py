"""The measures of balancing, and their goals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ..compare.engine import Goal, Quantity

PACED_ORDERS: Final = ",".join(f"{0.5 + 0.8 * i:.1f}:{'-+'[i % 2]}1" for i in range(6))
PACED_RATE: Final = 2.5e7
"""Nodes per second and worker: less than a tenth of a core each."""
PACED_DEPTH: Final = 14
COARSE: Final = Goal("<=", 1.03)
TWIN: Final = Goal(">=", 0.96)


@dataclass(frozen=True)
class Naps:
    """Tasks that sleep.

    Attributes:
        count: How many.
        mean: How long they are on average, in units of ``--nap``.
        variance: Of their lengths, in squared means; 0: all are the same.
        order: When a resize is ordered, in units of ``--nap``, and which: "-2"; None: none is.
    """

    count: int
    mean: float = 1.0
    variance: float = 0.0
    order: tuple[float, str] | None = None


@dataclass(frozen=True)
class Measure:
    """What the balancer is asked once a round.

    Attributes:
        workers: Workers per place.
        kernels: How many bare kernels run at once beside which it is measured, by session: a scheduler that groups
            processes by session, as Linux does, gives each session the same share of a busy machine. Empty: none.
        naps: Tasks that are coarse, beside greedy list scheduling; None: those of a UTS tree.
        quantities: Its lines; a ratio is that of our rate to the reference's.
        limit_s: Seconds after which it has failed.
    """

    name: str
    places: int
    workers: int
    kernels: tuple[int, ...]
    quantities: tuple[Quantity, ...]
    limit_s: float = 120.0
    naps: Naps | None = None


def _rates(what: str, least: float, beside: str) -> tuple[Quantity, ...]:
    goals = (Goal(">=", least),)
    return (
        Quantity("rate", f"{what}: rate / that of {beside}", "ratio", goals),
        Quantity("cpu", f"{what}: the same per CPU second", "ratio", goals),
        Quantity("starving", f"{what}: workers without work", "share"),
    )


def _naps(name: str, places: int, what: str, naps: Naps) -> Measure:
    quantity = Quantity("greedy", f"{what}: time / that of greedy list scheduling", "ratio", (COARSE,))
    return Measure(name, places, 1, (), (quantity,), 600.0, naps)


MEASURES: Final = {
    measure.name: measure
    for measure in (
        Measure(
            "one",
            1,
            1,
            (1,),
            (
                *_rates("1 place, 1 worker", 0.97, "a bare kernel"),
                Quantity("twin", "1 place, 1 worker: rate / that of the kernel in C", "ratio", (TWIN,)),
                Quantity("twin_cpu", "1 place, 1 worker: the same per CPU second", "ratio", (TWIN,)),
            ),
        ),
        Measure("workers", 1, 2, (2,), _rates("1 place, 2 workers", 0.95, "two bare kernels")),
        Measure("places", 2, 1, (1, 1), _rates("2 places", 0.95, "two bare kernels")),
        Measure(
            "many",
            8,
            1,
            (1, 1),
            (
                *_rates("8 places", 0.90, "two bare kernels"),
                Quantity("tail_s", "8 places: last task to the return of compute", "s", (Goal("<=", 0.020),)),
            ),
        ),
        Measure(
            "resize",
            4,
            1,
            (),
            (
                Quantity("grow", "others' throughput while 1 place joins 3", "share", (Goal(">=", 0.97),)),
                Quantity("shrink", "others' throughput while 1 of 4 leaves", "share", (Goal(">=", 0.97),)),
            ),
        ),
        _naps("coarse", 4, "16 long tasks on 4 places", Naps(16)),
        _naps("coarse-uneven", 4, "80 uneven tasks on 4 places", Naps(80, 0.16, 1.0)),
        _naps("coarse-shrink", 4, "16 long tasks, 2 of 4 places leave", Naps(16, order=(1.2, "-2"))),
        _naps("coarse-grow", 2, "16 long tasks, 2 places join 2", Naps(16, order=(1.2, "+2"))),
    )
}
