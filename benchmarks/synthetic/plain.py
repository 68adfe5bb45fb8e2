"""What the tasks are: how long each takes, where it begins and, without doing it, where it ends; see ``kernel``.

A task is a number. Hashing it with the seed gives its class, which says how many units it takes, and the value at which
it begins to spin. A unit is one step of a linear congruential generator modulo 2^64. A compiler may take a few steps at
once, as it does when the speed is measured, but not all; who knows how can jump over them (``jump``). So the value in
which a task ends shows that all its units were done, and costs nothing to verify. Sources: Steele et al., "Fast
splittable pseudorandom number generators", OOPSLA 2014 (the hash); Brown, "Random number generation with arbitrary
strides", 1994 (the jump).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from statistics import NormalDist
from typing import Any, Final

# How long tasks take: distributions as tables of equally likely classes ----------------------------------------------
#
# Every task draws its class from its number, and a class has a whole number of units. The table is made once, on place
# 0, and travels with the bags; so no place ever computes a logarithm of its own, which could differ in the last digit.
# A class stands for the mean of its part of the distribution, hence the mean of the table is exact. The variance of the
# table is the one asked for, too: the lognormal distribution behind it is a little wider, since its classes lose some.

CLASS_BITS: Final = 10
CLASSES: Final = 1 << CLASS_BITS
_NORMAL: Final = NormalDist()
_WIDEST: Final = 6.0
"""A lognormal distribution whose logarithm deviates by so much has all its work in one class."""
_HALVINGS: Final = 40


def _uniform(variance: float) -> list[float]:
    half_width = math.sqrt(3 * variance)
    return [1 + half_width * ((2 * number + 1) / CLASSES - 1) for number in range(CLASSES)]


def _exponential(_: float) -> list[float]:
    def above(number: int) -> float:
        """Return the share of the mean that is above the quantile ``number`` / CLASSES."""
        rest = 1 - number / CLASSES
        return rest * (1 - math.log(rest)) if rest else 0.0

    return [CLASSES * (above(number) - above(number + 1)) for number in range(CLASSES)]


def _lognormal(asked: float) -> list[float]:
    quantiles = [_NORMAL.inv_cdf(number / CLASSES) for number in range(1, CLASSES)]

    def table(deviation: float) -> list[float]:
        # the shares of the mean that are below the quantiles
        below = [0.0, *(_NORMAL.cdf(quantile - deviation) for quantile in quantiles), 1.0]
        return [CLASSES * (upper - lower) for lower, upper in pairwise(below)]

    low, high = math.sqrt(math.log1p(asked)), _WIDEST
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if variance(table(middle)) < asked else (low, middle)
    return table(low)


DISTRIBUTIONS: Final[dict[str, tuple[Callable[[float], list[float]], float, float, float]]] = {
    "constant": (lambda _: [1.0] * CLASSES, 0.0, 0.0, 0.0),
    "uniform": (_uniform, 1 / 3, 0.0, 1 / 3),
    "exponential": (_exponential, 1.0, 1.0, 1.0),
    "lognormal": (_lognormal, 1.0, 0.0, 100.0),
}
"""By name: the table, and the default, smallest and largest variance, in units of the squared mean."""


def relative(distribution: str, variance: float) -> list[float]:
    """Return the durations of the classes, whose mean is 1.

    Args:
        distribution: Its name.
        variance: Of the durations, in units of the squared mean; one that the distribution allows.
    """
    return DISTRIBUTIONS[distribution][0](variance)


def variance(durations: list[float]) -> float:
    """Return the variance of a table, in units of the squared mean."""
    mean = sum(durations) / len(durations)
    return sum((duration / mean - 1) ** 2 for duration in durations) / len(durations)


MASK: Final = (1 << 64) - 1
GOLDEN: Final = 0x9E3779B97F4A7C15
MIX: Final = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
FACTOR: Final = 6364136223846793005
ADDEND: Final = 1442695040888963407
CLASS_SHIFT: Final = 64 - CLASS_BITS


def mixed(value: Any) -> Any:
    """Return a hash of ``value``, an integer of 64 bits or an array of such."""
    value = ((value ^ (value >> 30)) * MIX[0]) & MASK
    value = ((value ^ (value >> 27)) * MIX[1]) & MASK
    return value ^ (value >> 31)


def start(task: Any, seed: int) -> Any:
    """Return the value at which ``task`` begins to spin, or those of an array of tasks."""
    return mixed((seed + GOLDEN * (task + 1)) & MASK)


def jump(units: int) -> tuple[int, int]:
    """Return factor and addend of one step that equals ``units``."""
    factor, addend, step, offset = 1, 0, FACTOR, ADDEND
    while units:
        if units & 1:
            factor, addend = factor * step & MASK, (addend * step + offset) & MASK
        step, offset = step * step & MASK, (step + 1) * offset & MASK
        units >>= 1
    return factor, addend
