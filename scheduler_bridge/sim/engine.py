"""An event heap that carries out the core's effects with job models."""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias, assert_never

from scheduler_bridge.core import Remembered, SchedulerCore, Settings
from scheduler_bridge.core.effects import Effect, KillJob, Refuse, SendOrder, StartJob, WakeAt
from scheduler_bridge.core.events import (
    Event,
    EvolvingRequest,
    GrowCompleted,
    JobEnded,
    JobStarted,
    JobSubmitted,
    MalleableReady,
    ResizeDeferred,
    ResizeFailed,
    ShrinkCompleted,
    WakeUp,
)
from scheduler_bridge.model import JobSpec
from scheduler_bridge.policies import Policy
from scheduler_bridge.sim.models import JobRecord, SimJob

Observer: TypeAlias = Callable[[float, Sequence[Event], Sequence[Effect]], None]
"""Called after every batch with its time, its events and their effects."""


@dataclass(slots=True)
class _Run:
    """A job that was told to start. ``version`` outdates ends that were predicted before a change of speed."""

    sim: SimJob
    nodes: tuple[str, ...]
    left_s: float
    rate: float = 0.0
    since_s: float = 0.0
    version: int = 0
    orders: int = 0
    over: bool = False


@dataclass(frozen=True, slots=True)
class SimResult:
    """What a simulation yields: the jobs' records by id, when the last thing happened, and the core as it was then."""

    records: dict[int, JobRecord]
    end_s: float
    batches: int
    core: SchedulerCore


class Engine:
    """Simulates one cluster until nothing is left to happen.

    Args:
        nodes: The cluster's nodes; a number makes ``n0000``, ``n0001`` and so on.
        policy: What decides.
        settings: The core's parameters.
        observer: Sees every batch.
        check: Check the core's whole state after every batch.
        remember: The jobs whose histories are kept, for ``SimResult.core.explanation``.
    """

    def __init__(
        self,
        nodes: int | Sequence[str],
        policy: Policy,
        settings: Settings | None = None,
        *,
        observer: Observer | None = None,
        check: bool = False,
        remember: Remembered = frozenset(),
    ) -> None:
        names = [f"n{index:04d}" for index in range(nodes)] if isinstance(nodes, int) else nodes
        self._core = SchedulerCore(names, policy, settings, remember=remember)
        self._observer = observer
        self._check = check
        self._now = 0.0
        self._batches = 0
        self._serial = 0
        self._submissions: deque[JobSpec] = deque()
        self._heap: list[tuple[float, int, Event, _Run | None, int]] = []
        self._at_once: list[tuple[Event, _Run, int]] = []  # events of the present instant, for its next batch
        self._sims: dict[int, SimJob] = {}
        self._runs: dict[int, _Run] = {}
        self._records: dict[int, JobRecord] = {}

    def run(self, jobs: Iterable[SimJob], disturbances: Iterable[tuple[float, Event]] = ()) -> SimResult:
        """Run ``jobs`` and let ``disturbances`` (time in seconds, event) happen.

        Jobs of one instant are submitted in the order of their ids, whatever their order in ``jobs``.

        Raises:
            ValueError: Two jobs have the same id.
        """
        for sim in jobs:
            spec = sim.spec
            if spec.job_id in self._sims:
                raise ValueError(f"two jobs have the id {spec.job_id}")
            self._sims[spec.job_id] = sim
            self._records[spec.job_id] = JobRecord(spec)
        specs = [sim.spec for sim in self._sims.values()]
        self._submissions.extend(sorted(specs, key=lambda spec: (spec.submit_s, spec.job_id)))
        for time_s, event in disturbances:
            self._push(time_s, event)
        while self._at_once or self._heap or self._submissions:
            self._step()
        self._conclude()
        return SimResult(self._records, self._now, self._batches, self._core)

    def _push(self, time_s: float, event: Event, run: _Run | None = None) -> None:
        if run is not None and time_s == self._now:
            self._at_once.append((event, run, run.version))
            return
        self._serial += 1
        heapq.heappush(self._heap, (time_s, self._serial, event, run, run.version if run else 0))

    def _step(self) -> None:
        """Hand everything that happens at the next instant to the core, and do what it wants."""
        events = self._next_events()
        if not events:
            return
        effects = self._core.handle_batch(events, self._now)
        self._batches += 1
        if self._check:
            self._core.check()
        if self._observer is not None:
            self._observer(self._now, events, effects)
        for effect in effects:
            self._do(effect)

    def _next_events(self) -> list[Event]:
        """What happens next: what the last batch brought about at once, or all that falls on the next instant."""
        events: list[Event] = []
        if self._at_once:
            due, self._at_once = self._at_once, []
            return [event for event, run, version in due if self._happens(event, run, version)]
        heap, submissions = self._heap, self._submissions
        self._now = now = min(heap[0][0] if heap else math.inf, submissions[0].submit_s if submissions else math.inf)
        while submissions and submissions[0].submit_s == now:
            events.append(JobSubmitted(submissions.popleft()))
        while heap and heap[0][0] == now:
            _, _, event, run, version = heapq.heappop(heap)
            if isinstance(event, EvolvingRequest):
                run = self._runs.get(event.job_id)  # only a job that runs can ask
                if run is None:
                    continue
            if run is None or self._happens(event, run, version):
                events.append(event)
        return events

    def _happens(self, event: Event, run: _Run, version: int) -> bool:
        """Let the job live through ``event``; False if it is outdated."""
        if run.over or (isinstance(event, JobEnded) and version != run.version):
            return False
        record = self._records[run.sim.spec.job_id]
        match event:
            case JobStarted():
                record.start_s = self._now
                record.sizes.append((self._now, len(run.nodes)))
                self._go_on(run, len(run.nodes))
            case GrowCompleted(nodes=nodes):
                run.nodes += nodes
                record.grows += 1
                record.sizes.append((self._now, len(run.nodes)))
                self._go_on(run, len(run.nodes))
            case ShrinkCompleted(nodes=nodes):
                released = set(nodes)
                run.nodes = tuple(node for node in run.nodes if node not in released)
                record.shrinks += 1
                record.sizes.append((self._now, len(run.nodes)))
                self._go_on(run, len(run.nodes))
            case JobEnded():
                run.over = True
                record.end_s = self._now
            case _:
                pass
        return True

    def _go_on(self, run: _Run, nodes: int) -> None:
        """Compute on ``nodes`` nodes from now on, and predict the end."""
        run.left_s = max(0.0, run.left_s - run.rate * (self._now - run.since_s))
        run.rate, run.since_s = run.sim.rate(nodes), self._now
        run.version += 1
        self._push(self._now + run.left_s / run.rate, JobEnded(run.sim.spec.job_id, "completed"), run)

    def _do(self, effect: Effect) -> None:
        match effect:
            case StartJob():
                self._start(effect)
            case SendOrder():
                self._order(effect, self._runs[effect.job_id])
            case KillJob():
                run = self._runs[effect.job_id]
                run.version += 1
                self._push(self._now + run.sim.kill_delay_s, JobEnded(effect.job_id, "failed", "killed"), run)
            case WakeAt():
                self._push(effect.time_s, WakeUp())
            case Refuse():
                if effect.job_id not in self._runs:
                    self._records[effect.job_id].refused = True
            case _:
                assert_never(effect)

    def _start(self, effect: StartJob) -> None:
        sim = self._sims[effect.job_id]
        run = self._runs[effect.job_id] = _Run(sim, effect.nodes, sim.runtime_s)
        starts_s = self._now + sim.start_delay_s
        self._push(starts_s, JobStarted(effect.job_id), run)
        if sim.spec.is_malleable and sim.ready_delay_s is not None:
            self._push(starts_s + sim.ready_delay_s, MalleableReady(effect.job_id), run)

    def _order(self, order: SendOrder, run: _Run) -> None:
        sim = run.sim
        fails = run.orders in sim.failing_orders
        run.orders += 1
        if sim.defer_s > 0:
            self._push(self._now, ResizeDeferred(order.job_id, order.order, "not in this phase"), run)
        done_s = self._now + sim.defer_s + (sim.grow_s if order.kind == "grow" else sim.shrink_s)
        if fails:
            self._push(done_s, ResizeFailed(order.job_id, order.order, "aborted"), run)
        elif order.kind == "grow":
            self._push(done_s, GrowCompleted(order.job_id, order.order, order.nodes), run)
        else:
            released = run.nodes[1 : 1 + order.count] if sim.own_choice else order.nodes
            self._push(done_s, ShrinkCompleted(order.job_id, order.order, released), run)
            if sim.defer_s == 0:
                self._go_on(run, len(run.nodes) - order.count)

    def _conclude(self) -> None:
        """Copy how the core saw the ends into the records."""
        for job_id, outcome, end_s in self._core.endings():
            record = self._records[job_id]
            record.outcome, record.end_s = outcome, end_s


def simulate(
    nodes: int | Sequence[str],
    policy: Policy,
    jobs: Iterable[SimJob],
    disturbances: Iterable[tuple[float, Event]] = (),
    settings: Settings | None = None,
) -> SimResult:
    """Run ``jobs`` on ``nodes`` under ``policy``; see ``Engine``."""
    return Engine(nodes, policy, settings).run(jobs, disturbances)
