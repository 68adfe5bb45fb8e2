"""The picture, in the manner of the paper's figure 6: running time over nodes, a panel per benchmark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..harness import pictures
from . import paper
from .results import emulation

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axes import Axes

    from .results import Published, Results, Series

_OURS: Final = pictures.COLOURS[0]
_THEIRS: Final = pictures.COLOURS[1]
_TICKS: Final = (1, 2, 4, 8, 16)


def draw(results: Results, published: Published, path: Path) -> None:
    """Draw all series; the ending of ``path`` tells the kind of file."""
    shown = [series for series in results.series.values() if series.seconds]
    figure, panels = pictures.new_picture(2.9 * max(len(shown), 2), 4.4, 1, max(len(shown), 1))
    for index, series in enumerate(shown):
        axes = panels[0][index]
        _ours(axes, series)
        _theirs(axes, series, published)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xticks(_TICKS, [str(nodes) for nodes in _TICKS])
        axes.set_xlim(0.85, 26)
        axes.set_ylim(top=1.7 * axes.get_ylim()[1])
        axes.yaxis.set_major_formatter("{x:g}")
        axes.minorticks_off()
        pictures.dress_axes(axes, series.program.title, "nodes", "" if index else "running time, s")
    best = {series.program.title: _last(series) for series in shown}
    figure.suptitle(
        "Strong scaling on EMULATED nodes; efficiency "
        + ", ".join(f"{title} {100 * share:.0f} % on {nodes}" for title, (nodes, share) in best.items()),
        x=0.01,
        ha="left",
        fontsize=11,
        weight="bold",
    )
    rounds = "1 run" if results.rounds == 1 else f"medians of {results.rounds} runs"
    note = f"Filled: {rounds} on {emulation(results)}; dotted: ideal."
    if published:
        note += "\nHollow: the paper's times on its own nodes (48 workers each), for its own, larger problems."
    figure.supxlabel(note, fontsize=8, color=pictures.INK)
    figure.savefig(path, dpi=150)


def _last(series: Series) -> tuple[int, float]:
    nodes = max(series.seconds)
    return nodes, (series.speedup(nodes) or 0.0) / nodes


def _ours(axes: Axes, series: Series) -> None:
    seconds = series.seconds
    axes.plot(list(seconds), list(seconds.values()), color=_OURS, marker="o", markersize=5, linewidth=1.4, zorder=3)
    first = min(seconds)
    ideal = [seconds[first] * first / nodes for nodes in (first, max(seconds))]
    axes.plot([first, max(seconds)], ideal, color=pictures.INK, linestyle=":", linewidth=1)
    label = " ".join(series.problem).lstrip("-")
    axes.annotate(label, (first, seconds[first]), (4, 6), textcoords="offset points", fontsize=8, color=_OURS)


def _theirs(axes: Axes, series: Series, published: Published) -> None:
    program, _, unit = series.program.paper
    for size, times in published.get(program, {}).items():
        nodes = sorted(times)
        axes.plot(
            nodes,
            [times[count] for count in nodes],
            color=_THEIRS,
            marker="o",
            markersize=5,
            markerfacecolor="none",
            linewidth=0.7,
            alpha=0.9,
        )
        axes.annotate(
            paper.spoken(size, unit),
            (nodes[0], times[nodes[0]]),
            (3, 6),
            textcoords="offset points",
            fontsize=8,
            color=_THEIRS,
        )
