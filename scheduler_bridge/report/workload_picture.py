"""Pictures of workloads: sizes and runtimes as the papers draw them, submissions and use over time."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from scheduler_bridge.report.charts import GREY, beside, drawable, plain, sheet
from scheduler_bridge.report.looks import OKABE_ITO
from scheduler_bridge.workloads.workload import busy_nodes, describe_workload

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

    from scheduler_bridge.workloads import Workload

_HOUR_S = 3600
_DAY_S = 86_400
_BLUE, _ORANGE = OKABE_ITO[4], OKABE_ITO[1]


def draw_workload(workload: Workload) -> Figure:
    """Draw four panels: sizes, runtimes, submissions and nodes in use.

    Raises:
        ValueError: The workload has no jobs.
    """
    numbers = describe_workload(workload)
    figure = sheet(6.6)
    title = drawable(f"{numbers.name}: {numbers.jobs:,} jobs, {numbers.nodes:,} nodes")
    figure.suptitle(title, fontsize=13, fontweight="bold", parse_math=False)
    (sizes, runtimes), (submissions, use) = figure.subplots(2, 2)
    jobs = workload.jobs
    _shares(sizes, [job.nodes for job in jobs], "nodes", 2)
    _shares(runtimes, [job.runtime_s / _HOUR_S for job in jobs], "runtime in hours", 10)
    _submissions(submissions, workload)
    _use(use, workload)
    if numbers.synthetic:
        figure.text(0.995, 0.985, "SYNTHETIC", ha="right", va="top", color="#D55E00", fontweight="bold", fontsize=11)
    return figure


def _shares(axes: Axes, values: Sequence[float], label: str, base: int) -> None:
    """The cumulative share of the jobs; the axis of values is logarithmic."""
    ordered = sorted(values)
    count = len(ordered)
    axes.step(ordered, [100 * (index + 1) / count for index in range(count)], where="post", color=_BLUE, lw=1.5)
    axes.set_xscale("log", base=base)
    if base == 2:
        axes.xaxis.set_major_locator(LogLocator(base=4))
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set(xlabel=label, ylabel="jobs, cumulative, in %", ylim=(0, 102))
    _plain(axes)


def _submissions(axes: Axes, workload: Workload) -> None:
    first_s, span_s = _span(workload)
    slot_s = _HOUR_S if span_s > 2 * _HOUR_S else span_s / 30
    counts = Counter(int((job.submit_s - first_s) // slot_s) for job in workload.jobs)
    steps = [(slot * slot_s, counts[slot] * _HOUR_S / slot_s) for slot in range(max(counts) + 1)]
    _over_time(axes, steps, span_s, "submissions per hour", color=_ORANGE)
    axes.set_ylim(bottom=0)
    _plain(axes)


def _use(axes: Axes, workload: Workload) -> None:
    first_s, span_s = _span(workload)
    known = any(job.wait_s is not None for job in workload.jobs)
    what = "nodes in use, as recorded" if known else "nodes wanted, if all started at once"
    steps = [(time_s - first_s, busy) for time_s, busy in busy_nodes(workload.jobs)]
    _over_time(axes, steps, span_s, what, color=_BLUE, alpha=0.75)
    axes.axhline(workload.nodes, color="#D55E00", lw=1.2)
    box = {"facecolor": "white", "edgecolor": "none", "pad": 1.0, "alpha": 0.8}
    place = ("axes fraction", "data")
    beside(axes, "the machine", (1, workload.nodes), (-3, 3), xycoords=place, ha="right", color="#D55E00", bbox=box)
    axes.set_ylim(bottom=0, top=max(workload.nodes * 1.12, axes.get_ylim()[1]))
    _plain(axes)


def _span(workload: Workload) -> tuple[float, float]:
    """The first submission, and how long it is from there to the last one."""
    first_s = workload.jobs[0].submit_s
    return first_s, max(workload.jobs[-1].submit_s - first_s, 1.0)


def _over_time(axes: Axes, steps: Sequence[tuple[float, float]], span_s: float, label: str, **look: Any) -> None:
    """Fill what is below steps; ``look``: as for an area of matplotlib."""
    unit_s, unit = (_DAY_S, "days") if span_s > 2 * _DAY_S else (_HOUR_S, "hours") if span_s > _HOUR_S else (1, "s")
    axes.fill_between([at_s / unit_s for at_s, _ in steps], [level for _, level in steps], step="post", lw=0, **look)
    axes.set(xlabel=f"{unit} since the first submission", ylabel=label, xlim=(0, span_s / unit_s))


def _plain(axes: Axes) -> None:
    plain(axes)
    axes.tick_params(labelsize=9, colors=GREY)
