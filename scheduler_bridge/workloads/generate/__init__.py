"""Generators of workloads; what they draw is marked as synthetic wherever it appears."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from scheduler_bridge.workloads.generate.models import cirne, lublin
from scheduler_bridge.workloads.generate.papers import PORTRAITS, batch, penalty, top_up_theta, twin
from scheduler_bridge.workloads.workload import Workload

__all__ = ["RECIPES", "Recipe", "generate", "top_up_theta"]


@dataclass(frozen=True, slots=True)
class Recipe:
    """A generator.

    Attributes:
        summary: What it draws.
        source: Where the model is published.
        options: Its parameters besides the seed, with what they are by default.
        make: Draws a workload from ``seed`` and options.
    """

    summary: str
    source: str
    options: Mapping[str, Any]
    make: Callable[..., Workload]


RECIPES: Final[Mapping[str, Recipe]] = {
    "lublin": Recipe(
        "rigid jobs of parallel supercomputers",
        "Lublin and Feitelson, JPDC 63(11), 2003",
        {"jobs": 10_000, "nodes": 100, "load": 0.0, "estimates": "typical"},
        lublin,
    ),
    "cirne": Recipe(
        "jobs with requested times of which little is used",
        "form of Cirne and Berman, WWC-4, 2001; parameters for SD-policy's workloads 1, 2 and 5",
        {"jobs": 5000, "nodes": 1024, "largest": 0, "load": 8.0, "exact": False},
        cirne,
    ),
    **{
        name: Recipe(portrait.summary, portrait.source, {"jobs": 0, "arrival_factor": 1.0}, partial(twin, portrait))
        for name, portrait in PORTRAITS.items()
    },
    "batch": Recipe(
        "25 jobs for 32 nodes in about 15 minutes",
        "malleable APGAS 2024, section 5.2, Table 2",
        {"malleable": 0.0, "within_s": 600.0},
        batch,
    ),
    "penalty": Recipe(
        "1,000 jobs of 20 users with good and bad estimates",
        "PSP 2016, section 5",
        {"scenario": "CF", "jobs": 1000, "span_s": 86_400.0},
        penalty,
    ),
}


def generate(name: str, seed: int, **options: Any) -> Workload:
    """Draw a workload.

    Args:
        name: A generator.
        seed: Determines everything.
        options: Its parameters; see ``RECIPES``.

    Raises:
        ValueError: The generator or an option is unknown, or a value is out of range.
    """
    if name not in RECIPES:
        raise ValueError(f"unknown generator {name!r}: there are {', '.join(RECIPES)}")
    recipe = RECIPES[name]
    if unknown := sorted(set(options) - set(recipe.options)):
        raise ValueError(f"{name} has no option {unknown[0]!r}: it has {', '.join(recipe.options)}")
    for option, value in options.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"{name}: {option} is {value}, must be finite")
    return recipe.make(**{**recipe.options, **options}, seed=seed)
