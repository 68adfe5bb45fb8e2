"""Groups of bars as the papers draw them: readable in grey, named where they stand, printed values hollow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from matplotlib.patheffects import withStroke

from scheduler_bridge.report.palette import OKABE_ITO, Look

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_WIDTH: Final = 0.84
"""Of a group, where groups are 1 apart."""
_ORDER: Final = (4, 1, 2, 0, 6, 5, 3)
"""Colours that stay apart in grey come first."""
_NAME_PT: Final = (5.0, 7.0)
"""Size of names: the smaller, the narrower the bars."""
_CHARACTER: Final = 0.62
"""Its width, by the size of the text."""
_GAP: Final = 1.05
PRINTED: Final = "hollow diamonds: printed"
_KEY: Final = "\N{WHITE DIAMOND} as the paper prints it"


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar.

    Attributes:
        name: Of what it stands for; equal names look alike.
        value: Its height.
        spread: Ends of a line over it, such as quartiles.
        printed: What the paper has in its place.
    """

    name: str
    value: float
    spread: tuple[float, float] | None = None
    printed: float | None = None


@dataclass(frozen=True)
class Hatched(Look):
    """Told apart in grey by a hatch."""

    hatch: str


def looks_of(names: Iterable[str]) -> dict[str, Hatched]:
    """A colour and a hatch for each of at most seven names; no two have the same hatch before these are used up."""
    hatches = ("", "///", "\\\\\\", "xxx", "...", "---", "+++")
    return {name: Hatched(OKABE_ITO[_ORDER[at % 7]], hatches[at % 7]) for at, name in enumerate(names)}


def draw_groups(
    axes: Axes, groups: Sequence[Sequence[Bar]], looks: Mapping[str, Hatched], *, named: int | None = None
) -> float:
    """Draw groups of bars at 0, 1, 2, ...

    Args:
        axes: Their vertical axis begins at 0.
        groups: The bars of each, from the left.
        looks: Of all names.
        named: The group whose bars have their names on them; None: no group.

    Returns:
        The upper end of the vertical axis, for axes that share it.
    """
    step = _WIDTH / max(1, *map(len, groups))
    size_pt = _size_pt(axes, step / (len(groups) or 1))
    halo = [withStroke(linewidth=2.0, foreground="white")]  # lines across the axes do not strike names out
    high = 0.0
    for place, bars in enumerate(groups):
        for number, bar in enumerate(bars):
            at = place + (number - (len(bars) - 1) / 2) * step
            look = looks[bar.name]
            axes.bar(at, bar.value, step, color=look.color, hatch=look.hatch, edgecolor="white", lw=0.5)
            top = bar.value
            if bar.spread is not None:
                axes.plot([at, at], bar.spread, color="#222222", lw=0.9)
                top = max(top, bar.spread[1])
            if bar.printed is not None:
                axes.plot(at, bar.printed, "D", mfc="white", mec="#222222", ms=4.5)
                top = max(top, bar.printed)
            high = max(high, top, top / (1 - _share(axes, bar.name, size_pt)) if place == named else 0.0)
            if place == named:
                lift_pt = 8 if bar.printed == top else 4
                axes.annotate(
                    bar.name, (at, top), (0, lift_pt), textcoords="offset points", rotation=90, ha="center",
                    va="bottom", fontsize=size_pt, path_effects=halo,
                )  # fmt: skip
    if any(bar.printed is not None for bars in groups for bar in bars):
        _add_key(axes)
    limit = _GAP * high or 1.0
    axes.set_ylim(0, limit)
    return limit


def _add_key(axes: Axes) -> None:
    """Say what the diamonds are, once on a figure: it may be seen without its caption."""
    figure = axes.get_figure(root=True)
    if figure is not None and all(text.get_text() != _KEY for text in figure.texts):
        figure.text(0.995, 0.985, _KEY, ha="right", va="top", fontsize=9)


def _size_pt(axes: Axes, part: float) -> float:
    """The size of names that have a part of the width of the axes each."""
    wide_pt = axes.get_position().width * axes.figure.get_figwidth() * 72  # type: ignore[union-attr]  # of a figure
    return min(_NAME_PT[1], max(_NAME_PT[0], 0.9 * part * wide_pt))


def _share(axes: Axes, name: str, size_pt: float) -> float:
    """How much of the height of the axes a name takes, at most half."""
    tall_pt = axes.get_position().height * axes.figure.get_figheight() * 72  # type: ignore[union-attr]  # of a figure
    return min(0.5, (_CHARACTER * size_pt * len(name) + 6) / tall_pt)
