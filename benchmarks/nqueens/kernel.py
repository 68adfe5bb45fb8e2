"""The kernel of N-Queens that this machine can run: vectors if numba and its LLVM allow, else one placement at a time.

Importing this module loads it (about 0.5 s with numba, several seconds once per machine to compile).
"""

from __future__ import annotations

from collections.abc import Callable

from ..harness.jit import has_numba, setup_cache
from . import scalar

NAME = scalar.NAME
CAPACITY = scalar.CAPACITY
expand: Callable[..., tuple[int, int, bool]] = scalar.expand

if has_numba():
    setup_cache()
    from .. import simd

    if simd.has_compress():
        from . import vector

        NAME, CAPACITY, expand = vector.NAME, vector.CAPACITY, vector.expand
    else:
        from . import compiled

        NAME, CAPACITY, expand = compiled.NAME, compiled.CAPACITY, compiled.expand
