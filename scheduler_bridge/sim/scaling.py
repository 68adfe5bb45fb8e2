"""How simulated jobs scale, and what resizing costs them: the models of the field, and measured ones."""

from __future__ import annotations

import math
import statistics
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar, Final, Protocol, TypeAlias, TypeVar

from scheduler_bridge.model.job import LARGEST
from scheduler_bridge.policies.mebf import MIDDLE, ResizeModel

# Speedup -------------------------------------------------------------------------------------------------------------

Speedup: TypeAlias = Callable[[int], float]
"""How fast a job runs on a number of nodes; only ratios count."""
_Model = TypeVar("_Model")


class UnknownModelError(ValueError):
    """A text that describes no model of its kind; says which there are."""


def amdahl(parallel: float) -> Speedup:
    """A share of the work, from 0 to 1, is parallel, the rest is not [Amdahl 1967]: times as fast as on one node."""
    if not 0 <= parallel <= 1:
        raise UnknownModelError(f"amdahl: the parallel share is {parallel}, must be from 0 to 1")
    return lambda nodes: 1.0 / ((1.0 - parallel) + parallel / nodes)


def power(rho: float) -> Speedup:
    """As a power: n nodes are n^(1 - rho) times as fast as one [MEBF, section 2.2; the exponent is D].

    ``rho``: from 0 (linear) to 1 (no faster).
    """
    if not 0 <= rho <= 1:
        raise UnknownModelError(f"power: rho is {rho}, must be from 0 to 1")
    return lambda nodes: math.pow(nodes, 1.0 - rho)


def downey(a: float, s: float) -> Speedup:
    """Downey's model [A model for speedup of parallel programs, UCB/CSD-97-933, 1997]: times as fast as on one node.

    Args:
        a: A, the average parallelism, at least 1.
        s: Sigma, the coefficient of variation of the parallelism; 0: linear up to A.
    """
    if not (1 <= a <= LARGEST and 0 <= s <= LARGEST):
        raise UnknownModelError(f"downey: A is {a}, from 1; sigma {s}, from 0; both at most {LARGEST:g}")

    def speedup(nodes: int) -> float:
        n = float(nodes)
        if s <= 1.0:
            if n <= a:
                return a * n / (a + s / 2.0 * (n - 1.0))
            if n <= 2.0 * a - 1.0:
                return a * n / (s * (a - 0.5) + n * (1.0 - s / 2.0))
        elif n <= a + a * s - s:
            return n * a * (s + 1.0) / (s * (n + a - 1.0) + a)
        return a

    return speedup


def table(runtimes_s: Sequence[tuple[int, float]]) -> Speedup:
    """Measured runtimes, as (nodes, seconds) by rising nodes: work per second.

    Between two sizes it is interpolated; below the smallest one it falls like the nodes, and above the largest one it
    does not rise any more [D].
    """
    sizes, times_s = [nodes for nodes, _ in runtimes_s], [seconds for _, seconds in runtimes_s]
    positive = all(0 < seconds <= LARGEST for seconds in times_s)
    if not sizes or sizes != sorted(set(sizes)) or sizes[0] < 1 or not positive:
        what = f"must have rising nodes and positive seconds, at most {LARGEST:g}"
        raise UnknownModelError(f"table: {runtimes_s} {what}")

    def speedup(nodes: int) -> float:
        right = bisect_right(sizes, nodes)
        if right == 0:
            return nodes / sizes[0] / times_s[0]
        low = sizes[right - 1]
        if right == len(sizes) or low == nodes:
            return 1.0 / times_s[right - 1]
        share = (nodes - low) / (sizes[right] - low)
        return (1.0 - share) / times_s[right - 1] + share / times_s[right]

    return speedup


KNOWN_SPEEDUPS: Final = "linear, amdahl:P, power:RHO, downey:A:SIGMA, table:N=SECONDS,N=SECONDS,..."


def parse_speedup(text: str) -> Speedup:
    """Make the model that ``text`` describes.

    Raises:
        UnknownModelError: It describes none.
    """
    return _described(text, _SPEEDUPS, f"no speedup model {text!r}; there are {KNOWN_SPEEDUPS}")


_SPEEDUPS: Final[Mapping[str, Callable[..., Speedup]]] = {
    "linear": lambda: float,  # twice the nodes, twice as fast
    "amdahl": amdahl,
    "power": power,
    "downey": downey,
    "table": table,
}


def _described(text: str, models: Mapping[str, Callable[..., _Model]], none: str) -> _Model:
    """Make the model that is named first, of what follows between colons: numbers, or a table."""
    name, _, rest = text.partition(":")
    try:
        values = [_value(word) for word in rest.split(":")] if rest else []
        model = models[name](*values)
    except UnknownModelError:
        raise
    except (KeyError, TypeError, ValueError):
        raise UnknownModelError(none) from None
    for value in values if name != "table" else ():
        if not isinstance(value, float):
            raise UnknownModelError(none)
        if not 0 <= value <= LARGEST:
            raise UnknownModelError(f"{name}: {value}, must not be negative, and at most {LARGEST:g}")
    return model


def _value(word: str) -> float | list[tuple[int, float]]:
    if "=" not in word:
        return float(word)
    return [(int(nodes), float(seconds)) for nodes, seconds in (entry.split("=") for entry in word.split(","))]


# The cost of a resize, from nodes before and after to seconds --------------------------------------------------------

Overhead: TypeAlias = tuple[float, float]
"""alpha and beta of a job [MEBF, equation 1]."""


class Cost(Protocol):
    """What a resize costs."""

    @property
    def stops(self) -> bool:
        """Whether the job stands still meanwhile; otherwise it goes on, at the smaller size."""

    def __call__(self, before: int, after: int, own: Overhead | None = None, /) -> float:
        """Seconds from ``before`` to ``after`` nodes, for a job that may have an overhead of its ``own``."""


KNOWN_COSTS: Final = (
    "none, constant:SECONDS, mebf[:SCALE_S[:ALPHA:BETA]], measured[:FACTOR], "
    "fitted:GROW_S:GROW_NODE_S:SHRINK_S:SHRINK_NODE_S"
)


@dataclass(frozen=True, slots=True)
class MebfCost(ResizeModel):
    """MEBF's overheads, in which the job stops: redistribution of data, processes [MEBF, equations 1 and 2]."""

    stops: ClassVar[bool] = True

    def __call__(self, before: int, after: int, own: Overhead | None = None) -> float:
        """Seconds of both overheads."""
        return self.cost_s(before, after, own)


def _mebf(scale_s: float = 10.0, *for_all: float) -> MebfCost:
    """As the policy ``mebf`` believes by default: with alpha and beta ``for_all`` jobs, or each job's own."""
    alpha, beta = for_all or (None, None)
    return MebfCost(alpha=alpha, beta=beta, b=MIDDLE, scale_s=scale_s, theta=0.5, gamma=2.0)


@dataclass(frozen=True, slots=True)
class Measured:
    """A base, and something for each node that comes or goes.

    Attributes:
        grow_s: Base of a grow.
        grow_node_s: For each node that comes.
        shrink_s: Base of a shrink.
        shrink_node_s: For each node that goes.
        factor: Times all of it.
        stops: Whether the job stands still meanwhile. In this project the places that stay go on computing.
    """

    grow_s: float
    grow_node_s: float
    shrink_s: float
    shrink_node_s: float
    _: KW_ONLY
    factor: float = 1.0
    stops: bool = False

    def __call__(self, before: int, after: int, own: Overhead | None = None) -> float:  # noqa: ARG002 - MEBF's needs it
        """Seconds from the order to its end."""
        if after >= before:
            return self.factor * (self.grow_s + self.grow_node_s * (after - before))
        return self.factor * (self.shrink_s + self.shrink_node_s * (before - after))

    @property
    def text(self) -> str:
        """What ``parse_cost`` makes this model of, if the job goes on."""
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
    return _described(text, _COSTS, f"no cost model {text!r}; there are {KNOWN_COSTS}")


_COSTS: Final[Mapping[str, Callable[..., Cost | None]]] = {
    "none": lambda: None,
    "constant": lambda seconds: Measured(seconds, 0.0, seconds, 0.0, stops=True),
    "mebf": _mebf,
    "measured": lambda factor=1.0: Measured(0.25, 0.010, 0.05, 0.002, factor=factor),  # fitted to this runtime
    "fitted": Measured,
}
