"""The paper's figure 1: waits by scenario and class, beside what it prints."""

from __future__ import annotations

from typing import Final

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from scheduler_bridge.experiments.penalty.cells import CLASSES
from scheduler_bridge.experiments.penalty.claims import read_claims
from scheduler_bridge.experiments.penalty.means import Waits
from scheduler_bridge.report.palette import OKABE_ITO

_SCENARIOS: Final = ("CF", "CFG", "DI", "HDI")
_COLORS: Final = dict(zip(CLASSES, (OKABE_ITO[5], OKABE_ITO[1], OKABE_ITO[3], OKABE_ITO[0], OKABE_ITO[2]), strict=True))
_WIDTH: Final = 0.16


def draw_waits(waits: Waits) -> Figure:
    """Two panels, with PSP and under plain EASY; diamonds are the paper's means, lines our smallest to largest."""
    figure = Figure(figsize=(11.0, 4.6), dpi=120, facecolor="white", layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle("Mean wait of users by scenario and class of accuracy (synthetic workloads)", fontweight="bold")
    panels = figure.subplots(1, 2, sharey=True)
    for axes, policy, title in zip(panels, ("penalty", "easy"), ("penalty (PSP)", "easy, without PSP"), strict=True):
        for place, scenario in enumerate(_SCENARIOS):
            for number, name in enumerate(CLASSES):
                at = place + (number - 2) * _WIDTH
                each = waits.each(scenario, policy, name)
                if each:
                    axes.bar(at, sum(each) / len(each), _WIDTH, color=_COLORS[name])
                    axes.plot([at, at], [min(each), max(each)], color="#222222", lw=0.9)
                printed = read_claims()["printed"][scenario].get(name)
                if policy == "penalty" and printed is not None:
                    axes.plot(at, printed, "D", color="white", mec="#222222", ms=5)
        axes.set_xticks(range(len(_SCENARIOS)), _SCENARIOS)
        axes.set_title(title, fontsize=10)
        axes.grid(visible=True, axis="y", color="#e4e4e4", lw=0.6)
        axes.set_axisbelow(True)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
    panels[0].set_ylabel("mean wait, minutes")
    handles = [Patch(color=_COLORS[name], label=name) for name in CLASSES]
    handles.append(Line2D([], [], marker="D", ls="", color="white", mec="#222222", label="printed"))  # type: ignore[arg-type]  # legends take any artist
    figure.legend(handles=handles, loc="outside lower center", ncols=6, frameon=False, fontsize=9)
    return figure
