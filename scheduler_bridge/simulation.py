"""The simulator for programs and notebooks: a workload under a policy, and tables, figures and pictures of what came.

``simulate`` is what a user calls. ``Setup`` is what it and ``malleable simulate`` are made of.
"""

from __future__ import annotations

import contextlib
import inspect
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from scheduler_bridge import policies
from scheduler_bridge.core import Settings, settings_for
from scheduler_bridge.core.events import Effect, Event
from scheduler_bridge.model import ClusterView, JobSpec, Reservation
from scheduler_bridge.policies import Decision, Policy
from scheduler_bridge.policies.mistakes import MISTAKES
from scheduler_bridge.record import Recorder, RunRecord
from scheduler_bridge.report import words
from scheduler_bridge.sim import COLUMNS, Cost, Replay, ReplayOptions, job_rows, node_names, parse_cost, replay
from scheduler_bridge.sim.jobs import Observer, Progress, SimRecord
from scheduler_bridge.sim.measures import Measures, headline_figures
from scheduler_bridge.workloads import RULES, TraceJob, Workload, convert, make_evolving
from scheduler_bridge.workloads.workload import MAX_NODES

if TYPE_CHECKING:
    from collections import deque

    from matplotlib.figure import Figure
    from pandas import DataFrame

    from scheduler_bridge.report.overview import Course, Window
    from scheduler_bridge.report.page import Drawn

__all__ = ["Decide", "Simulation", "simulate"]

Decide: TypeAlias = Callable[[ClusterView, float], Iterable[Decision]]
"""What a policy decides of a view of the cluster, at a time in seconds; see ``scheduler_bridge.policies.Policy``."""


def simulate(
    workload: Workload,
    policy: str | Policy | Callable[[], Policy] | Decide,
    *,
    nodes: int | None = None,
    malleable: float = 0.0,
    seed: int = 1,
    rule: str = "amdahl",
    evolving: float = 0.0,
    target_efficiency: float | None = None,
    cost: str | Cost | None = None,
    warmup_s: float | None = None,
    options: ReplayOptions | None = None,
    progress: Progress | None = None,
) -> Simulation:
    """Simulate a workload on a cluster under a policy. The same input gives the same result, bit by bit.

    Example:
        >>> from scheduler_bridge import Workload, simulate
        >>> done = simulate(Workload.generate("lublin", seed=1, jobs=200, load=0.8), "avg", malleable=0.5)
        >>> 0.7 < done.metrics["utilization"] < 0.9
        True

    Args:
        workload: The jobs and their machine.
        policy: Its name; or a policy; or a function that makes one; or a function of the view of the cluster and the
            time that decides.
        nodes: Of the cluster; None: of the workload's machine.
        malleable: The share of the rigid jobs, from 0 to 1, that becomes malleable.
        seed: Determines which.
        rule: Which bounds malleable jobs get; one of ``scheduler_bridge.workloads.RULES``.
        evolving: The share of the malleable jobs that offer nodes and ask for them while they run.
        target_efficiency: These jobs size themselves to hold this efficiency, all of them if ``evolving`` is 0.
        cost: Of resizes: ``none``, ``constant:SECONDS``, ``mebf``, ``measured``, or another model; None: as ``options``
            say.
        warmup_s: What the figures leave out at the beginning; None: as ``options`` say.
        options: All else; None: as ``malleable simulate`` does it.
        progress: Called now and then with the time in the simulation and how many jobs are over.

    Raises:
        ValueError: A share is out of range, there is no such policy, rule or model, or there is no job.
        TypeError: The policy is none, or the cost.
        PolicyError: (of ``scheduler_bridge.policies``) The policy raises something, or decides what cannot be done.
    """
    name, make_policy = _policy(policy)
    if rule not in RULES:
        raise ValueError(f"rule is {rule!r}: there are {', '.join(RULES)}")
    if not workload.jobs:
        raise ValueError(f"{workload.name} has no jobs")
    nodes = workload.nodes if nodes is None else nodes
    if not 1 <= nodes <= MAX_NODES:
        raise ValueError(f"nodes is {nodes}, must be from 1 to {MAX_NODES:,}")
    meant = settings_for(name) if name in policies.names() else Settings()
    how = options or ReplayOptions(settings=replace(meant, walltime="scaled"))
    if cost is not None:
        model = parse_cost(cost) if isinstance(cost, str) else cost
        if model is not None and not callable(model):
            raise TypeError(f"cost is {model!r}: give a name like 'constant:5', or a model, which is a function")
        how = replace(how, behaviour=replace(how.behaviour, cost=model))
    if warmup_s is not None:
        how = replace(how, warmup_s=warmup_s)
    if malleable:
        workload = convert(workload, malleable, seed, RULES[rule])
    if evolving or target_efficiency is not None:
        workload = make_evolving(workload, evolving or 1.0, seed, target_efficiency)
    setup = Setup(workload, name, make_policy, nodes, how)
    return Simulation(setup, setup.replay(progress=progress))


class _Deciding:
    """A policy of a function that decides."""

    def __init__(self, decide: Decide) -> None:
        self.name = getattr(decide, "__name__", type(decide).__name__)
        self._decide = decide

    def decide(self, view: ClusterView, now: float) -> list[Decision]:
        decided = cast("object", self._decide(view, now))
        return list(decided) if isinstance(decided, Iterable) else cast("list[Decision]", decided)  # which is refused

    def why_waiting(self, view: ClusterView, job: JobSpec, reservation: Reservation | None) -> str:  # noqa: ARG002
        return f"{self.name} has not started it"


def _policy(given: object) -> tuple[str, Callable[[], Policy]]:
    """The name of what decides, and what makes it.

    Raises:
        UnknownPolicyError: No policy has that name.
        PolicyError: What makes it raises something.
        TypeError: It is none.
    """
    if isinstance(given, str):
        policies.describe(given)
        return given, partial(policies.get, given)
    if hasattr(given, "decide"):
        one = cast("Policy", given)
        return one.name, lambda: one  # what it decides follows from the view and the time
    if callable(given):
        parameters = inspect.signature(given).parameters.values()
        needed = [one for one in parameters if one.default is one.empty and one.kind not in _COLLECTING]
        if len(needed) >= 2:
            return _Deciding(cast("Decide", given)).name, lambda: _Deciding(cast("Decide", given))
        if not needed and hasattr(made := _made(given), "decide"):
            return cast("Policy", made).name, cast("Callable[[], Policy]", given)
    raise TypeError(
        f"{given!r} is no policy: give a name of {', '.join(policies.names())}; an object with a method "
        "decide(view, now); a function that makes one; or a function (view, now) that returns decisions"
    )


def _made(make: Callable[[], object]) -> object:
    try:
        return make()
    except (policies.PolicyError, policies.UnknownPolicyError):
        raise
    except MISTAKES as error:
        name = getattr(make, "__name__", type(make).__name__)
        raise policies.PolicyError.raised(name, error, "when it was made") from error


_COLLECTING: Final = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


# What came of it ------------------------------------------------------------------------------------------------------


class Simulation:
    """What came of a simulation. Tables need pandas; pictures need matplotlib.

    Attributes:
        workload: What was simulated; its jobs as they were made malleable.
        policy: The name of what decided.
        nodes: Of the cluster.
        measures: All figures.
    """

    def __init__(self, setup: Setup, done: Replay) -> None:
        self._setup = setup
        self._done = done
        self.workload: Workload = setup.workload
        self.policy: str = setup.policy
        self.nodes: int = setup.nodes
        self.measures: Measures = done.measures

    @property
    def metrics(self) -> dict[str, float | int | None]:
        """The main figures by name: means over the jobs, in seconds, resizes, utilization (0 to 1), makespan."""
        return headline_figures(self.measures)

    @cached_property
    def jobs(self) -> DataFrame:
        """A row for each job by submission, with times in seconds: see ``scheduler_bridge.sim.COLUMNS``."""
        rows = job_rows(self._records, self.workload.label, self.policy)
        return _frame(rows, COLUMNS).astype({name: float for name in COLUMNS if name.endswith("_s")})

    @cached_property
    def resizes(self) -> DataFrame:
        """A row for each change of a running job's size, by time: time_s, job, kind, nodes_before, nodes_after.

        The kind is grow or shrink; that a job goes on without a node that failed counts as a shrink.
        """
        rows = [
            (to_s, record.spec.job_id, "grow" if after > before else "shrink", before, after)
            for record in self._records
            for (_, before), (to_s, after) in zip(record.sizes, record.sizes[1:], strict=False)
            if before and after and before != after  # 0: it waits to be run again
        ]
        kinds = {"time_s": float, "job": int, "kind": str, "nodes_before": int, "nodes_after": int}
        return _frame(sorted(rows), tuple(kinds)).astype(kinds)  # also of no row

    @cached_property
    def nodes_over_time(self) -> DataFrame:
        """A row for each moment at which something changes: what holds from then on, to the next row.

        time_s; busy: nodes on which jobs compute (of shared ones, their parts); reserved: nodes held without use;
        running, waiting: jobs.
        """
        changes: tuple[Counter[float], ...] = (Counter(), Counter(), Counter(), Counter())
        for record in self._records:
            for counter, spans in zip(changes, _spans(record, self._done.result.end_s), strict=True):
                for from_s, to_s, count in spans:
                    counter[from_s] += count  # type: ignore[assignment]  # parts of shared nodes are no whole numbers
                    counter[to_s] -= count  # type: ignore[assignment]
        times = sorted(set().union(*changes))
        levels = [accumulate([counter[time_s] for time_s in times]) for counter in changes]
        kinds = {"time_s": float, "busy": float, "reserved": float, "running": int, "waiting": int}
        return _frame(zip(times, *levels, strict=True), tuple(kinds)).astype(kinds)

    @property
    def _records(self) -> Iterable[SimRecord]:
        return self._done.result.records.values()

    def plot(self, window: tuple[float, float] | None = None) -> Figure:
        """Draw nodes over time, with utilization above and waiting jobs below, as ``malleable simulate --gantt`` does.

        Args:
            window: Draw nodes over this part only, in seconds since the first submission, below an overview of all.
                None: over all of it; of a run of more than 1,000 jobs or 256 nodes, the busiest part.

        Raises:
            ValueError: The window is no part of the run.
        """
        return self._setup.drawn(self._done, None if window is None else partial(_window, *window)).figure()

    def __repr__(self) -> str:
        means = self.measures.every
        return (
            f"{self.workload.label}: {self.policy} on {words.plural(self.nodes, 'node')}, {means.jobs:,} jobs: "
            f"mean wait {words.seconds(means.mean_wait_s)}, turnaround {words.seconds(means.mean_turnaround_s)}, "
            f"utilization {words.percent(self.measures.utilization)}"
        )


def _window(from_s: float, to_s: float, course: Course) -> Window:
    from scheduler_bridge.report.overview import Window

    if not 0 <= from_s < min(to_s, course.makespan_s):
        raise ValueError(f"window is ({from_s:g}, {to_s:g}): no part of a run from 0 to {course.makespan_s:,.0f} s")
    return Window(from_s, min(to_s, course.makespan_s))


_Spans: TypeAlias = Iterable[tuple[float, float, float]]


def _spans(record: SimRecord, until_s: float) -> tuple[_Spans, _Spans, _Spans, _Spans]:
    """When a job was on how many nodes, and for how many these were reserved; when it ran, and when it waited."""
    if record.refused:
        return (), (), (), ()
    end_s = until_s if record.end_s is None else record.end_s
    sizes = record.sizes.spans(end_s)
    queued_s = end_s if record.start_s is None else record.start_s
    waited = [(record.spec.submit_s, queued_s, 1.0), *((from_s, to_s, 1.0) for from_s, to_s, n in sizes if not n)]
    running = ((from_s, to_s, 1.0) for from_s, to_s, n in sizes if n)
    return record.spans() or sizes, record.reserved, running, waited


def _frame(rows: Iterable[tuple[Any, ...]], columns: Sequence[str]) -> DataFrame:
    """A table of pandas.

    Raises:
        ModuleNotFoundError: It is not installed.
    """
    try:
        import pandas as pd
    except ModuleNotFoundError as error:
        if error.name != "pandas":
            raise
        what = 'tables of a simulation need pandas: pip install "malleable-apgas[sweeps]"'
        raise ModuleNotFoundError(what, name="pandas") from None
    return pd.DataFrame(list(rows), columns=list(columns))


# What is simulated, and what is drawn of it ---------------------------------------------------------------------------


class _SeenError(Exception):
    """The part of the run that is looked at is over."""


@dataclass(frozen=True, slots=True)
class Setup:
    """A workload, the cluster and what decides, which can be simulated any number of times."""

    workload: Workload
    policy: str
    make_policy: Callable[[], Policy]
    nodes: int
    options: ReplayOptions
    disturbances: Sequence[tuple[float, Event]] = ()

    def replay(
        self,
        observer: Observer | None = None,
        progress: Progress | None = None,
        jobs: deque[TraceJob] | None = None,
    ) -> Replay:
        """Simulate; see ``scheduler_bridge.sim.replay``."""
        return replay(
            self.workload,
            self.make_policy(),
            self.nodes,
            self.options,
            disturbances=self.disturbances,
            observer=observer,
            progress=progress,
            jobs=jobs,
        )

    def drawn(
        self, done: Replay, choose: Callable[[Course], Window] | None = None, progress: Progress | None = None
    ) -> Drawn:
        """What is drawn of the simulation: all of it, or of a large one its course and a part.

        It is simulated again for that, with a look at which nodes jobs have, which is the same bit by bit. Of a large
        run the busiest part is only known when it is over.

        Args:
            done: What came of it.
            choose: Which part is drawn; None: all of it, of a large one the busiest part.
            progress: Called now and then with how far the second simulation is.

        Raises:
            ValueError: No job was taken.
        """
        from scheduler_bridge.report.overview import Course, Life, is_large
        from scheduler_bridge.report.page import Drawn

        notes = [f"simulated: {self.workload.label}", *fault_lines(done.measures)]
        if choose is None and not is_large(len(self.workload), self.nodes):
            recorder = self._recorder(notes)
            self.replay(recorder.observe, progress)
            return Drawn(recorder.record())
        records = [record for record in done.result.records.values() if not record.refused]
        lives = (
            Life(
                record.spec.submit_s, record.start_s, record.end_s, (*record.spans(), *record.reserved), record.grows,
                record.shrinks,
            )
            for record in records
        )  # fmt: skip
        course = Course(self.policy, self.nodes, lives, until_s=done.result.end_s, notes=notes)
        window = course.busiest() if choose is None else choose(course)
        return Drawn(self._part(course, window, notes[:1], progress), (course, window))

    def _part(self, course: Course, window: Window, notes: Sequence[str], progress: Progress | None) -> RunRecord:
        from scheduler_bridge.report.overview import cut

        from_s, to_s = course.origin_s + window.from_s, course.origin_s + window.to_s
        recorder = self._recorder(notes, since_s=from_s)

        def observe(now: float, events: Sequence[Event], effects: Sequence[Effect]) -> None:
            if now > to_s:
                raise _SeenError
            recorder.observe(now, events, effects)

        with contextlib.suppress(_SeenError):
            self.replay(observe, progress)
        recorder.observe(to_s, ())
        return cut(recorder.record(), window, course.origin_s)

    def _recorder(self, notes: Sequence[str], since_s: float = -math.inf) -> Recorder:
        cores = self.options.settings.cores_per_node
        recorder = Recorder(node_names(self.nodes), self.policy, cores_per_node=cores, since_s=since_s)
        for note in notes:
            recorder.note(note)
        return recorder


def fault_lines(measures: Measures) -> Iterator[str]:
    """What failures and checkpoints cost, and which jobs never ended; nothing where there were none."""
    if measures.unfinished:
        yield (
            f"WARNING: never ended: {words.plural(measures.unfinished, 'job')}; the means are without them, and look "
            "better for it"
        )
    if (faults := measures.faults) is None:
        return
    yield (
        f"of the utilization {measures.useful:.1%} useful, {measures.lost:.1%} lost to failures, "
        f"{measures.overhead:.1%} spent on checkpoints and restarts"
    )
    yield (
        f"{words.plural(faults.node_failures, 'node failure')}: {faults.job_failures:,} times a job lost a node, "
        f"{faults.restarts:,} times one was run again"
    )
    yield (
        f"{faults.lost_node_s / 3600:,.1f} node-hours lost, {faults.checkpoint_node_s / 3600:,.1f} for "
        f"{words.plural(faults.checkpoints, 'checkpoint')}, {faults.restart_node_s / 3600:,.1f} for restarts"
    )
    if faults.lost_jobs:
        yield (
            f"WARNING: lost for good: {words.plural(faults.lost_jobs, 'job')}, with {faults.lost_jobs_share:.1%} of "
            "the node-hours asked for; the means are without them, and look better for it"
        )
