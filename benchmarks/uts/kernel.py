"""The kernel of UTS that this machine can run: compiled if numba is there, else NumPy.

Importing this module loads it (about 0.5 s with numba, several seconds once per machine to compile).
"""

from __future__ import annotations

from collections.abc import Callable

from ..harness.jit import has_numba, setup_cache
from . import plain

NAME = plain.NAME
CAPACITY = plain.CAPACITY
expand: Callable[..., tuple[int, int, bool]] = plain.expand
expand_binomial: Callable[..., tuple[int, int]] = plain.expand_binomial

if has_numba():
    setup_cache()
    from . import vector

    NAME, CAPACITY = vector.NAME, vector.CAPACITY
    expand, expand_binomial = vector.expand, vector.expand_binomial
