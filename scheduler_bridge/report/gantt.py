"""The picture of a run: nodes over time, above it how busy they were, below it how many jobs waited, and a key.

Several records of one batch are drawn one above the other on one time axis. Drawn with matplotlib's object interface:
no global state, no display.
"""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from scheduler_bridge.atomic_write import write_whole
from scheduler_bridge.record import (
    busy_steps,
    first_submission_s,
    makespan_s,
    metrics,
    utilization,
    waiting_steps,
)
from scheduler_bridge.report import words
from scheduler_bridge.report.bars import DOWN_COLOR, MALLEABLE_MARK, RESERVED_COLOR, RESERVED_HATCH, draw_nodes
from scheduler_bridge.report.sheet import OKABE_ITO, drawable, looks, narrow, png, time_ticks

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from scheduler_bridge.record import RunRecord


WIDTH_IN = 12.0
STRIP_IN = 0.62
GAP_IN = 0.10
BLOCK_GAP_IN = 0.50
LEFT_IN = 0.95
RIGHT_IN = 0.35
NOTE_CHARACTERS = 185
LINE_PT = 1.2
GREY = "#6b6b6b"
BUSY = "#4d4d4d"


def draw(records: Sequence[RunRecord], *, titled: bool = True, finding: str = "") -> Figure:
    """Draw ``records`` of one batch, the first on top.

    Args:
        records: At least one record with at least one job.
        titled: Whether the finding stands above; a page has it already.
        finding: Another one than makespan and utilization.

    Raises:
        ValueError: There is nothing to draw.
    """
    if not records or not any(record.jobs for record in records):
        message = "nothing to draw: no record holds a job"
        raise ValueError(message)
    notes = _notes(records)
    rows_in = [max(1.1, min(0.42, 9.0 / max(1, len(record.nodes))) * len(record.nodes)) for record in records]
    head_in, foot_in = 1.02 if titled else 0.34, 0.92 + 0.17 * len(notes)
    blocks_in = [rows + 2 * (STRIP_IN + GAP_IN) for rows in rows_in]
    height_in = head_in + sum(blocks_in) + BLOCK_GAP_IN * (len(records) - 1) + foot_in
    figure = Figure(figsize=(WIDTH_IN, height_in), dpi=130, facecolor="white")
    FigureCanvasAgg(figure)

    def at(top_in: float, tall_in: float) -> Axes:
        left, width = LEFT_IN / WIDTH_IN, (WIDTH_IN - LEFT_IN - RIGHT_IN) / WIDTH_IN
        return figure.add_axes((left, 1 - (top_in + tall_in) / height_in, width, tall_in / height_in))

    end_s = max(makespan_s(record) for record in records) or 1.0
    styles = looks(records)
    top_in = head_in
    for index, (record, rows) in enumerate(zip(records, rows_in, strict=True)):
        strip = at(top_in, STRIP_IN)
        nodes = at(top_in + STRIP_IN + GAP_IN, rows)
        waiting = at(top_in + STRIP_IN + rows + 2 * GAP_IN, STRIP_IN)
        for axes in (strip, nodes, waiting):
            axes.set_xlim(-0.006 * end_s, 1.08 * end_s)
        _draw_utilization(strip, record)
        if len(records) > 1:
            title = drawable(f"{record.policy}: {words.summary(record)}")
            strip.set_title(title, loc="left", fontsize=11, fontweight="bold", pad=4, parse_math=False)
        draw_nodes(nodes, record, styles)
        for axes in (strip, nodes, waiting):
            time_ticks(axes, end_s)
        _draw_waiting(waiting, record)
        if index == len(records) - 1:
            waiting.set_xlabel(f"{words.unit(end_s)[1]} since the first submission", fontsize=9)
        _mark_end((strip, nodes, waiting), record)
        top_in += rows + 2 * (STRIP_IN + GAP_IN) + BLOCK_GAP_IN
    if titled:
        _title(figure, records, height_in, finding or words.headline(records))
    down = any(taken.job_id is None for record in records for taken in record.reserved)
    draw_key(figure, at=(LEFT_IN / WIDTH_IN, (0.22 + 0.17 * len(notes)) / height_in), any_down=down)
    for line, note in enumerate(reversed(notes)):
        figure.text(
            LEFT_IN / WIDTH_IN, (0.12 + 0.17 * line) / height_in, note, fontsize=8, color=GREY, parse_math=False
        )
    return figure


def render_png(records: Sequence[RunRecord]) -> bytes:
    """Draw ``records`` as a PNG image."""
    return png(draw(records))


def write_png(records: Sequence[RunRecord], path: Path) -> None:
    """Write the picture of ``records`` to ``path``."""
    write_whole(path, render_png(records))


def describe(records: Sequence[RunRecord]) -> str:
    """Say in words what the picture shows (its alternative text)."""
    parts = [f"Gantt chart, nodes over time. {words.claim(records)}"]
    for record in records:
        total = metrics(record)
        parts.append(
            f"Under {record.policy}: {words.plural(total.grows, 'grow')}, {words.plural(total.shrinks, 'shrink')}, "
            f"mean wait {words.seconds(total.mean_wait_s)}, mean turnaround {words.seconds(total.mean_turnaround_s)}."
        )
    return " ".join(parts)


def _notes(records: Sequence[RunRecord]) -> list[str]:
    return [line for note in words.notes(records) for line in textwrap.wrap(drawable(note), NOTE_CHARACTERS)]


def _title(figure: Figure, records: Sequence[RunRecord], height_in: float, finding: str) -> None:
    shown = records[-1]
    left = LEFT_IN / WIDTH_IN
    figure.text(left, 1 - 0.36 / height_in, drawable(finding), fontsize=15, fontweight="bold", parse_math=False)
    same = "The same batch of" if len(records) > 1 else "A batch of"
    shares = any(min(part.shares, default=part.share) < 1 for r in records for j in r.jobs for part in j.segments)
    lanes = " Jobs that share a node have a part of its row each." if shares else ""
    figure.text(
        left,
        1 - 0.60 / height_in,
        f"{same} {words.plural(len(shown.jobs), 'job')} on {words.plural(len(shown.nodes), 'node')}"
        f"{', one policy above the other on one time axis' if len(records) > 1 and not lanes else ''}. "
        f"Busy = share of all nodes x makespan that jobs held.{lanes}",
        fontsize=9,
        color=GREY,
    )


def _visible(steps: Sequence[tuple[float, float]], axes: Axes) -> list[tuple[float, float]]:
    """Leave out levels that last for less than a line is wide: one job's end and the next one's start draw no spike."""
    first_s, last_s = axes.get_xlim()
    least_s = (last_s - first_s) * LINE_PT * axes.figure.dpi / 72 / axes.get_window_extent().width
    ends = [at_s for at_s, _ in steps[1:]] + [float("inf")]
    return [(at_s, level) for (at_s, level), end_s in zip(steps, ends, strict=True) if end_s - at_s >= least_s]


def _draw_utilization(axes: Axes, record: RunRecord) -> None:
    origin_s = first_submission_s(record)
    shares = [(at_s - origin_s, 100 * busy / len(record.nodes)) for at_s, busy in busy_steps(record)]
    steps = _visible(shares, axes)
    mean = 100 * utilization(record)
    times, levels = [0.0, *(at for at, _ in steps)], [0.0, *(level for _, level in steps)]
    axes.fill_between(times, levels, step="post", color="#d9d9d9", linewidth=0)
    axes.step(times, levels, where="post", color=BUSY, linewidth=LINE_PT)
    axes.plot([0, makespan_s(record)], [mean, mean], color="#D55E00", linewidth=1.2, linestyle=(0, (4, 2)))
    axes.annotate(
        f"mean {mean:.0f} %",
        (makespan_s(record), mean),
        xytext=(4, 0),
        textcoords="offset points",
        fontsize=8,
        color="#a84300",
        va="center",
        annotation_clip=False,
    )
    axes.set_ylim(0, 108)
    axes.set_yticks([0, 50, 100], ["0", "50", "100 %"])
    axes.set_ylabel("busy", fontsize=8)
    narrow(axes)
    axes.tick_params(labelbottom=False)


def _draw_waiting(axes: Axes, record: RunRecord) -> None:
    origin_s = first_submission_s(record)
    steps = _visible([(at_s - origin_s, count) for at_s, count in waiting_steps(record)], axes)
    end_s = makespan_s(record)
    times, levels = [at for at, _ in steps] + [end_s], [count for _, count in steps] + [steps[-1][1] if steps else 0]
    axes.fill_between(times, levels, step="post", color="#bcd6ea", linewidth=0)
    axes.step(times, levels, where="post", color="#0072B2", linewidth=LINE_PT)
    most = max(levels, default=0)
    axes.set_ylim(0, max(1.0, 1.25 * most))
    submitted = [job.submit_s - origin_s for job in record.jobs]
    axes.plot(
        submitted,
        [0.0] * len(submitted),
        linestyle="none",
        marker="|",
        markersize=9,
        markeredgewidth=1.4,
        color="#000000",
        clip_on=False,
        zorder=5,
    )
    axes.yaxis.set_major_locator(MaxNLocator(3, integer=True))
    axes.set_ylabel("waiting\njobs", fontsize=8)
    narrow(axes)


def _mark_end(all_axes: tuple[Axes, Axes, Axes], record: RunRecord) -> None:
    end_s = makespan_s(record)
    for axes in all_axes:
        axes.axvline(end_s, color="#000000", linewidth=0.9, linestyle=(0, (1, 2)), zorder=1)
    all_axes[2].annotate(
        words.end(record),
        (end_s, all_axes[2].get_ylim()[1]),
        xytext=(-4, -2),
        textcoords="offset points",
        fontsize=8,
        ha="right",
        va="top",
    )


# The key -------------------------------------------------------------------------------------------------------------
#
# It says in one line what the marks mean, and has never an entry per job.


def draw_key(figure: Figure, at: tuple[float, float], *, any_down: bool = False) -> None:
    """Draw the key with its lower left corner ``at`` (shares of the figure); ``any_down``: nodes were down."""
    job = OKABE_ITO[0]
    handles = [
        Patch(facecolor=job, label=f"a job ({MALLEABLE_MARK} malleable: may be resized)"),
        Line2D(
            [],
            [],
            color="#000000",
            linewidth=2,
            marker="",
            label="grew (+) or shrank (\N{MINUS SIGN}) by so many nodes",
        ),
        Patch(facecolor="#8f8f8f", label="resize under way"),
        Patch(facecolor="#f0f0f0", edgecolor=RESERVED_COLOR, hatch=RESERVED_HATCH, label="reserved, not yet in use"),
        *([Patch(facecolor=DOWN_COLOR, label="down")] if any_down else []),
        Patch(facecolor="white", edgecolor="#bbbbbb", label="idle"),
        Line2D([], [], color="#000000", linestyle="none", marker="|", markersize=8, label="submission"),
    ]
    figure.legend(
        handles=handles,
        loc="lower left",
        bbox_to_anchor=at,
        ncols=len(handles),
        frameon=False,
        fontsize=8,
        handlelength=1.6,
        columnspacing=1.4,
        borderaxespad=0,
        borderpad=0,
    )
