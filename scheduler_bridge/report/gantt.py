"""The picture of a run: nodes over time, above it how busy they were, below it how many jobs waited, and a key.

Several records of one batch are drawn one above the other on one time axis. Drawn with matplotlib's object interface:
no global state, no display.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import MaxNLocator

from scheduler_bridge.record import busy_steps, first_submission_s, makespan_s, metrics, utilization, waiting_steps
from scheduler_bridge.report import words
from scheduler_bridge.report.charts import RunSheet, beside, drawable, name_within, narrow, outlined, time_ticks
from scheduler_bridge.report.looks import MALLEABLE_MARK, MINUS, OKABE_ITO, lanes, looks, runs_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from scheduler_bridge.record import JobRecord, ResizeRecord, RunRecord, Segment
    from scheduler_bridge.report.looks import Lane, Look


STRIP_IN = 0.62
GAP_IN = 0.10
BLOCK_GAP_IN = 0.50
LEFT_IN = 0.95
RIGHT_IN = 0.35
NOTE_CHARACTERS = 185
LINE_PT = 1.2
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
        raise ValueError("nothing to draw: no record holds a job")
    notes = [line for note in words.notes(records) for line in textwrap.wrap(drawable(note), NOTE_CHARACTERS)]
    rows_in = [max(1.1, min(0.42, 9.0 / max(1, len(record.nodes))) * len(record.nodes)) for record in records]
    head_in, foot_in = 1.02 if titled else 0.34, 0.92 + 0.17 * len(notes)
    blocks_in = [rows + 2 * (STRIP_IN + GAP_IN) for rows in rows_in]
    height_in = head_in + sum(blocks_in) + BLOCK_GAP_IN * (len(records) - 1) + foot_in
    sheet = RunSheet(height_in, LEFT_IN, RIGHT_IN)
    end_s = max(makespan_s(record) for record in records) or 1.0
    styles = looks(records)
    top_in = head_in
    for index, (record, rows) in enumerate(zip(records, rows_in, strict=True)):
        strip = sheet.box(top_in, STRIP_IN)
        nodes = sheet.box(top_in + STRIP_IN + GAP_IN, rows)
        waiting = sheet.box(top_in + STRIP_IN + rows + 2 * GAP_IN, STRIP_IN)
        for axes in (strip, nodes, waiting):
            axes.set_xlim(-0.006 * end_s, 1.08 * end_s)
            time_ticks(axes, end_s)
        _draw_utilization(strip, record)
        if len(records) > 1:
            title = drawable(f"{record.policy}: {words.summary(record)}")
            strip.set_title(title, loc="left", fontsize=11, fontweight="bold", pad=4, parse_math=False)
        draw_nodes(nodes, record, styles)
        _draw_waiting(waiting, record)
        if index == len(records) - 1:
            waiting.set_xlabel(f"{words.unit(end_s)[1]} since the first submission", fontsize=9)
        _mark_end((strip, nodes, waiting), record)
        top_in += rows + 2 * (STRIP_IN + GAP_IN) + BLOCK_GAP_IN
    if titled:
        sheet.say(finding or words.headline(records), _subtitle(records))
    down = any(taken.job_id is None for record in records for taken in record.reserved)
    draw_key(sheet.figure, at=(sheet.left, sheet.above(0.22 + 0.17 * len(notes))), any_down=down)
    sheet.note(notes)
    return sheet.figure


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


def _subtitle(records: Sequence[RunRecord]) -> str:
    shown = records[-1]
    same = "The same batch of" if len(records) > 1 else "A batch of"
    shares = any(min(part.shares, default=part.share) < 1 for r in records for j in r.jobs for part in j.segments)
    above = ", one policy above the other on one time axis" if len(records) > 1 and not shares else ""
    lanes = " Jobs that share a node have a part of its row each." if shares else ""
    return (
        f"{same} {words.plural(len(shown.jobs), 'job')} on {words.plural(len(shown.nodes), 'node')}{above}. "
        f"Busy = share of all nodes x makespan that jobs held.{lanes}"
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
    beside(axes, f"mean {mean:.0f} %", (makespan_s(record), mean), (4, 0), color="#a84300", va="center")
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
    axes.plot(submitted, [0.0] * len(submitted), "|", color="#000000", ms=9, mew=1.4, clip_on=False, zorder=5)
    axes.yaxis.set_major_locator(MaxNLocator(3, integer=True))
    axes.set_ylabel("waiting\njobs", fontsize=8)
    narrow(axes)


def _mark_end(all_axes: tuple[Axes, Axes, Axes], record: RunRecord) -> None:
    end_s = makespan_s(record)
    for axes in all_axes:
        axes.axvline(end_s, color="#000000", linewidth=0.9, linestyle=(0, (1, 2)), zorder=1)
    beside(all_axes[2], words.end(record), (end_s, all_axes[2].get_ylim()[1]), (-4, -2), ha="right", va="top")


# The key -------------------------------------------------------------------------------------------------------------
#
# It says in one line what the marks mean, and has never an entry per job.


def draw_key(figure: Figure, at: tuple[float, float], *, any_down: bool = False) -> None:
    """Draw the key with its lower left corner ``at`` (shares of the figure); ``any_down``: nodes were down."""
    job = OKABE_ITO[0]
    handles = [
        Patch(facecolor=job, label=f"a job ({MALLEABLE_MARK} malleable: may be resized)"),
        Line2D([], [], color="#000000", lw=2, label=f"grew (+) or shrank ({MINUS}) by this number of nodes"),
        Patch(facecolor="#8f8f8f", label="resize under way"),
        Patch(**RESERVED, label="reserved, not yet in use"),
        *([Patch(**DOWN, label="down")] if any_down else []),
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


# Nodes over time: one row per node, one bar per job, resizes marked, shaded and labelled -----------------------------

ROW_HEIGHT = 0.90
NAME_SIZES_PT = (9.0, 8.0, 7.0)
RESERVED_COLOR = "#9a9a9a"
RESERVED: dict[str, Any] = {"facecolor": "#f0f0f0", "edgecolor": RESERVED_COLOR, "hatch": "/////"}
"""What is reserved for a job and not used yet."""
DOWN: dict[str, Any] = {"facecolor": "#bdbdbd"}
SHRINK_SHADE = "#000000"
MANY_NODES = 48
MANY_RESIZES = 100
"""Where more boundaries than this are drawn, they are thin, and sizes are written only where nothing else is."""


Box: TypeAlias = tuple[float, float, float, float]
"""The left, lower, right and upper edge of a rectangle on the figure, in pixels."""


@dataclass(frozen=True)
class Block:
    """A rectangle of the picture: rows ``first`` to ``last`` from ``from_s`` to ``to_s``.

    A job that shares nodes fills ``share`` of the row, from ``top`` (0: the row's upper edge) on.
    """

    from_s: float
    to_s: float
    first: int
    last: int
    share: float = 1.0
    top: float = 0.0

    @property
    def rows(self) -> int:
        """On how many rows it lies."""
        return self.last - self.first + 1

    @property
    def middle(self) -> float:
        """The middle of what it fills of its rows."""
        aside = self.rows * (self.top + (self.share - 1) / 2) * ROW_HEIGHT
        return (self.first + self.last) / 2 + aside


def _pixels(axes: Axes) -> tuple[float, float]:
    """How wide a second is, and how tall a row, in pixels; the limits of ``axes`` must be set."""
    (left, upper), (right, lower) = axes.transData.transform([(0.0, 0.0), (1.0, 1.0)])
    return right - left, upper - lower


def _box(axes: Axes, block: Block) -> Box:
    """Where the bar of ``block`` is."""
    (from_s, top), width, height = _rectangle(block)
    (left, upper), (right, lower) = axes.transData.transform([(from_s, top), (from_s + width, top + height)])
    return left, lower, right, upper


def draw_nodes(axes: Axes, record: RunRecord, looks: Mapping[int, Look]) -> None:
    """Draw the allocations of ``record`` on ``axes``; the first node is the top row."""
    row = {node: index for index, node in enumerate(record.nodes)}
    origin_s = first_submission_s(record)
    axes.set_ylim(len(record.nodes) - 0.5, -0.5)
    _rows(axes, record)
    boundaries: list[tuple[Block, str, Look]] = []
    names: list[Box] = []
    for reserved in record.reserved:
        if reserved.node in row:
            place = row[reserved.node]
            block = Block(reserved.from_s - origin_s, reserved.to_s - origin_s, place, place)
            _fill(axes, block, zorder=1.5, **(DOWN if reserved.job_id is None else RESERVED))
    _kept(axes, record, row, origin_s)
    for job, segments in zip(record.jobs, job_blocks(record.jobs, row, origin_s), strict=True):
        look = looks[job.job_id]
        blocks = [block for segment in segments for block in segment]
        for block in blocks:
            _fill(axes, block, facecolor=look.color, edgecolor=look.color, zorder=2)
        # part the job from the one before it on the same nodes, which may look the same
        for block in segments[0] if segments else ():
            corner, _, height = _rectangle(block)
            axes.plot([corner[0]] * 2, [corner[1], corner[1] + height], color="#ffffff", linewidth=1.2, zorder=3)
        for resize in job.resizes:
            boundaries += _resize(axes, resize, row, origin_s, look)
        for part in _parts(blocks):
            names += _name(axes, job, _joined(part), look)
    _sizes(axes, boundaries, names)


def _kept(axes: Axes, record: RunRecord, row: Mapping[str, int], origin_s: float) -> None:
    """Dot the nodes that were kept for an advance reservation, where they were not in use, and name it."""
    for kept in record.advance:
        to_s = min(kept.to_s, record.end_s)
        if to_s <= kept.from_s:
            continue
        blocks = _filled(kept.from_s - origin_s, to_s - origin_s, kept.nodes, row)
        for block in blocks:
            _fill(axes, block, facecolor="#f7f7f7", edgecolor=RESERVED_COLOR, hatch="..", zorder=1.2)
        if blocks:
            (from_s, top), _, height = _rectangle(max(blocks, key=lambda block: block.last - block.first))
            axes.text(
                from_s, top + height / 2, f" {kept.name}", fontsize=8, va="center", clip_on=True, zorder=1.3,
                bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.0},
            )  # fmt: skip


def _rows(axes: Axes, record: RunRecord) -> None:
    count = len(record.nodes)
    shown = range(0, count, 1 if count <= MANY_NODES else -(-count // 24))
    axes.set_yticks(shown, [record.nodes[index] for index in shown])
    axes.tick_params(labelsize=8, length=0, labelbottom=False)
    for boundary in range(1, count):
        axes.axhline(boundary - 0.5, color="#e4e4e4", linewidth=0.6, zorder=0)
    axes.spines[["top", "right"]].set_visible(False)


def job_blocks(jobs: Sequence[JobRecord], row: Mapping[str, int], origin_s: float) -> list[list[list[Block]]]:
    """What each segment of each job fills; where jobs share a node, each has a part of its row for itself."""
    shared = lanes(jobs)
    return [
        [
            _blocks(segment, shared.get((job.job_id, number)), row, origin_s)
            for number, segment in enumerate(job.segments)
        ]
        for job in jobs
    ]


def _blocks(segment: Segment, shared: Sequence[Lane] | None, row: Mapping[str, int], origin_s: float) -> list[Block]:
    from_s, to_s = segment.from_s - origin_s, segment.to_s - origin_s
    if shared is None:
        return _filled(from_s, to_s, segment.nodes, row)
    parts = [lane for lane in shared if lane.share < 1]
    whole = [node for node, share in segment.by_node() if share >= 1]
    return _filled(from_s, to_s, whole, row) + [
        Block(lane.from_s - origin_s, lane.to_s - origin_s, row[lane.node], row[lane.node], lane.share, lane.top)
        for lane in sorted(parts, key=lambda lane: row.get(lane.node, 0))
        if lane.node in row
    ]


def _filled(from_s: float, to_s: float, nodes: Iterable[str], row: Mapping[str, int]) -> list[Block]:
    return [Block(from_s, to_s, first, last) for first, last in runs_of(row[node] for node in nodes if node in row)]


def _parts(blocks: Sequence[Block]) -> list[list[Block]]:
    """Split a job's blocks into the parts that hang together on the picture; each part gets its name."""
    parts: list[list[Block]] = []
    for block in blocks:
        touching = [part for part in parts if any(_touch(block, other) for other in part)]
        parts = [part for part in parts if part not in touching]
        parts.append([*(other for part in touching for other in part), block])
    return parts


def _touch(one: Block, other: Block) -> bool:
    near_rows = one.first <= other.last + 1 and other.first <= one.last + 1
    same_rows = one.first <= other.last and other.first <= one.last
    overlap = one.from_s < other.to_s and other.from_s < one.to_s
    meet = one.from_s <= other.to_s and other.from_s <= one.to_s
    return (near_rows and overlap) or (same_rows and meet)


def _joined(blocks: Sequence[Block]) -> list[Block]:
    """Blocks plus those that run on through resizes on the same rows: where a name has most room."""
    rows = sorted({index for block in blocks for index in range(block.first, block.last + 1)})
    joined = list(blocks)
    if any(block.share < 1 for block in blocks):
        return joined  # the row's middle may be another job's
    for index in rows:
        along = sorted(
            (block for block in blocks if block.first <= index <= block.last), key=lambda block: block.from_s
        )
        from_s, to_s = along[0].from_s, along[0].to_s
        for block in along[1:]:
            if block.from_s > to_s + 1e-9:
                joined.append(Block(from_s, to_s, index, index))
                from_s = block.from_s
            to_s = block.to_s
        joined.append(Block(from_s, to_s, index, index))
    return joined


def _rectangle(block: Block) -> tuple[tuple[float, float], float, float]:
    margin = (1 - ROW_HEIGHT) / 2
    height = block.rows - 2 * margin
    top = block.first - 0.5 + margin + height * block.top
    return (block.from_s, top), block.to_s - block.from_s, height * block.share


def _fill(axes: Axes, block: Block, **patch: Any) -> None:
    """Fill the rectangle of a block, without an outline; ``patch``: how, as for a patch of matplotlib."""
    axes.add_patch(Rectangle(*_rectangle(block), linewidth=0.0, **patch))


def _resize(
    axes: Axes, resize: ResizeRecord, row: Mapping[str, int], origin_s: float, look: Look
) -> list[tuple[Block, str, Look]]:
    """Shade the seconds of a carried-out resize on the rows that it moved; return its boundaries, with its sign."""
    if resize.outcome != "done" or resize.done_s is None:
        return []
    to_s = resize.done_s - origin_s
    shade, sign = (look.color, "+") if resize.kind == "grow" else (SHRINK_SHADE, MINUS)
    shaded = _filled(resize.ordered_s - origin_s, to_s, resize.nodes, row)
    for block in shaded:
        _fill(axes, block, facecolor=shade, alpha=0.4, zorder=2.5)
    return [(replace(block, from_s=to_s), sign, look) for block in shaded]


def _sizes(axes: Axes, boundaries: Sequence[tuple[Block, str, Look]], names: Sequence[Box]) -> None:
    """Draw each boundary, and write beside it how many nodes came or went: in the job's colour, beside other texts."""
    many = len(boundaries) > MANY_RESIZES
    bars = [_box(axes, block) for block, _, _ in boundaries]
    nowhere = (np.nan,) * 4  # until its label is written
    taken = np.array([*names, *bars, *(nowhere for _ in bars)]).reshape(-1, 4)
    for number, ((block, sign, look), bar) in enumerate(zip(boundaries, bars, strict=True), len(names) + len(bars)):
        (at_s, top), _, height = _rectangle(block)
        axes.plot([at_s, at_s], [top, top + height], color="#000000", linewidth=0.8 if many else 2.0, zorder=4)
        text = f"{sign}{block.rows}"
        spots = SHRINK_SPOTS if sign == MINUS else GROW_SPOTS
        (aside, up), box, covered = free_spot(spots, bar, text, axes.figure.dpi / 72, taken, axes.bbox.extents)
        if many and covered:
            continue
        taken[number] = box
        beside(
            axes,
            text,
            (at_s, top if up > 0 else top + height),
            (aside * GAP_PT[0], -up * GAP_PT[1]),
            ha="left" if aside > 0 else "right",
            va="top" if up > 0 else "bottom",
            fontsize=LABEL_SIZE_PT,
            fontweight="bold",
            zorder=6,
            color=look.ink,
            bbox={"boxstyle": f"round,pad={PAD}", "facecolor": look.color, "edgecolor": "#ffffff", "linewidth": 0.8},
        )


def _name(axes: Axes, job: JobRecord, blocks: Sequence[Block], look: Look) -> list[Box]:
    """Write the name where it fits: as large as it can be, in the roomiest block; else the job's number; else not."""
    if not blocks:
        return []
    mark = f"{MALLEABLE_MARK} " if job.malleable else ""
    (per_second, per_row), per_point = _pixels(axes), axes.figure.dpi / 72
    block = max(blocks, key=lambda b: (min(b.to_s - b.from_s, 12 * 100 / per_second), b.rows))
    room, tall = (block.to_s - block.from_s) * per_second, block.rows * block.share * per_row
    for text, sizes in ((f"{mark}{drawable(job.name)}", NAME_SIZES_PT), (f"{mark}{job.job_id}", NAME_SIZES_PT[-1:])):
        for size_pt in sizes:
            wide, high = 0.67 * len(text) * size_pt * per_point, 0.8 * size_pt * per_point
            if wide + 6 <= room and 1.4 * high <= tall:
                at = (block.from_s + block.to_s) / 2, block.middle
                name_within(axes, at, text, size_pt, look, fontweight="bold", path_effects=outlined(look.color, 2.4))
                across, level = axes.transData.transform(at)
                return [(across - wide / 2, level - high / 2, across + wide / 2, level + high / 2)]
    return []


# Labels of resizes ---------------------------------------------------------------------------------------------------
#
# The size is written beside the boundary that a resize draws, and never on something else that is to be read.

LABEL_SIZE_PT = 7.0
PAD = 0.12
"""Around the text, in units of its size."""
GAP_PT = (3.0, PAD * LABEL_SIZE_PT)
"""From the boundary, and from the end of the bar, to the text."""
EDGE_PX = 0.5
"""Less than this is no overlap."""
GROW_SPOTS = ((1, 1), (1, -1), (-1, 1), (-1, -1))
"""Places for a label: to the right (1) or left of the boundary, at the upper (1) or lower end of the bar.

The first of them that is free is taken: in the job's own bar, where there is room, at opposite ends.
"""
SHRINK_SPOTS = ((-1, -1), (-1, 1), (1, -1), (1, 1))


def free_spot(
    spots: Sequence[tuple[int, int]],
    bar: Box,
    text: str,
    pixels_per_point: float,
    taken: NDArray[np.float64],
    area: Sequence[float],
) -> tuple[tuple[int, int], Box, int]:
    """Choose where to write ``text`` beside a boundary: within ``area``, on as few as possible of ``taken``.

    Returns:
        The spot, what the text takes there, and how many others lie under it.
    """
    wide = ((0.8 * len(text) + PAD) * LABEL_SIZE_PT + GAP_PT[0]) * pixels_per_point
    tall = (1.17 + 2 * PAD) * LABEL_SIZE_PT * pixels_per_point
    found = []
    for aside, up in spots:
        left, low = bar[2] if aside > 0 else bar[0] - wide, bar[3] - tall if up > 0 else bar[1]
        right, high = left + wide, low + tall
        under = (taken[:, :2] < (right - EDGE_PX, high - EDGE_PX)) & (taken[:, 2:] > (left + EDGE_PX, low + EDGE_PX))
        outside = left < area[0] or low < area[1] or right > area[2] or high > area[3]
        found.append(((aside, up), (left, low, right, high), int(under.all(axis=1).sum()), outside))
    return min(found, key=lambda one: one[2] + 2 * one[3])[:3]
