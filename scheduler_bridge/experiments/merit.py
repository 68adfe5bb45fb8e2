"""Figures of merit of real runs, and the simulator held against them: means side by side, and run by run."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeAlias, TypeVar

from matplotlib.lines import Line2D

from scheduler_bridge.experiments.study import known_of
from scheduler_bridge.experiments.study_report import Picture
from scheduler_bridge.report.charts import FAINT, Curve, draw_multiples, plain, say, sheet
from scheduler_bridge.report.looks import OKABE_ITO

LIMIT: Final = 5.0
"""The error of the means that we aim at, in percent."""
MEASURES: Final[Mapping[str, str]] = {
    "makespan_s": "makespan s",
    "turnaround_s": "turnaround s",
    "wait_s": "wait s",
    "runtime_s": "runtime s",
    "utilization": "utilization %",
}
"""The figures of merit, and their titles in tables."""
COMPARED: Final = tuple(column for title in MEASURES.values() for column in (title, "simulated", "error %"))
Merit: TypeAlias = Mapping[str, float]
"""A run in numbers, by measure, without those that are not known."""
Key = TypeVar("Key", bound="tuple[str, int, int, object]")


def merit(spans: Sequence[tuple[float, float, float]], node_s: float, nodes: int) -> dict[str, float]:
    """The figures of merit of a batch; times are from the first submission to the last end, or means over the jobs.

    Args:
        spans: When each job was submitted, started and ended.
        node_s: Node-seconds of the jobs, which utilization counts by those of the cluster until the last end.
        nodes: Of the cluster.
    """
    makespan_s = max(end_s for *_, end_s in spans) - min(submit_s for submit_s, *_ in spans)
    return {
        "makespan_s": makespan_s,
        "turnaround_s": statistics.fmean(end_s - submit_s for submit_s, _, end_s in spans),
        "wait_s": statistics.fmean(start_s - submit_s for submit_s, start_s, _ in spans),
        "runtime_s": statistics.fmean(end_s - start_s for _, start_s, end_s in spans),
        "utilization": 100 * node_s / (nodes * makespan_s),
    }


@dataclass(frozen=True, slots=True)
class Replayed(Generic[Key]):
    """A real run, and the same batch simulated.

    Attributes:
        key: Which run: policy, share of malleable jobs in percent, seed, and more.
        real: As measured.
        replicas: As simulated, by measure for each replica.
        apart: Whether something in it is as in no other run, so that its mark is hollow.
    """

    key: Key
    real: Merit
    replicas: Mapping[str, Sequence[float]]
    apart: bool = False

    def mean(self, name: str) -> float:
        """The mean of the replicas."""
        return statistics.fmean(self.replicas[name])

    def covers(self, name: str) -> bool:
        """Whether the real run could be one of the replicas: it lies between the least and the largest of them."""
        return min(self.replicas[name]) <= self.real[name] <= max(self.replicas[name])


def beside(those: Sequence[Replayed[Key]], name: str) -> tuple[float | None, float | None]:
    """The means of a measure, real and simulated; None: of some run it is not known, or there is no run."""
    if not those:
        return None, None
    real = known_of(one.real.get(name) for one in those)
    return statistics.fmean(real) if real else None, statistics.fmean(one.mean(name) for one in those)


def inside(errors: Sequence[float]) -> int:
    """How many means are as near as we aim at."""
    return sum(error <= LIMIT for error in errors)


def within(errors: Sequence[float], what: str) -> str:
    """The same in words, and how far the farthest is off."""
    return (
        f"{inside(errors)} of {len(errors)} {what} are within {LIMIT:g} % of what was measured, the farthest is off by "
        f"{max(errors, default=0.0):.1f} %."
    )


def draw_by_share(
    rows: Mapping[str, Mapping[str, Sequence[Curve]]], shares: Iterable[int], finding: str, note: str, caption: str
) -> Picture:
    """A row of charts for each measure, a column for each policy, over the share of malleable jobs."""
    figure = sheet(3.2 + 1.4 * len(rows))
    draw_multiples(figure, rows, "malleable jobs, %", sorted(shares))
    say(figure, finding, note)
    what = ", ".join(rows)
    return Picture(figure, caption, f"{finding}. Charts over the share of malleable jobs, by policy: {what}.")


MARKERS: Final = "os^DvP*X"
"""Of the policies, in their order."""
_ORDER: Final = (4, 1, 2, 5, 6, 0, 3)


def color_of(index: int) -> str:
    """The colour of a policy: those that read badly as lines come last."""
    return OKABE_ITO[_ORDER[index % len(_ORDER)]]


def draw_runs(replayed: Sequence[Replayed[Key]], note: str, apart: str) -> Picture:
    """Simulated over measured makespan and turnaround; the band is as wide as the error that we aim at.

    ``note``: where the runs come from; ``apart``: what hollow marks are.
    """
    figure = sheet(5.4)
    figure.suptitle(f"Run by run: simulated over measured\n{note}", fontsize=10)
    policies = list(dict.fromkeys(one.key[0] for one in replayed))
    off = LIMIT / 100
    for axes, name in zip(figure.subplots(1, 2).flat, ("makespan_s", "turnaround_s"), strict=True):
        points = [(one, one.real[name], one.mean(name)) for one in replayed]
        ends = [value for _, *point in points for value in point]
        low, high = (1 - off) * min(ends), (1 + off) * max(ends)
        axes.plot([low, high], [low, high], color="#333333", lw=1)
        lows, highs = ([low * by, high * by] for by in (1 - off, 1 + off))
        axes.fill_between([low, high], lows, highs, color="#dddddd", lw=0)
        for one, real, ours in points:
            index = policies.index(one.key[0])
            color = color_of(index)
            face = "none" if one.apart else color
            axes.plot(real, ours, MARKERS[index % len(MARKERS)], mec=color, mfc=face, ms=6, alpha=0.85)
        axes.set(xlim=(low, high), ylim=(low, high), aspect="equal")
        axes.set(xlabel=f"measured {MEASURES[name]}", ylabel=f"simulated {MEASURES[name]}")
        plain(axes)
    handles = [
        Line2D([], [], color=color_of(index), marker=MARKERS[index % len(MARKERS)], ls="", label=name)
        for index, name in enumerate(policies)
    ]
    handles.append(Line2D([], [], color=FAINT, marker="o", mfc="none", ls="", label=apart))
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False, fontsize=9)
    return Picture(
        figure,
        f"One mark a run, {len(replayed)} runs; hollow ones: {apart}; the band is {LIMIT:g} % wide to both sides.",
        "Two scatter charts, makespan and turnaround: simulated over measured.",
    )
