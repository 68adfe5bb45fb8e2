"""The published running times, where their file is at hand."""

from __future__ import annotations

import csv
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    Times = Mapping[str, Mapping[int, float]]
    """Seconds by problem and number of nodes."""

VARIABLE: Final = "MALLEABLE_DATA"
_FILE: Final = Path("reference", "real-runs-32-nodes", "strong_scaling.csv")


def find() -> Path | None:
    """Return the file: below the folder that MALLEABLE_DATA names, or ``shared/data`` beside the project's folder."""
    named = os.environ.get(VARIABLE)
    root = Path(__file__).resolve().parents[2]
    folders = [Path(named)] if named else [root / "shared" / "data", root.parent / "shared" / "data"]
    return next((folder / _FILE for folder in folders if (folder / _FILE).is_file()), None)


def read(path: Path | None) -> dict[str, dict[str, dict[int, float]]]:
    """Return the median seconds by program, problem and nodes; nothing without a file.

    Raises:
        ValueError: The file is no such table.
    """
    found: dict[str, dict[str, dict[int, float]]] = {}
    if path is None:
        return found
    with path.open(encoding="utf-8", newline="") as stream:
        for number, row in enumerate(csv.DictReader(stream), 2):
            try:
                problems = found.setdefault(row["program"], {})
                problems.setdefault(row["size"], {})[int(row["nodes"])] = float(row["median_s"])
            except (KeyError, TypeError, ValueError):
                raise ValueError(f"{path}:{number}: no program, size, nodes and median_s") from None
    return found


def efficiency(times: Mapping[int, float], nodes: int) -> float | None:
    """Return the speed-up over one node divided by ``nodes``; None if one of the two is not there."""
    return times[1] / (nodes * times[nodes]) if 1 in times and nodes in times else None


def spoken(size: str, unit: str) -> str:
    """Write a problem of the paper: d = 18, 2^17, 8e10."""
    return f"{int(size):.2g}".replace("e+", "e").replace(".0e", "e") if not unit else f"{unit}{size}"
