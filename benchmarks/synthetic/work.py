"""The instance: which tasks there are, how long they take, and what they must add up to."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ..harness.jit import has_numba
from ..harness.machine_code import load_kernels
from . import plain
from .plain import CLASSES, relative, variance

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAX_TASKS: Final = 10**9
MAX_BRANCHING: Final = 64
LEAST_UNITS: Final = 32
"""A mean task of fewer units would spend its time on its bookkeeping."""
_CHUNK: Final = 1 << 16
_CALIBRATE_S: Final = 0.01
_CALIBRATIONS: Final = 5


@cache
def load_kernel() -> Any:
    """Return what does tasks: compiled where numba is installed."""
    name = f"{__package__}.kernel"
    return load_kernels(name) if has_numba() else import_module(name)


def calibrate() -> float:
    """Return how many units a core of this machine does in a second.

    CPU time is measured, so that it does not matter who else computes on the machine.
    """
    spin, units = load_kernel().spin, 1000

    def taken_s() -> float:
        began_s = time.thread_time()
        spin(1, units)
        return time.thread_time() - began_s

    while (first_s := taken_s()) < _CALIBRATE_S:
        units *= 2
    return units / min(first_s, *(taken_s() for _ in range(_CALIBRATIONS)))


@dataclass(frozen=True)
class Work:
    """Synthetic work; in every bag.

    Attributes:
        seed: From which tasks draw how long they take.
        lengths: Units of each class.
        branching: Children of a task, at most; 0: all tasks are known at the start.
    """

    tasks: int
    seed: int
    lengths: NDArray[np.uint64]
    branching: int

    @classmethod
    def drawn(
        cls, units: float, tasks: int, *, distribution: str, variance: float, seed: int, branching: int = 0
    ) -> Work:
        """Return work that is ``units`` long in all, but for rounding each class to whole units.

        The durations have ``variance``, in units of the squared mean.
        """
        durations = np.array(relative(distribution, variance))
        drawn = sum(np.bincount(classes, minlength=CLASSES) for _, classes in _draws(tasks, seed))
        mean = units / float(durations @ drawn)
        return cls(tasks, seed, np.maximum(1, np.rint(durations * mean)).astype(np.uint64), branching)

    @property
    def variance(self) -> float:
        """Variance of the durations of the classes, in units of the squared mean."""
        return variance(self.lengths.astype(np.float64).tolist())

    def expected(self) -> tuple[int, int]:
        """Return the units of all tasks and the sum of their last values, without spinning: by jumping."""
        jumps = [plain.jump(int(length)) for length in self.lengths]
        factors = np.array([factor for factor, _ in jumps], np.uint64)
        addends = np.array([addend for _, addend in jumps], np.uint64)
        units, total = 0, 0
        for starts, classes in _draws(self.tasks, self.seed):
            units += int(self.lengths[classes].sum())
            total += int((factors[classes] * starts + addends[classes]).sum(dtype=np.uint64))
        return units, total & plain.MASK


def _draws(tasks: int, seed: int) -> Iterator[tuple[NDArray[np.uint64], NDArray[np.int64]]]:
    """Yield the first values of all tasks and their classes, chunk by chunk."""
    for begin in range(0, tasks, _CHUNK):
        values = plain.start(np.arange(begin, min(begin + _CHUNK, tasks), dtype=np.uint64), seed)
        yield values, (values >> plain.CLASS_SHIFT).astype(np.int64)
