"""A workload under a policy: from its jobs to the figures."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from scheduler_bridge.core import Remembered, Settings
from scheduler_bridge.core.events import Event
from scheduler_bridge.gc_tuning import rare_searches
from scheduler_bridge.policies import Policy
from scheduler_bridge.sim.engine import Engine
from scheduler_bridge.sim.from_workload import Behaviour, submissions
from scheduler_bridge.sim.measures import Measures, Power, measure
from scheduler_bridge.sim.result import Observer, Progress, SimResult
from scheduler_bridge.sim.running import SharingModel
from scheduler_bridge.workloads import TraceJob, Workload, in_order
from scheduler_bridge.workloads.dependencies import Dependencies, dependencies


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """How a workload is replayed. Times in seconds.

    Attributes:
        behaviour: How its jobs behave.
        settings: The core's parameters.
        tick_s: The scheduler decides at multiples of this time only; 0: whenever something happens.
        warmup_s: What the figures leave out at the beginning; None: nothing.
        power: What nodes draw.
        remember: The jobs whose histories are kept.
        sharing: How fast jobs are that share nodes; see ``Engine``.
    """

    behaviour: Behaviour = field(default_factory=Behaviour)
    settings: Settings = field(default_factory=Settings)
    tick_s: float = 0.0
    warmup_s: float | None = None
    power: Power = field(default_factory=Power)
    remember: Remembered = frozenset()
    sharing: SharingModel = "ideal"


class Replay(msgspec.Struct, frozen=True):
    """What came of it.

    Attributes:
        result: The records, and why what happened to jobs whose histories are kept.
        measures: The figures.
        seconds: How long the simulation took.
        links: Which jobs came after which.
    """

    result: SimResult
    measures: Measures
    seconds: float
    links: Dependencies = msgspec.field(default_factory=Dependencies)


def replay(
    workload: Workload,
    policy: Policy,
    nodes: int | None = None,
    options: ReplayOptions | None = None,
    *,
    disturbances: Sequence[tuple[float, Event]] = (),
    observer: Observer | None = None,
    progress: Progress | None = None,
    jobs: deque[TraceJob] | None = None,
) -> Replay:
    """Simulate ``workload`` on ``nodes`` nodes (those of the workload by default) under ``policy``.

    The same input gives the same result, bit by bit.

    Args:
        workload: The jobs and their machine.
        policy: What decides.
        nodes: Of the machine.
        options: How it is replayed.
        disturbances: What else happens, and when.
        observer: Sees every batch.
        progress: Told now and then how far it is.
        jobs: The jobs of a workload that was parted from them (``Workload.parted``). They are taken out as they are
            submitted, so that a million of them need not be in memory beside what becomes of them.

    Raises:
        UnknownModelError: A job has a speedup model that does not exist.
    """
    options = options or ReplayOptions()
    size = nodes or workload.nodes
    if jobs is None:
        jobs = deque(in_order(workload.jobs))
    links = dependencies(jobs)
    engine = Engine(
        size,
        policy,
        options.settings,
        observer=observer,
        remember=options.remember,
        tick_s=options.tick_s,
        progress=progress,
        sharing=options.sharing,
        forgets=not options.remember,
    )
    submitted = submissions(jobs, options.behaviour, links)
    began = time.perf_counter()
    with rare_searches():
        result = engine.run(submitted, disturbances)
        seconds = time.perf_counter() - began
        measures = measure(
            result.records.values(),
            size,
            warmup_s=options.warmup_s,
            power=options.power,
            node_failures=result.failures,
        )
    return Replay(result, measures, seconds, links)
