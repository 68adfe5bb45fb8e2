"""The paper's figures 7 to 9, 12 and 13 to 15 in one: mean turnaround by workload and policy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from scheduler_bridge.experiments.mebf.cells import EBF, EXPANDS
from scheduler_bridge.experiments.mebf.claims import Means
from scheduler_bridge.report.palette import OKABE_ITO

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_POLICIES: Final = (EBF, *EXPANDS, "shrink+", "expand+")
_COLORS: Final = dict(zip(_POLICIES, (*(OKABE_ITO[at] for at in (4, 1, 2, 0, 6)), "#777777"), strict=True))
_LABELS: Final = {EBF: "easy, rigid (EBF)", "shrink+": "handoff, shrink+", "expand+": "handoff, expand+"}
_BARS: Final = 0.84
_MS: Final = "1k intensive medium full"
_SCALED: Final = [("intensive\nlow", "low"), ("intensive\nmedium", "medium"), ("intensive\nhigh", "high")]


def draw_turnarounds(means: Means) -> Figure:
    """Four panels: 1,000 jobs, 5,000 jobs, shares of malleable jobs and a wrong model, overheads."""
    figure = Figure(figsize=(11.0, 7.2), dpi=120, facecolor="white", layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle("Mean turnaround, s (twins of KIT's workload, synthetic)", fontweight="bold")
    panels = figure.subplots(2, 2).flat
    for size, title in (("1k", "1,000 jobs, full overhead"), ("5k", "5,000 jobs, full overhead")):
        groups = [("normal\nlow", f"{size} normal low full", 100)]
        groups += [(label, f"{size} intensive {name} full", 100) for label, name in _SCALED]
        _panel(next(panels), means, groups, title)
    groups = [(f"{share} %", _MS, share) for share in (40, 60, 80, 100)] + [
        ("100 %,\nwrong model", f"{_MS} error", 100)
    ]
    _panel(next(panels), means, groups, "1,000 jobs, intensive, medium: share of malleable jobs")
    groups = [(f"{name} overhead", f"5k intensive high {name}", 100) for name in ("full", "half")]
    _panel(next(panels), means, groups, "5,000 jobs, intensive, high: overhead")
    handles = [Patch(color=_COLORS[name], label=_LABELS.get(name, name)) for name in _POLICIES]
    figure.legend(handles=handles, loc="outside lower center", ncols=6, frameon=False, fontsize=9)
    return figure


def _panel(axes: Axes, means: Means, groups: Sequence[tuple[str, str, int]], title: str) -> None:
    width = _BARS / len(_POLICIES)
    for place, (_, variant, share) in enumerate(groups):
        there = [(name, value) for name in _POLICIES if (value := means.get(variant, name, share=share)) is not None]
        for number, (name, value) in enumerate(there):
            axes.bar(place + (number - (len(there) - 1) / 2) * width, value, width, color=_COLORS[name])
    axes.set_xticks(range(len(groups)), [label for label, *_ in groups])
    axes.set_title(title, fontsize=10)
    axes.grid(visible=True, axis="y", color="#e4e4e4", lw=0.6)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
