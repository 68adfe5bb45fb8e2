"""What the wheel has under another path than the checkout: the benchmarks, as `apgas.benchmarks`."""

from __future__ import annotations

from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CustomBuildHook(BuildHookInterface):
    """Puts the folder `benchmarks` at its installed place; in an editable installation the code finds it by itself.

    Hatchling's own mapping of paths (`sources`) would do the same, but misleads the hook that compiles.
    """

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Extend what is built."""
        if version == "standard":
            build_data["force_include"]["benchmarks"] = "apgas/benchmarks"
