"""The simulations, their goals, and how one simulation is measured: in a process of its own, for memory's sake."""

from __future__ import annotations

import multiprocessing
import resource
import time
from array import array
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from scheduler_bridge import policies
from scheduler_bridge.core import settings_for
from scheduler_bridge.experiments.real_workloads.cells import CORI_FILES, THETA_FILE, cori, theta
from scheduler_bridge.model import ClusterView
from scheduler_bridge.policies import Decision, Policy
from scheduler_bridge.policies.base import Around, stands_until
from scheduler_bridge.sim import ReplayOptions, replay
from scheduler_bridge.workloads import Workload, convert
from scheduler_bridge.workloads.generate import generate

from ..compare.contender import percentile

THETA: Final = "theta"
KNL: Final = "knl"
LOGS: Final = {THETA: ("Theta, 28 real days", THETA_FILE), KNL: ("Cori KNL, 5 real days", CORI_FILES[KNL])}
"""The workloads that are logs, of the reference data: what they are, and their files; the others are drawn."""


@dataclass(frozen=True)
class Case:
    """One simulation.

    Attributes:
        generator: A generator of workloads, or one of ``LOGS``.
        jobs: How many jobs; 0: as many as the generator makes.
        malleable: Share of malleable jobs.
        load: Of generators that take one; 0: theirs.
        cores_per_node: For policies that let jobs share nodes.
        least_jobs_per_s: The goal, if it is one of speed.
        most_s: The goal, if it is one of time.
    """

    generator: str
    policy: str
    jobs: int = 0
    malleable: float = 0.0
    load: float = 0.0
    seed: int = 1
    cores_per_node: int = 1
    least_jobs_per_s: float | None = None
    most_s: float | None = None

    @property
    def label(self) -> str:
        """The case in words."""
        load = f", load {self.load:g}" if self.load else ""
        share = f", {self.malleable:.0%} malleable" if self.malleable else ""
        what = LOGS[self.generator][0] if self.generator in LOGS else f"{self.generator} (synthetic)"
        return f"{self.policy}: {what}{load}{share}"


def _four(generator: str, *, most_s: float, cores_per_node: int) -> tuple[Case, ...]:
    """A machine under a rigid policy, one that resizes, one that reserves for all, and one that shares nodes."""
    return (
        Case(generator, "easy", most_s=most_s),
        Case(generator, "avg", malleable=0.6, most_s=most_s),
        Case(generator, "conservative", malleable=0.6, most_s=most_s),
        Case(generator, "sd-policy", malleable=0.6, most_s=most_s, cores_per_node=cores_per_node),
    )


def _every(generator: str, *, most_s: float, cores_per_node: int) -> tuple[Case, ...]:
    """A machine under every policy that there is, as it is by default."""
    return tuple(
        Case(generator, name, malleable=0.6, most_s=most_s, cores_per_node=cores_per_node if name == "sd-policy" else 1)
        for name in policies.names()
    )


_GROWTH: Final = (1_000, 3_000, 10_000, 30_000, 100_000, 200_000)

SUITES: Final[dict[str, tuple[Case, ...]]] = {
    "growth": tuple(
        Case("lublin", "easy", jobs, load=0.8, least_jobs_per_s=30_000 if jobs == 10_000 else None) for jobs in _GROWTH
    ),
    "policies": tuple(
        Case("lublin", policy, 10_000, malleable=0.6, load=0.8)
        for policy in ("easy", "malleable", "min", "pref", "avg", "keep-pref", "mebf")
    ),
    # what was quadratic once: a pass every 5 s, and a queue that only grows, in which every job holds a reservation
    "worst": (
        Case("lublin", "easy-compat", 3_000, load=0.8, least_jobs_per_s=2_000),
        Case("lublin", "conservative", 3_000, load=2.0, least_jobs_per_s=2_000),
    ),
    "theta": tuple(
        Case(THETA, policy, malleable=0.6, most_s=3)
        for policy in ("malleable", "min", "pref", "avg", "keep-pref", "mebf", "best-use")
    ),
    "knl": _four(KNL, most_s=30, cores_per_node=68),
    "eagle": _four("eagle", most_s=60, cores_per_node=36),
    "every-knl": _every(KNL, most_s=30, cores_per_node=68),
    "every-eagle": _every("eagle", most_s=60, cores_per_node=36),
}
"""The suites by name. Memory is to stay below ``MOST_MB`` in all of them."""

MOST_MB: Final = 300.0


# What one simulation took --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Figures:
    """Costs and outcome of one simulation.

    Attributes:
        cpu_s: CPU seconds of the simulation, without making the workload.
        batches: Instants at which something happened, each one batch for the scheduler.
        events: What happened: submissions, ends, answers of jobs.
        decisions: Passes of the policy.
        p50_us: Median time of a pass, in microseconds.
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
    """A policy that takes down how many seconds each of its passes takes."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.seconds = array("d")

    def decide(self, view: ClusterView, now: float) -> list[Decision]:
        """Decide as the policy does."""
        began = time.perf_counter()
        decisions = self.policy.decide(view, now)
        self.seconds.append(time.perf_counter() - began)
        return decisions

    def stands_until(self, view: ClusterView, now: float) -> float:
        """What the policy says: else passes would be measured that a run without the clock leaves out."""
        return stands_until(self.policy, view, now)


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
    return Figures(
        jobs=len(workload),
        nodes=workload.nodes,
        cpu_s=cpu_s,
        batches=done.result.batches,
        events=done.result.events,
        decisions=len(timed.seconds),
        p50_us=percentile(timed.seconds, 0.5) * 1e6,
        p99_us=percentile(timed.seconds, 0.99) * 1e6,
        max_us=max(timed.seconds) * 1e6,
        memory_mb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        mean_wait_s=done.measures.every.mean_wait_s or 0.0,
    )


def _workload(case: Case, data: Path | None) -> Workload:
    if case.generator in LOGS:
        assert data is not None, "asked for by the command line"
        workload = theta(data) if case.generator == THETA else cori(data, case.generator)
    else:
        given: dict[str, Any] = {"jobs": case.jobs, "load": case.load}
        options = {name: value for name, value in given.items() if value}
        workload = generate(case.generator, case.seed, **options)
    return convert(workload, case.malleable, case.seed) if case.malleable else workload


def goal(case: Case, figures: Figures) -> str:
    """Whether the case's goals are met, in words."""
    words = []
    if case.least_jobs_per_s is not None:
        met = figures.jobs / figures.cpu_s >= case.least_jobs_per_s
        words.append(f">= {case.least_jobs_per_s:,.0f} jobs/s {'met' if met else 'MISSED'}")
    if case.most_s is not None:
        words.append(f"<= {case.most_s:g} s {'met' if figures.cpu_s <= case.most_s else 'MISSED'}")
    if figures.memory_mb > MOST_MB:
        words.append(f"<= {MOST_MB:g} MB MISSED")
    return ", ".join(words)
