"""The middle of the picture: one row per node, one bar per job, resizes marked and shaded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from matplotlib.patches import Rectangle
from matplotlib.patheffects import withStroke

from scheduler_bridge.record import first_submission_s
from scheduler_bridge.report.glyphs import drawable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from matplotlib.axes import Axes

    from scheduler_bridge.record import JobRecord, ResizeRecord, RunRecord, Segment
    from scheduler_bridge.report.palette import Look

MALLEABLE_MARK = "↔"
ROW_HEIGHT = 0.90
NAME_SIZES_PT = (9.0, 8.0, 7.0)
RESERVED_HATCH = "/////"
RESERVED_COLOR = "#9a9a9a"
SHRINK_SHADE = "#000000"
MANY_NODES = 48


@dataclass(frozen=True)
class Block:
    """A rectangle of the picture: rows ``first`` to ``last`` from ``from_s`` to ``to_s``."""

    from_s: float
    to_s: float
    first: int
    last: int

    @property
    def rows(self) -> int:
        """How many nodes high it is."""
        return self.last - self.first + 1


def draw_nodes(axes: Axes, record: RunRecord, looks: Mapping[int, Look]) -> None:
    """Draw the allotments of ``record`` on ``axes``; the first node is the top row."""
    row = {node: index for index, node in enumerate(record.nodes)}
    origin_s = first_submission_s(record)
    axes.set_ylim(len(record.nodes) - 0.5, -0.5)
    _rows(axes, record)
    for reserved in record.reserved:
        if reserved.node in row:
            place = row[reserved.node]
            _reserved(axes, Block(reserved.from_s - origin_s, reserved.to_s - origin_s, place, place))
    for job in record.jobs:
        look = looks[job.job_id]
        blocks = [block for segment in job.segments for block in _blocks(segment, row, origin_s)]
        for block in blocks:
            _bar(axes, block, look)
        _start(axes, job, row, origin_s)
        for resize in job.resizes:
            _resize(axes, resize, row, origin_s, look)
        for part in _parts(blocks):
            _name(axes, job, _joined(part), look)


def _rows(axes: Axes, record: RunRecord) -> None:
    count = len(record.nodes)
    if count <= MANY_NODES:
        axes.set_yticks(range(count), record.nodes)
    else:
        shown = range(0, count, -(-count // 24))
        axes.set_yticks(list(shown), [record.nodes[index] for index in shown])
    axes.tick_params(labelsize=8, length=0, labelbottom=False)
    for boundary in range(1, count):
        axes.axhline(boundary - 0.5, color="#e4e4e4", linewidth=0.6, zorder=0)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _blocks(segment: Segment, row: Mapping[str, int], origin_s: float) -> list[Block]:
    return [
        Block(segment.from_s - origin_s, segment.to_s - origin_s, first, last)
        for first, last in _runs(row[node] for node in segment.nodes if node in row)
    ]


def _runs(rows: Iterable[int]) -> list[tuple[int, int]]:
    """Group row numbers into runs of neighbours: 0, 1, 3 gives (0, 1), (3, 3)."""
    runs: list[tuple[int, int]] = []
    for index in sorted(rows):
        if runs and runs[-1][1] == index - 1:
            runs[-1] = (runs[-1][0], index)
        else:
            runs.append((index, index))
    return runs


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
    return (block.from_s, block.first - 0.5 + margin), block.to_s - block.from_s, block.rows - 2 * margin


def _bar(axes: Axes, block: Block, look: Look) -> None:
    corner, width, height = _rectangle(block)
    axes.add_patch(
        Rectangle(
            corner,
            width,
            height,
            facecolor=look.color,
            edgecolor="#ffffffb0" if look.hatch else look.color,
            hatch=look.hatch or None,
            linewidth=0.0,
            zorder=2,
        )
    )


def _start(axes: Axes, job: JobRecord, row: Mapping[str, int], origin_s: float) -> None:
    """Part the job from the one before it on the same nodes, which may look the same."""
    if job.segments:
        for block in _blocks(job.segments[0], row, origin_s):
            corner, _, height = _rectangle(block)
            axes.plot([corner[0]] * 2, [corner[1], corner[1] + height], color="#ffffff", linewidth=1.2, zorder=3)


def _reserved(axes: Axes, block: Block) -> None:
    corner, width, height = _rectangle(block)
    axes.add_patch(
        Rectangle(
            corner,
            width,
            height,
            facecolor="#f0f0f0",
            edgecolor=RESERVED_COLOR,
            hatch=RESERVED_HATCH,
            linewidth=0.0,
            zorder=1.5,
        )
    )


def _resize(axes: Axes, resize: ResizeRecord, row: Mapping[str, int], origin_s: float, look: Look) -> None:
    """Shade the seconds of a carried-out resize on the rows that it moved, and draw the boundary with its size."""
    if resize.outcome != "done" or resize.done_s is None:
        return
    from_s, to_s = resize.ordered_s - origin_s, resize.done_s - origin_s
    grow = resize.kind == "grow"
    for first, last in _runs(row[node] for node in resize.nodes if node in row):
        corner, width, height = _rectangle(Block(from_s, to_s, first, last))
        shade = look.color if grow else SHRINK_SHADE
        axes.add_patch(Rectangle(corner, width, height, facecolor=shade, alpha=0.4, linewidth=0, zorder=2.5))
        axes.plot([to_s, to_s], [corner[1], corner[1] + height], color="#000000", linewidth=2.0, zorder=4)
        axes.annotate(
            f"+{len(resize.nodes)}" if grow else f"\N{MINUS SIGN}{len(resize.nodes)}",
            (to_s, corner[1] if grow else corner[1] + height),  # at opposite ends, so that neighbours do not collide
            xytext=(3, -1) if grow else (-3, 1),
            textcoords="offset points",
            ha="left" if grow else "right",
            va="top" if grow else "bottom",
            fontsize=8,
            fontweight="bold",
            zorder=6,
            path_effects=[withStroke(linewidth=2.2, foreground="#ffffffd0")],
        )


def _name(axes: Axes, job: JobRecord, blocks: Sequence[Block], look: Look) -> None:
    """Write the name where it fits: as large as it can be, in the roomiest block; else the job's number; else not."""
    if not blocks:
        return
    mark = f"{MALLEABLE_MARK} " if job.malleable else ""
    size = axes.get_window_extent()
    per_second = size.width / (axes.get_xlim()[1] - axes.get_xlim()[0])
    row_pixels = size.height / abs(axes.get_ylim()[1] - axes.get_ylim()[0])
    points = axes.figure.dpi / 72
    block = max(blocks, key=lambda b: (min(b.to_s - b.from_s, 12 * 100 / per_second), b.rows))
    room, tall = (block.to_s - block.from_s) * per_second, block.rows * row_pixels
    for text, sizes in ((f"{mark}{drawable(job.name)}", NAME_SIZES_PT), (f"{mark}{job.job_id}", NAME_SIZES_PT[-1:])):
        for size_pt in sizes:
            if len(text) * 0.62 * size_pt * points + 6 <= room and 1.15 * size_pt * points <= tall:
                axes.text(
                    (block.from_s + block.to_s) / 2,
                    (block.first + block.last) / 2,
                    text,
                    ha="center",
                    va="center",
                    fontsize=size_pt,
                    color=look.ink,
                    fontweight="bold",
                    zorder=5,
                    parse_math=False,
                    path_effects=[withStroke(linewidth=2.4, foreground=look.color)],
                )
                return
