"""How fast a job runs on a number of nodes: the models of the field, and a table of measured runs.

Each is a function of the nodes whose ratios alone count; they compare equal if their parameters do.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable
from typing import Final, TypeAlias

import msgspec

Speedup: TypeAlias = Callable[[int], float]
"""How fast a job runs on a number of nodes; only ratios count."""


class UnknownModelError(ValueError):
    """A text that describes no model of its kind; says which there are."""


def linear_speedup(nodes: int) -> float:
    """Twice the nodes, twice as fast."""
    return float(nodes)


class Amdahl(msgspec.Struct, frozen=True):
    """A share of the work is parallel, the rest is not [Amdahl 1967].

    Attributes:
        parallel: The parallel share, from 0 to 1.
    """

    parallel: float

    def __post_init__(self) -> None:
        if not 0 <= self.parallel <= 1:
            raise UnknownModelError(f"amdahl: the parallel share is {self.parallel}, must be from 0 to 1")

    def __call__(self, nodes: int) -> float:
        """Times as fast as on one node."""
        return 1.0 / ((1.0 - self.parallel) + self.parallel / nodes)


class Power(msgspec.Struct, frozen=True):
    """n nodes are n^(1 - rho) times as fast as one [MEBF, section 2.2; the exponent is D].

    Attributes:
        rho: From 0 (linear) to 1 (no faster).
    """

    rho: float

    def __post_init__(self) -> None:
        if not 0 <= self.rho <= 1:
            raise UnknownModelError(f"power: rho is {self.rho}, must be from 0 to 1")

    def __call__(self, nodes: int) -> float:
        """Times as fast as on one node."""
        return math.pow(nodes, 1.0 - self.rho)


class Downey(msgspec.Struct, frozen=True):
    """Downey's model [A model for speedup of parallel programs, UCB/CSD-97-933, 1997].

    Attributes:
        average: A, the average parallelism, at least 1.
        variance: Sigma, the coefficient of variation of the parallelism; 0: linear up to A.
    """

    average: float
    variance: float

    def __post_init__(self) -> None:
        if not (self.average >= 1 and self.variance >= 0):
            raise UnknownModelError(f"downey: A is {self.average}, at least 1; sigma {self.variance}, at least 0")

    def __call__(self, nodes: int) -> float:
        """Times as fast as on one node."""
        a, s, n = self.average, self.variance, float(nodes)
        if s <= 1.0:
            if n <= a:
                return a * n / (a + s / 2.0 * (n - 1.0))
            if n <= 2.0 * a - 1.0:
                return a * n / (s * (a - 0.5) + n * (1.0 - s / 2.0))
            return a
        if n <= a + a * s - s:
            return n * a * (s + 1.0) / (s * (n + a - 1.0) + a)
        return a


class Table(msgspec.Struct, frozen=True):
    """Measured runtimes; between two sizes the speedup is interpolated, beyond the ends it stays in proportion [D].

    In proportion: below the smallest size it falls like the nodes, above the largest one it does not rise any more.

    Attributes:
        runtimes_s: (nodes, seconds), by rising nodes.
    """

    runtimes_s: tuple[tuple[int, float], ...]

    def __post_init__(self) -> None:
        sizes = [nodes for nodes, _ in self.runtimes_s]
        if not sizes or sizes != sorted(set(sizes)) or sizes[0] < 1 or min(s for _, s in self.runtimes_s) <= 0:
            raise UnknownModelError(f"table: {self.runtimes_s} must have rising nodes and positive seconds")

    def __call__(self, nodes: int) -> float:
        """Work per second, interpolated."""
        sizes = [size for size, _ in self.runtimes_s]
        right = bisect_right(sizes, nodes)
        if right == 0:
            return nodes / sizes[0] / self.runtimes_s[0][1]
        low, low_s = self.runtimes_s[right - 1]
        if right == len(sizes) or low == nodes:
            return 1.0 / low_s
        high, high_s = self.runtimes_s[right]
        share = (nodes - low) / (high - low)
        return (1.0 - share) / low_s + share / high_s


KNOWN: Final = "linear, amdahl:P, power:RHO, downey:A:SIGMA, table:N=SECONDS,N=SECONDS,..."


def parse_speedup(text: str) -> Speedup:
    """Make the model that ``text`` describes.

    Raises:
        UnknownModelError: It describes none.
    """
    name, _, rest = text.partition(":")
    try:
        match name, rest.split(":"):
            case "linear", [""]:
                return linear_speedup
            case "amdahl", [share]:
                return Amdahl(float(share))
            case "power", [rho]:
                return Power(float(rho))
            case "downey", [average, variance]:
                return Downey(float(average), float(variance))
            case "table", [entries]:
                pairs = (entry.split("=") for entry in entries.split(","))
                return Table(tuple((int(nodes), float(seconds)) for nodes, seconds in pairs))
            case _:
                raise ValueError(name)
    except UnknownModelError:
        raise
    except ValueError:
        raise UnknownModelError(f"no speedup model {text!r}; there are {KNOWN}") from None
