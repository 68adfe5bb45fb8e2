"""Generators of workloads; what they draw is marked as synthetic wherever it appears."""

from __future__ import annotations

from scheduler_bridge.workloads.generate.catalogue import RECIPES, Recipe, generate
from scheduler_bridge.workloads.generate.topup import top_up_theta

__all__ = ["RECIPES", "Recipe", "generate", "top_up_theta"]
