"""The scalar kernel compiled, for an LLVM that cannot compress vectors; importing this module needs numba."""

from __future__ import annotations

from numba import njit

from . import scalar

NAME = "numba, scalar"
CAPACITY = scalar.CAPACITY

expand = njit(
    "Tuple((int64, int64, boolean))(uint32[:, :, ::1], int64[::1], uint32[:, ::1], int64)", nogil=True, cache=True
)(scalar.expand)
