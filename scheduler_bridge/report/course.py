"""How a run of any size went: use, queue and waits over time in a bounded number of steps, and its busiest part.

A picture of one bar for each job cannot be read beyond some hundreds of jobs. Here a step is the mean over some time,
exactly: what jobs held is integrated, not sampled.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from scheduler_bridge.record import RunRecord

    Floats: TypeAlias = NDArray[np.float64]

MOST_JOBS, MOST_NODES = 1000, 256
"""Larger runs cannot be read where each job has a bar."""
_MOST_STEPS: Final = 300
_WINDOW_JOBS: Final = 150
"""As many jobs are submitted in a window of the usual length as there can be distinct bars."""
_MINUTE_S, _HOUR_S, _DAY_S = 60.0, 3600.0, 86_400.0
_LENGTHS_S: Final = (
    *(1.0, 2.0, 5.0, 10.0, 20.0, 30.0),
    *(part * _MINUTE_S for part in (1, 2, 5, 10, 20, 30)),
    *(part * _HOUR_S for part in (1, 2, 3, 6, 12)),
    *(part * _DAY_S for part in (1, 2, 4, 7, 14, 28, 56, 112, 224)),
)
"""Of steps and windows: those that people count in."""


def is_large(jobs: int, nodes: int) -> bool:
    """Whether a run is drawn as an overview and a part."""
    return jobs > MOST_JOBS or nodes > MOST_NODES


class Life(NamedTuple):
    """A job from its submission to its end, in seconds; ``held`` are (from, to, nodes)."""

    submit_s: float
    start_s: float | None
    end_s: float | None
    held: Sequence[tuple[float, float, float]]
    grows: int = 0
    shrinks: int = 0


@dataclass(frozen=True, slots=True)
class Window:
    """A part of a run, in seconds since its first submission; ``is_busiest``: it was chosen for that."""

    from_s: float
    to_s: float
    is_busiest: bool = False


@dataclass(frozen=True, slots=True)
class Course:
    """A run in numbers and steps. Times in seconds since the first submission.

    Attributes:
        policy: What decided.
        nodes: Of the cluster.
        jobs: That were submitted and not refused.
        open_jobs: Those of them that are not over.
        edges_s: Where steps begin, and where the last one ends.
        busy: In each step, the share of the nodes that jobs held.
        waiting: In each step, how many jobs waited on average.
        most_waiting: How many waited at once at most.
        half_s: Of the jobs submitted in each step, half waited less; NaN: there is none.
        most_s: Nine of ten waited less.
        makespan_s: First submission to last end.
        utilization: Held node-seconds of nodes times makespan.
        waits_s: Mean, median and ninth decile of all waits; None: no job has started.
        mean_turnaround_s: Submission to end; None: no job is over.
        grows: That were carried out.
        shrinks: That were carried out.
        notes: What is to be said on every picture.
        origin_s: The first submission, on the clock of the run.
        held: Moments, and the node-seconds that were held until then.
        queued: Moments, and the job-seconds that were waited until then.
        starts_s: When jobs started, in order.
    """

    policy: str
    nodes: int
    jobs: int
    open_jobs: int
    edges_s: Floats
    busy: Floats
    waiting: Floats
    most_waiting: int
    half_s: Floats
    most_s: Floats
    makespan_s: float
    utilization: float
    waits_s: tuple[float, float, float] | None
    mean_turnaround_s: float | None
    grows: int
    shrinks: int
    notes: tuple[str, ...]
    origin_s: float
    held: tuple[Floats, Floats]
    queued: tuple[Floats, Floats]
    starts_s: Floats

    @classmethod
    def of(
        cls, policy: str, nodes: int, lives: Iterable[Life], *, until_s: float | None = None, notes: Sequence[str] = ()
    ) -> Course:
        """Put a run together.

        Args:
            policy: What decided.
            nodes: Of the cluster.
            lives: Its jobs, but for refused ones.
            until_s: When it was last seen, if jobs are not over; None: at the last end.
            notes: What is to be said on every picture.

        Raises:
            ValueError: There is no job.
        """
        submits: list[float] = []
        starts: list[float] = []
        ends: list[float] = []
        held: list[tuple[float, float, float]] = []
        grows = shrinks = 0
        for life in lives:
            submits.append(life.submit_s)
            starts.append(math.nan if life.start_s is None else life.start_s)
            ends.append(math.nan if life.end_s is None else life.end_s)
            held += life.held
            grows, shrinks = grows + life.grows, shrinks + life.shrinks
        if not submits:
            raise ValueError("nothing to draw: there is no job")
        submit_s, start_s, end_s = (np.array(values) for values in (submits, starts, ends))
        origin_s = float(submit_s.min())
        submit_s, start_s, end_s = submit_s - origin_s, start_s - origin_s, end_s - origin_s
        is_open = np.isnan(end_s)
        last_s = float(np.nanmax(end_s)) if not is_open.all() else 0.0
        if until_s is not None and is_open.any():
            last_s = max(last_s, until_s - origin_s)
        last_s = last_s or 1.0
        step_s = next((length for length in _LENGTHS_S if last_s / length <= _MOST_STEPS), last_s / _MOST_STEPS)
        edges_s = np.append(np.arange(0.0, last_s, step_s), last_s)
        span = np.array(held).reshape(-1, 3) - (origin_s, origin_s, 0.0)
        area = _area(span[:, 0], span[:, 1], span[:, 2])
        left_s = np.where(np.isnan(start_s), np.where(is_open, last_s, end_s), start_s)
        queue = _area(submit_s, left_s, np.ones_like(submit_s))
        waits_s = left_s - submit_s
        started = ~np.isnan(start_s)
        half_s, most_s = _quantiles(submit_s[started], waits_s[started], edges_s)
        all_waits_s = waits_s[started]
        return cls(
            policy=policy,
            nodes=nodes,
            jobs=len(submits),
            open_jobs=int(is_open.sum()),
            edges_s=edges_s,
            busy=_means(area, edges_s) / nodes,
            waiting=_means(queue, edges_s),
            most_waiting=_most(submit_s, left_s),
            half_s=half_s,
            most_s=most_s,
            makespan_s=last_s,
            utilization=float(area[1][-1]) / (nodes * last_s),
            waits_s=_summary(all_waits_s),
            mean_turnaround_s=None if is_open.all() else float((end_s - submit_s)[~is_open].mean()),
            grows=grows,
            shrinks=shrinks,
            notes=tuple(notes),
            origin_s=origin_s,
            held=area,
            queued=queue,
            starts_s=np.sort(start_s[started]),
        )

    def busiest(self) -> Window:
        """The part, with some hundred submissions, in which jobs held most nodes; where that is even, most waited.

        Use is compared in steps of a tenth, and parts begin at quarters of their length. Where no job waited, it is the
        one in which most jobs began.
        """
        usual_s = self.makespan_s * _WINDOW_JOBS / self.jobs
        length_s = next((length for length in _LENGTHS_S if length >= usual_s), self.makespan_s)
        if length_s >= self.makespan_s:
            return Window(0.0, self.makespan_s, is_busiest=False)
        begins_s = np.arange(0.0, self.makespan_s - length_s + 1e-9, length_s / 4)
        use, queue = (
            np.interp(begins_s + length_s, *area) - np.interp(begins_s, *area) for area in (self.held, self.queued)
        )
        begun = np.searchsorted(self.starts_s, begins_s + length_s) - np.searchsorted(self.starts_s, begins_s)
        tenths = np.floor(10 * use / (self.nodes * length_s) + 0.5)
        best = max(range(len(begins_s)), key=lambda at: (tenths[at], queue[at], begun[at]))
        return Window(float(begins_s[best]), float(begins_s[best]) + length_s, is_busiest=True)


def lives_of(record: RunRecord) -> Iterable[Life]:
    """The jobs of a record, but for refused ones."""
    for job in record.jobs:
        if job.state != "refused":
            held = [(part.from_s, part.to_s, len(part.nodes) * part.share) for part in job.segments]
            yield Life(job.submit_s, job.start_s, job.end_s, held, job.done("grow"), job.done("shrink"))


def cut(record: RunRecord, window: Window, origin_s: float) -> RunRecord:
    """The part of a record that lies in a window: jobs that held nodes then, and only what they held then."""
    from msgspec.structs import replace

    from_s, to_s = window.from_s + origin_s, window.to_s + origin_s
    jobs = []
    for job in record.jobs:
        parts = [
            replace(part, from_s=max(part.from_s, from_s), to_s=min(part.to_s, to_s))
            for part in job.segments
            if part.from_s < to_s and part.to_s > from_s
        ]
        if parts:
            jobs.append(replace(job, segments=parts))
    reserved = [
        replace(taken, from_s=max(taken.from_s, from_s), to_s=min(taken.to_s, to_s))
        for taken in record.reserved
        if taken.from_s < to_s and taken.to_s > from_s
    ]
    return replace(record, jobs=jobs, reserved=reserved)


def _area(from_s: Floats, to_s: Floats, height: Floats) -> tuple[Floats, Floats]:
    """Moments at which the sum of such rectangles changes, and its integral until then."""
    at_s = np.concatenate((from_s, to_s))
    change = np.concatenate((height, -height))
    order = np.argsort(at_s, kind="stable")
    at_s, level = at_s[order], np.cumsum(change[order])
    if not len(at_s):
        return np.zeros(1), np.zeros(1)
    return at_s, np.concatenate(([0.0], np.cumsum(level[:-1] * np.diff(at_s))))


def _means(area: tuple[Floats, Floats], edges_s: Floats) -> Floats:
    """The mean of what was integrated, in each step."""
    integral: Floats = np.interp(edges_s, *area)
    return np.asarray(np.diff(integral) / np.diff(edges_s))


def _most(from_s: Floats, to_s: Floats) -> int:
    """How many of such intervals there are at once at most; one that ends when another one begins is over."""
    at_s = np.concatenate((to_s, from_s))
    change = np.concatenate((-np.ones_like(to_s), np.ones_like(from_s)))
    waits = np.concatenate((to_s > from_s, to_s > from_s))
    at_s, change = at_s[waits], change[waits]
    return int(np.cumsum(change[np.argsort(at_s, kind="stable")]).max(initial=0))


def _quantiles(submit_s: Floats, waits_s: Floats, edges_s: Floats) -> tuple[Floats, Floats]:
    order = np.argsort(submit_s, kind="stable")
    waits_s = waits_s[order]
    at = np.searchsorted(submit_s[order], edges_s)
    at[-1] = len(waits_s)
    half_s, most_s = np.full(len(edges_s) - 1, np.nan), np.full(len(edges_s) - 1, np.nan)
    for step in range(len(edges_s) - 1):
        if at[step] < at[step + 1]:
            half_s[step], most_s[step] = np.quantile(waits_s[at[step] : at[step + 1]], (0.5, 0.9))
    return half_s, most_s


def _summary(waits_s: Floats) -> tuple[float, float, float] | None:
    if not len(waits_s):
        return None
    half_s, most_s = np.quantile(waits_s, (0.5, 0.9))
    return float(waits_s.mean()), float(half_s), float(most_s)
