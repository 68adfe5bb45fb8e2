"""The workloads of the 2019 paper's Table 1: drawn ones in its form, 23 real days of Curie; shorter cuts of both."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Final

from scheduler_bridge.experiments.sweep import Scale
from scheduler_bridge.workloads import Workload, load
from scheduler_bridge.workloads.generate.cirne import cirne
from scheduler_bridge.workloads.generate.twins import PORTRAITS, twin
from scheduler_bridge.workloads.swf import SwfOptions

SEEDS: Final[tuple[int, ...]] = (1,)
"""The paper has one draw of each workload, too."""
CURIE_FILE: Final = "traces/CEA-Curie-sample-unfiltered.swf.gz"
CURIE: Final = SwfOptions(nodes=5040, processors_per_node=16, partitions=frozenset({10}))
"""The primary partition, as the paper has it [section 4]; its machine is that of Table 1."""
_CURIE_DAYS: Final = 2.0
"""Of the short cut."""
_DAY_S: Final = 86_400.0
_LOAD: Final = 1.4
"""Of workloads 1 and 2: static backfill then has about the printed makespan and response time."""
_RICC_SPREAD: Final = 3.2
"""Jobs of the twin arrive over so many days, for the same reason."""
_REAL_RUN_S: Final = (60.0, 14_000.0)
"""Requested times of workload 5, so that static backfill takes as long for all of it as the paper's."""


@dataclass(frozen=True)
class Trace:
    """A workload of the experiment.

    Attributes:
        name: In tables and files.
        paper: Its number in the paper's Table 1.
        label: For people; says where jobs are synthetic.
        cores: Of a node.
        make: Reads or draws it, by seed.
        drawn: Whether the seed matters.
    """

    name: str
    paper: int
    label: str
    cores: int
    make: Callable[[int], Workload]
    drawn: bool = True


def traces(scale: Scale, data: Path | None) -> list[Trace]:
    """The workloads by their number in the paper; Curie only where the data are."""
    small = scale == "small"
    size = ", small" if small else ""
    form = f"Cirne-Berman form{size} (synthetic)"
    found = [
        Trace("cirne", 1, form, 48, partial(_cirne, small, exact=False)),
        Trace("cirne-exact", 2, f"the same, exact requests{size} (synthetic)", 48, partial(_cirne, small, exact=True)),
        Trace("ricc-twin", 3, f"RICC twin{size} (synthetic)", 8, partial(_ricc, small)),
    ]
    if data is not None and (data / CURIE_FILE).exists():
        days = f"{_CURIE_DAYS:g}" if small else "23"
        found.append(Trace("curie", 4, f"Curie, {days} real days", 16, partial(_curie, data, small), drawn=False))
    found.append(Trace("cirne-49", 5, f"Cirne-Berman form, 49 nodes{size} (synthetic)", 48, partial(_cirne_49, small)))
    return found


def _cirne(small: bool, seed: int, *, exact: bool) -> Workload:
    if small:
        return cirne(240, 60, largest=8, seed=seed, exact=exact)
    return cirne(seed=seed, exact=exact, load=_LOAD)


def _ricc(small: bool, seed: int) -> Workload:
    ricc = PORTRAITS["ricc"]
    if not small:
        return twin(ricc, seed=seed, arrival_factor=_RICC_SPREAD)
    return twin(replace(ricc, nodes=80), seed=seed, jobs=ricc.jobs // 25)


def _cirne_49(small: bool, seed: int) -> Workload:
    return cirne(200 if small else 2000, 49, largest=16, seed=seed, requests_s=_REAL_RUN_S)


@lru_cache(maxsize=2)
def _curie(data: Path, small: bool, _seed: int) -> Workload:
    """What the sample has of the partition; its times count from the first job."""
    found = load(data / CURIE_FILE, swf=CURIE)
    first_s, last_s = found.jobs[0].submit_s, found.jobs[-1].submit_s
    return found.window(first_s, first_s + _CURIE_DAYS * _DAY_S if small else last_s + 1)
