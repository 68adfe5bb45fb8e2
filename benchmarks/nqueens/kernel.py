"""The kernel of N-Queens that this machine can run: vectors if numba and its LLVM allow, else one placement at a time.

Importing this module loads it, without numba, or compiles it once per machine, which takes several seconds.
"""

from __future__ import annotations

from collections.abc import Callable

from ..harness.jit import has_numba
from ..harness.machine_code import load_kernels
from . import scalar

NAME = scalar.NAME
CAPACITY = scalar.CAPACITY
expand: Callable[..., tuple[int, int, bool]] = scalar.expand


def compiled_scalar() -> Callable[..., tuple[int, int, bool]]:
    """Compile the scalar kernel, for an LLVM that cannot compress vectors; needs numba."""
    from numba import njit
    from numba.extending import register_jitable

    for function in scalar.CALLED:
        register_jitable(function)
    compiled: Callable[..., tuple[int, int, bool]] = njit(
        "Tuple((int64, int64, boolean))(uint32[:, :, ::1], int64[::1], uint32[:, ::1], int64)", nogil=True, cache=True
    )(scalar.expand)
    return compiled


if has_numba():
    try:
        vector = load_kernels(f"{__package__}.vector")
        NAME, CAPACITY, expand = vector.NAME, vector.CAPACITY, vector.expand
    except ImportError:
        NAME, expand = "numba, scalar", compiled_scalar()


# A count without the balancer ----------------------------------------------------------------------------------------


def run_kernel(size: int) -> int:
    """Return the number of solutions as one bag finds it without any stealing."""
    from .bag import QueensBag
    from .scalar import PARTS

    bag = QueensBag.of_board(size)
    while bag.process(1 << 40):
        pass
    return bag.count // PARTS


def warm_up() -> None:
    """Load the kernel, or compile it the first time on a machine, and run it once."""
    run_kernel(6)
