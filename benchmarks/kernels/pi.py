"""Pi: our kernel beside the generators of NumPy, each used as fast as NumPy allows."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from ..harness.goals import OURS, Goal, Quantity
from .results import Contender, Measure, Setting, Work

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np

_SAMPLES: Final = {False: 1 << 29, True: 1 << 26}
_NUMPY_SAMPLES: Final = {False: 1 << 26, True: 1 << 24}
_CHUNK: Final = 1 << 14
"""Two arrays of so many doubles stay in the second-level cache."""
_SEED: Final = 1
_NUMPY: Final = "numpy"


def _ours(setting: Setting) -> Work:
    from ..pi.bag import count_span, load_kernel

    samples = _SAMPLES[setting.quick]
    load_kernel()

    def work() -> Mapping[str, float]:
        count_span(0, samples, _SEED)
        return {"samples": samples}

    return work


def _of_numpy(generator: str, setting: Setting) -> Work:
    import numpy as np

    samples = _NUMPY_SAMPLES[setting.quick]
    make = getattr(np.random, generator)

    def work() -> Mapping[str, float]:
        count_hits(np.random.Generator(make(_SEED)), samples)
        return {"samples": samples}

    return work


def count_hits(generator: np.random.Generator, samples: int) -> int:
    """Return how many of ``samples`` points, a multiple of the chunk, are hits; no array is allocated on the way."""
    import numpy as np

    x, y = np.empty(_CHUNK), np.empty(_CHUNK)
    hits = 0
    for _ in range(samples // _CHUNK):
        generator.random(out=x)
        generator.random(out=y)
        x *= x
        y *= y
        x += y
        hits += int(np.count_nonzero(x < 1.0))
    return hits


PI: Final = Measure(
    name="pi",
    title=lambda _quick: "Pi, random points",
    quantities=(Quantity("samples", "samples", "1/s", (Goal(">=", 4, _NUMPY),)),),
    contenders=(
        Contender(OURS, "ours, Philox 4x32-10", _ours),
        *(
            Contender(name.lower(), f"NumPy, {name}", partial(_of_numpy, name), _NUMPY)
            for name in ("SFC64", "PCG64", "Philox", "MT19937")
        ),
    ),
    rule="Pi: a sample is one point; 32 bits a coordinate from us, 53 from NumPy",
)
