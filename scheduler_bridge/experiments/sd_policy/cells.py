"""The workloads of the 2019 paper, and one simulation: its figures, and what became of every job, for the heat maps."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Final

import numpy as np
from msgspec import structs

from scheduler_bridge import policies
from scheduler_bridge.core import settings_for
from scheduler_bridge.experiments.sweep import Cell, Figures, Scale
from scheduler_bridge.sim import Measures, ReplayOptions, SimRecord, replay
from scheduler_bridge.workloads import TraceJob, Workload, convert, load
from scheduler_bridge.workloads.generate.draw import Floats
from scheduler_bridge.workloads.generate.models import cirne
from scheduler_bridge.workloads.generate.papers import PORTRAITS, twin
from scheduler_bridge.workloads.swf import SwfOptions

STATIC: Final = "static"
"""The same policy where no jobs share nodes: static backfill."""
LIMITS: Final = ("5", "10", "50", "inf", "dynamic")
"""MAX_SLOWDOWN [section 4.1]."""
COLUMNS: Final = (
    "response_s",
    "slowdown",
    "makespan_s",
    "energy_kwh",
    "wait_s",
    "runtime_s",
    "utilization",
    "guests",
    "mates",
    "jobs",
    "killed",
)
MEASURES: Final = COLUMNS[:4]
"""Those of the paper [section 4]."""
_CACHED: Final = 8


def named(limit: str, model: str = "ideal") -> str:
    """The name of a limit and a runtime model in tables: the paper's figures are of the ideal one."""
    return limit if model == "ideal" else f"{limit} {model}"


def cells(traces: Sequence[Trace], seeds: Sequence[int], scale: Scale) -> list[Cell]:
    """All simulations: the paper's first, those of the first seed before others; what is not drawn, once."""
    paper = (*LIMITS, named("dynamic", "worst"))
    others = [named(limit, "worst") for limit in LIMITS if limit != "dynamic"] if scale == "full" else []
    drawn = [(trace.name, seed) for at, seed in enumerate(seeds) for trace in traces if trace.drawn or not at]
    found = []
    for name, seed in drawn:
        found += [Cell(name, STATIC, 0, seed), *(Cell(name, policy, 100, seed) for policy in paper)]
    return found + [Cell(name, policy, 100, seed) for name, seed in drawn for policy in others]


@dataclass(frozen=True)
class Jobs:
    """What became of the jobs of a simulation, in the order of submission: a number each.

    Attributes:
        submit_s: When it was submitted.
        nodes: What it asked for.
        static_s: What it takes on nodes of its own.
        wait_s: What it waited.
        runtime_s: What it took.
        guest: 1: it was started on nodes of others ("scheduled with malleability").
        mate: 1: it gave cores to others.
    """

    submit_s: Floats
    nodes: Floats
    static_s: Floats
    wait_s: Floats
    runtime_s: Floats
    guest: Floats
    mate: Floats

    @property
    def response_s(self) -> Floats:
        """From the submission to the end."""
        return self.wait_s + self.runtime_s

    @property
    def slowdown(self) -> Floats:
        """The paper's: response time by the time on nodes of its own [section 4]."""
        return self.response_s / self.static_s


@lru_cache(maxsize=_CACHED)
def replayed(trace: Trace, policy: str, seed: int) -> tuple[Jobs, Measures]:
    """Simulate a workload whose jobs are all malleable, and static ones where ``policy`` is ``STATIC``."""
    workload = convert(trace.make(seed), 1.0, seed, _in_nodes)
    limit, _, model = policy.partition(" ")
    static = policy == STATIC
    done = replay(
        workload,
        policies.get("sd-policy") if static else policies.get("sd-policy", max_slowdown=limit),
        options=ReplayOptions(
            # on nodes of one core no jobs share
            settings=replace(settings_for("sd-policy"), cores_per_node=1 if static else trace.cores),
            sharing="worst" if model == "worst" else "ideal",
        ),
    )
    columns = zip(*_rows(workload, done.result.records), strict=True)
    return Jobs(*(np.array(column, dtype=np.float64) for column in columns)), done.measures


def simulated(traces: Mapping[str, Trace], cell: Cell) -> Figures:
    """Simulate a cell."""
    jobs, measures = replayed(traces[cell.trace], cell.policy, cell.seed)
    return {
        "response_s": float(jobs.response_s.mean()),
        "slowdown": float(jobs.slowdown.mean()),
        "makespan_s": measures.makespan_s,
        "energy_kwh": measures.energy_kwh,
        "wait_s": float(jobs.wait_s.mean()),
        "runtime_s": float(jobs.runtime_s.mean()),
        "utilization": 100 * measures.utilization,
        "guests": 100 * float(jobs.guest.mean()),
        "mates": 100 * float(jobs.mate.mean()),
        "jobs": len(jobs.nodes),
        "killed": measures.every.killed,
    }


def _in_nodes(job: TraceJob, machine_nodes: int, rng: random.Random) -> TraceJob:
    """Malleable within its nodes: it keeps their number, and gives and takes cores."""
    del machine_nodes, rng
    return structs.replace(job, job_class="malleable")


def _rows(workload: Workload, records: dict[int, SimRecord]) -> Iterator[tuple[float, ...]]:
    for job in workload.jobs:
        record = records[job.job_id]
        wait_s, runtime_s = record.wait_s, record.runtime_s
        if wait_s is None or runtime_s is None:
            continue  # larger than the machine
        guest, mate = roles(record)
        yield job.submit_s, job.nodes, job.runtime_s, wait_s, runtime_s, guest, mate


def roles(record: SimRecord) -> tuple[bool, bool]:
    """Whether a job began with a part of its nodes' cores, and whether it gave some away later."""
    shares = [share for _, share in record.shares]
    guest = bool(shares) and record.shares[0][0] == record.start_s and shares[0] < 1
    levels = shares if guest else [1.0, *shares]
    mate = any(after < before for before, after in itertools.pairwise(levels))
    return guest, mate


# The workloads of the 2019 paper's Table 1: drawn ones in its form, 23 real days of Curie; shorter cuts of both ------

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
"""Days over which jobs of the twin arrive, for the same reason."""
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
