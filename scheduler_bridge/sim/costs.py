"""What a resize costs: models from nodes before and after to seconds."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import ClassVar, Final, Protocol, TypeAlias

from scheduler_bridge.policies.mebf import MIDDLE, ResizeModel
from scheduler_bridge.sim.speedup import UnknownModelError

Overhead: TypeAlias = tuple[float, float]
"""alpha and beta of a job [MEBF, equation 1]."""


class Cost(Protocol):
    """What a resize costs."""

    @property
    def stops(self) -> bool:
        """Whether the job stands still meanwhile; otherwise it goes on, at the smaller size."""

    def __call__(self, before: int, after: int, own: Overhead | None = None, /) -> float:
        """Seconds that it takes from so many nodes to so many a job that has such an overhead of its ``own``."""


KNOWN: Final = (
    "none, constant:SECONDS, mebf[:SCALE_S[:ALPHA:BETA]], measured[:FACTOR], "
    "fitted:GROW_S:GROW_NODE_S:SHRINK_S:SHRINK_NODE_S"
)


_MEBF: Final = ResizeModel(alpha=None, beta=None, b=MIDDLE, scale_s=10.0, theta=0.5, gamma=2.0)
"""With each job's own alpha and beta, as the policy ``mebf`` believes unless it is told otherwise."""


def _need_costs(name: str, *numbers: float) -> None:
    """See that a resize takes some time, and comes to an end.

    Raises:
        UnknownModelError: A number is negative, infinite, or none.
    """
    for number in numbers:
        if not 0 <= number < math.inf:
            raise UnknownModelError(f"{name}: {number}, must not be negative, and finite")


@dataclass(frozen=True, slots=True)
class Constant:
    """Every resize stops the job for as long.

    Attributes:
        seconds: How long.
    """

    stops: ClassVar[bool] = True
    seconds: float

    def __post_init__(self) -> None:
        _need_costs("constant", self.seconds)

    def __call__(self, before: int, after: int, own: Overhead | None = None) -> float:  # noqa: ARG002 - others need it
        """Seconds, whatever the sizes."""
        return self.seconds


@dataclass(frozen=True, slots=True)
class MebfCost:
    """MEBF's overheads, in which the job stops: redistribution of data, processes [MEBF, equations 1 and 2].

    Attributes:
        model: The parameters.
    """

    stops: ClassVar[bool] = True
    model: ResizeModel = _MEBF

    def __post_init__(self) -> None:
        model = self.model
        _need_costs("mebf", model.scale_s, *(number for number in (model.alpha, model.beta) if number is not None))

    def __call__(self, before: int, after: int, own: Overhead | None = None) -> float:
        """Seconds of both overheads."""
        return self.model.cost_s(before, after, own)


@dataclass(frozen=True, slots=True)
class Measured:
    """Fitted to resizes of this project's runtime: a base, and something for each node that comes or goes.

    The places that stay go on computing.

    Attributes:
        grow_s: Base of a grow.
        grow_node_s: For each node that comes.
        shrink_s: Base of a shrink.
        shrink_node_s: For each node that goes.
        factor: Times all of it.
    """

    stops: ClassVar[bool] = False
    grow_s: float = 0.25
    grow_node_s: float = 0.010
    shrink_s: float = 0.05
    shrink_node_s: float = 0.002
    factor: float = 1.0

    def __post_init__(self) -> None:
        _need_costs("measured", self.grow_s, self.grow_node_s, self.shrink_s, self.shrink_node_s, self.factor)

    def __call__(self, before: int, after: int, own: Overhead | None = None) -> float:  # noqa: ARG002 - MEBF's needs it
        """Seconds from the order to its end."""
        if after >= before:
            return self.factor * (self.grow_s + self.grow_node_s * (after - before))
        return self.factor * (self.shrink_s + self.shrink_node_s * (before - after))

    @property
    def text(self) -> str:
        """What ``parse_cost`` makes this model of."""
        numbers = (self.grow_s, self.grow_node_s, self.shrink_s, self.shrink_node_s)
        return "fitted:" + ":".join(f"{self.factor * number:.4g}" for number in numbers)


def fit(grows: Iterable[tuple[int, float]], shrinks: Iterable[tuple[int, float]]) -> Measured:
    """Fit ``Measured`` to resizes that were carried out: (nodes that came or went, seconds), by least squares.

    Of a kind that did not occur nothing is known: it costs nothing. No cost falls with the nodes.
    """
    return Measured(*fitted_line(grows), *fitted_line(shrinks))


def fitted_line(points: Iterable[tuple[int, float]]) -> tuple[float, float]:
    """The base and the rise per node of the straight line nearest to ``points``; neither is negative."""
    known = list(points)
    if not known:
        return 0.0, 0.0
    nodes, seconds = zip(*known, strict=True)
    mean_s = statistics.fmean(seconds)
    if len(set(nodes)) == 1:
        return mean_s, 0.0
    rise, base = statistics.linear_regression(nodes, seconds)
    if rise < 0:
        return mean_s, 0.0
    if base < 0:
        return 0.0, statistics.linear_regression(nodes, seconds, proportional=True).slope
    return base, rise


def parse_cost(text: str) -> Cost | None:
    """Make the model that ``text`` describes; None: resizes cost nothing.

    Raises:
        UnknownModelError: It describes none.
    """
    name, _, rest = text.partition(":")
    try:
        match name, rest:
            case "none", "":
                return None
            case "constant", seconds:
                return Constant(float(seconds))
            case "mebf", "":
                return MebfCost()
            case "mebf", numbers:
                scale_s, *known = (float(number) for number in numbers.split(":"))
                model = replace(_MEBF, scale_s=scale_s)
                return MebfCost(replace(model, **dict(zip(("alpha", "beta"), known, strict=True))) if known else model)
            case "measured", factor:
                return Measured(factor=float(factor) if rest else 1.0)
            case "fitted", numbers:
                grow_s, grow_node_s, shrink_s, shrink_node_s = (float(number) for number in numbers.split(":"))
                return Measured(grow_s, grow_node_s, shrink_s, shrink_node_s)
            case _:
                raise ValueError(name)
    except UnknownModelError:
        raise
    except ValueError:
        raise UnknownModelError(f"no cost model {text!r}; there are {KNOWN}") from None
