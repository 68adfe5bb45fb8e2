"""The kernel of UTS that this machine can run: compiled if numba is there, else NumPy.

Importing this module loads it, without numba, or compiles it once per machine, which takes several seconds.
"""

from __future__ import annotations

from collections.abc import Callable

from ..harness.jit import has_numba
from ..harness.machine_code import load_kernels
from . import plain

_kernels = load_kernels(f"{__package__}.vector") if has_numba() else plain
NAME: str = _kernels.NAME
CAPACITY: int = _kernels.CAPACITY
expand: Callable[..., tuple[int, int, bool]] = _kernels.expand
expand_binomial: Callable[..., tuple[int, int]] = _kernels.expand_binomial
