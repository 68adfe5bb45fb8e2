"""Runs one case and measures it, in a process of its own, so that memory is its own."""

from __future__ import annotations

import multiprocessing
import resource
import time
from array import array
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from scheduler_bridge import policies
from scheduler_bridge.core import settings_for
from scheduler_bridge.experiments.real_workloads.cells import theta
from scheduler_bridge.model import ClusterView
from scheduler_bridge.policies import Decision, Policy
from scheduler_bridge.policies.base import Around
from scheduler_bridge.sim import ReplayOptions, replay
from scheduler_bridge.workloads import Workload, convert
from scheduler_bridge.workloads.generate.catalogue import generate

from .cases import THETA, Case


@dataclass(frozen=True)
class Figures:
    """What one simulation took.

    Attributes:
        jobs: Jobs simulated.
        nodes: Nodes of the cluster.
        cpu_s: CPU seconds of the simulation, without making the workload.
        batches: Instants at which something happened, each one batch for the scheduler.
        events: What happened: submissions, ends, answers of jobs.
        decisions: Passes of the policy.
        p50_us: Median time of a pass, in microseconds.
        p99_us: The 99th of 100.
        max_us: The longest.
        memory_mb: Most memory of the process, Python, workload and libraries included.
        mean_wait_s: What came out: the jobs' mean wait.
    """

    jobs: int
    nodes: int
    cpu_s: float
    batches: int
    events: int
    decisions: int
    p50_us: float
    p99_us: float
    max_us: float
    memory_mb: float
    mean_wait_s: float


class Timed(Around):
    """A policy that takes down how long its passes take.

    Attributes:
        seconds: What each pass took.
    """

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.seconds = array("d")

    def decide(self, view: ClusterView, now: float) -> list[Decision]:
        """Decide as the policy does."""
        began = time.perf_counter()
        decisions = self.policy.decide(view, now)
        self.seconds.append(time.perf_counter() - began)
        return decisions


def measure(case: Case, data: Path | None = None) -> Figures:
    """Measure a case in a fresh process; real workloads are in the folder ``data``."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(run, case, data).result()


def run(case: Case, data: Path | None = None) -> Figures:
    """Measure a case in this process; invariants are checked and reasons kept, as always."""
    workload = _workload(case, data)
    timed = Timed(policies.get(case.policy))
    began = time.process_time()
    settings = replace(settings_for(case.policy), walltime="scaled", cores_per_node=case.cores_per_node)
    done = replay(workload, timed, options=ReplayOptions(settings=settings))
    cpu_s = time.process_time() - began
    passes = array("d", sorted(timed.seconds))
    return Figures(
        jobs=len(workload),
        nodes=workload.nodes,
        cpu_s=cpu_s,
        batches=done.result.batches,
        events=done.result.events,
        decisions=len(passes),
        p50_us=quantile(passes, 0.5) * 1e6,
        p99_us=quantile(passes, 0.99) * 1e6,
        max_us=quantile(passes, 1.0) * 1e6,
        memory_mb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        mean_wait_s=done.measures.every.mean_wait_s or 0.0,
    )


def _workload(case: Case, data: Path | None) -> Workload:
    if case.generator == THETA:
        assert data is not None, "asked for by the command line"
        workload = theta(data)
    else:
        options: dict[str, Any] = {}
        if case.jobs:
            options["jobs"] = case.jobs
        if case.load:
            options["load"] = case.load
        workload = generate(case.generator, case.seed, **options)
    return convert(workload, case.malleable, case.seed) if case.malleable else workload


def quantile(ordered: Sequence[float], share: float) -> float:
    """The value below or at which ``share`` of the ordered values lie; 0 of none."""
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0
