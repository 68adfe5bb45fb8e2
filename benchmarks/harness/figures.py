"""Figures: how samples become one number, and how a number is written for people."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median
from typing import Final, Literal, TypeAlias, assert_never

Unit: TypeAlias = Literal["s", "1/s", "B/s", "bytes", "share", "count", "ratio"]

_RATES: Final = ((1e9, "G"), (1e6, "M"), (1e3, "k"))
_TIMES: Final = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))


def percentile(samples: Sequence[float], share: float) -> float:
    """Return the smallest sample that at least ``share`` of all samples do not exceed (nearest rank).

    Raises:
        ValueError: There is no sample, or ``share`` is not in (0, 1].
    """
    if not samples or not 0 < share <= 1:
        raise ValueError(f"no percentile {share} of {len(samples)} samples")
    return sorted(samples)[math.ceil(share * len(samples)) - 1]


def of_samples(samples: Sequence[float]) -> dict[str, float]:
    """Return the figures of one round of times in seconds: ``median_s``, ``p99_s``, ``samples``."""
    return {"median_s": median(samples), "p99_s": percentile(samples, 0.99), "samples": len(samples)}


def written(value: float, unit: Unit) -> str:
    """Write a figure with three digits and its unit."""
    match unit:
        case "s":
            scale, name = next((pair for pair in _TIMES if value >= 0.9995 * pair[0]), _TIMES[-1])
            return f"{_three(value / scale)} {name}"
        case "1/s":
            for scale, name in _RATES:
                if value >= 0.9995 * scale:
                    return f"{value / scale:.3g} {name}/s"
            return f"{_three(value)} /s"
        case "B/s":
            return f"{_three(value / 1e9)} GB/s"
        case "bytes":
            return f"{_three(value / 2**20)} MiB"
        case "count":
            return f"{value:.3g}"
        case "share":
            return f"{100 * value:.3f} %" if value < 0.01 else f"{_three(100 * value)} %"
        case "ratio":
            return f"{value:.3f}"
        case _:
            assert_never(unit)


def ratio_written(ratio: float) -> str:
    """Write a ratio: 0.31x, 3.1x, 31x."""
    return f"{_three(ratio) if ratio >= 100 else f'{ratio:.2g}'}x"


def _three(value: float) -> str:
    digits = 2 if value < 10 else 1 if value < 100 else 0
    return f"{value:.{digits}f}"
