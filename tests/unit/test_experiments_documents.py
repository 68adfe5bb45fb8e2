"""The reference of sweeps names every column of every experiment."""

from __future__ import annotations

import re
from importlib import import_module
from typing import Final

import pytest
from support import ROOT

pytest.importorskip("matplotlib", reason="matplotlib is not installed")

REFERENCE: Final = ROOT / "docs" / "reference" / "files.md"
FAMILIES: Final = (
    (r"_q(25|75)$", ""),
    (r"^expands_\d+_to_\d+$", "expands_A_to_B"),
    (r"^utilization_from_\d+_h$", "utilization_from_H_h"),
    (r"^a[2-5]_", "a1_"),
)
"""Columns that are documented together, and by which name."""


@pytest.mark.parametrize("name", ["real-workloads", "mebf", "sd-policy", "penalty", "ours"])
def test_the_columns_of_a_sweep_are_documented(name: str) -> None:
    sections = re.split(r"^#+ ", REFERENCE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    (section,) = (text for text in sections if text.startswith(f"`{name}`\n"))
    documented = set(re.findall(r"`(\w+)`", section))
    if name == "ours":
        documented |= {column.replace("all_", group, 1) for column in documented for group in ("rigid_", "malleable_")}
    columns: list[str] = list(import_module(f"scheduler_bridge.experiments.{name.replace('-', '_')}.cells").COLUMNS)
    for family, together in FAMILIES:
        columns = [re.sub(family, together, column) for column in columns]
    assert set(columns) <= documented
