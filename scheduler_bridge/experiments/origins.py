"""Where the numbers of an experiment come from, in words for its page."""

from __future__ import annotations

import itertools
import os
import platform
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from apgas.provenance import commit, cpu_model, version
from scheduler_bridge.experiments.rows import Origin
from scheduler_bridge.experiments.sweep import Row

_PACKAGES: Final = ("numpy", "matplotlib")


def of_rows(rows: Sequence[Row]) -> dict[str, str]:
    """Tell of simulations: how many there are, their seeds, with what and where they were run.

    Args:
        rows: Also of several versions and machines: what an earlier run has found is not simulated again.
    """
    origins = [row.origin for row in rows if row.origin is not None]
    facts = {"simulations": f"{len(rows):,}", "seeds": listed(row.cell.seed for row in rows)}
    if origins:
        facts["simulations took"] = f"{sum(origin.seconds for origin in origins):,.1f} s in all"
        facts["simulated with"] = "; ".join(dict.fromkeys(map(_spoken, origins)))
    return facts


def here() -> dict[str, str]:
    """Tell of this process, which makes the report: versions, the commit, the machine."""
    known = [f"{name} {found}" for name in _PACKAGES if (found := version(name))]
    ours = _project(version("malleable-apgas") or "", commit(Path(__file__).parent) or "")
    return {
        "reported with": f"{ours}, Python {platform.python_version()}, {', '.join(known)}",
        "reported on": f"{cpu_model()}, {os.cpu_count()} cores, {platform.system()} {platform.machine()}",
    }


def listed(seeds: Iterable[int]) -> str:
    """Numbers in words, neighbours as a range: ``0, 3-5``."""
    ranges: list[str] = []
    for _, group in itertools.groupby(enumerate(sorted(set(seeds))), lambda pair: pair[1] - pair[0]):
        run = [seed for _, seed in group]
        ranges.append(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}")
    return ", ".join(ranges)


def _spoken(origin: Origin) -> str:
    return f"{_project(origin.version, origin.commit)}, Python {origin.python}, on {origin.cpu}"


def _project(number: str, checked_out: str) -> str:
    name = f"malleable-apgas {number}".strip()
    return f"{name}, commit {checked_out[:12]}" if checked_out else f"{name}, outside of a checkout"
