"""The kernel of UTS that this machine can run: compiled if numba is there, else NumPy.

Importing this module loads it, without numba, or compiles it once per machine, which takes several seconds.
"""

from __future__ import annotations

from collections.abc import Callable

from ..harness.jit import has_numba
from ..harness.machine_code import load_kernels
from . import plain

NAME = plain.NAME
CAPACITY = plain.CAPACITY
expand: Callable[..., tuple[int, int, bool]] = plain.expand
expand_binomial: Callable[..., tuple[int, int]] = plain.expand_binomial

if has_numba():
    compiled = load_kernels(f"{__package__}.vector")
    NAME, CAPACITY = compiled.NAME, compiled.CAPACITY
    expand, expand_binomial = compiled.expand, compiled.expand_binomial
