"""The paper's figures 9 to 11 and the mean wait: measured, simulated, and what correct policies would have done."""

from __future__ import annotations

from typing import Final

from matplotlib.lines import Line2D

from scheduler_bridge.experiments.outcome import Picture
from scheduler_bridge.experiments.published_runs.compare import COMPAT, JUDGED, LIMIT, Comparison
from scheduler_bridge.report.charts import INK, Curve, draw_multiples, say
from scheduler_bridge.report.sheet import OKABE_ITO, plain, sheet

_TITLES: Final = {
    "makespan_s": "makespan, s",
    "turnaround_s": "mean turnaround, s",
    "wait_s": "mean wait, s",
    "utilization": "utilization, %",
}
_COLORS: Final = dict(zip(COMPAT, (OKABE_ITO[4], OKABE_ITO[1], OKABE_ITO[2], OKABE_ITO[5]), strict=True))
_MARKERS: Final = dict(zip(COMPAT, "os^D", strict=True))


def draw_means(comparison: Comparison) -> Picture:
    """Means by share of malleable jobs, simulated and measured; a row of panels a measure, a column a policy."""
    figure = sheet(8.8)
    rows = {_TITLES[name]: {strategy: _pair(comparison, strategy, name) for strategy in COMPAT} for name in JUDGED}
    shares = sorted({cell.share for cell in comparison.compat})
    draw_multiples(figure, rows, "malleable jobs, %", shares)
    finding = _within(comparison)
    note = f"{_runs(comparison)} real runs on 32 nodes, under the policies as published; means over the batches, each "
    say(figure, finding, f"{note}simulated {comparison.replicas} times.")
    return Picture(
        figure,
        f"Means over the batches; {_runs(comparison)} real runs, each simulated {comparison.replicas} times.",
        "Charts over the share of malleable jobs: makespan, mean turnaround, mean wait and utilization under four "
        f"policies, measured and simulated. {finding}.",
    )


def _pair(comparison: Comparison, strategy: str, name: str) -> list[Curve]:
    means = [(cell.share, *cell.means(name)) for cell in comparison.compat if cell.strategy == strategy]
    return [
        Curve("simulated", [(share, ours) for share, _, ours in means if ours is not None]),
        Curve("measured", [(share, real) for share, real, _ in means if real is not None], INK, hollow=True),
    ]


def _runs(comparison: Comparison) -> int:
    return sum(len(cell.runs) for cell in comparison.compat)


def _within(comparison: Comparison) -> str:
    inside, judged = comparison.within()
    which = f"All {judged}" if inside == judged else f"{inside} of {judged}"
    return f"{which} simulated means are within {LIMIT:g} % of the measured ones"


def draw_batches(comparison: Comparison) -> Picture:
    """Each run: simulated over measured makespan and turnaround; hollow marks have a job whose resize failed."""
    figure = sheet(5.2)
    figure.suptitle("Run by run: simulated over measured", fontsize=13, fontweight="bold")
    for axes, name in zip(figure.subplots(1, 2).flat, ("makespan_s", "turnaround_s"), strict=True):
        ends: list[float] = []
        for cell in comparison.compat:
            color = _COLORS[cell.strategy]
            for real, ours, broken in zip(cell.real, cell.ours, cell.broken, strict=True):
                point = getattr(real, name), getattr(ours, name)
                ends += point
                face = "none" if broken else color
                axes.plot(*point, _MARKERS[cell.strategy], mec=color, mfc=face, ms=5, alpha=0.8, mew=1)
        low, high = min(ends) * 0.95, max(ends) * 1.05
        axes.plot([low, high], [low, high], color="#333333", lw=1)
        axes.fill_between([low, high], [low * 0.95, high * 0.95], [low * 1.05, high * 1.05], color="#dddddd", lw=0)
        axes.set(xlim=(low, high), ylim=(low, high), xlabel=f"measured {_TITLES[name]}", aspect="equal")
        axes.set_ylabel(f"simulated {_TITLES[name]}")
        plain(axes)
    handles = [
        Line2D([], [], color=_COLORS[strategy], marker=_MARKERS[strategy], ls="", label=strategy) for strategy in COMPAT
    ]
    handles.append(Line2D([], [], color="#555555", marker="o", mfc="none", ls="", label="with a failed resize"))
    figure.legend(handles=handles, loc="outside lower center", ncols=5, frameon=False, fontsize=9)
    return Picture(
        figure,
        f"One mark a run, {_runs(comparison)} runs; the band is {LIMIT:g} % wide to both sides.",
        "Two scatter charts, makespan and turnaround: simulated over measured seconds of each run.",
    )
