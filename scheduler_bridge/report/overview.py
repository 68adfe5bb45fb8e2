"""The picture of a run that is too large for one bar a job: use, queue and waits over all of it, nodes over a part.

Its size and the time that it takes do not grow with the run: above are means of at most 300 steps, below is an image in
which a job is an area of one colour.
"""

from __future__ import annotations

import math
import textwrap
from collections import Counter
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias, TypeVar

import numpy as np
from matplotlib.colors import to_rgb
from matplotlib.patches import ConnectionPatch
from matplotlib.ticker import MaxNLocator, NullLocator

from scheduler_bridge.report import words
from scheduler_bridge.report.charts import RunSheet, beside, drawable, name_within, narrow, outlined, time_ticks
from scheduler_bridge.report.looks import MALLEABLE_MARK, OKABE_ITO, Look, merged, runs_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from scheduler_bridge.record import JobRecord, Reserved, RunRecord, Segment

    Floats: TypeAlias = NDArray[np.float64]


_LEFT_IN, _RIGHT_IN = 0.95, 1.25
_STRIP_IN: Final = 0.95
_GAP_IN: Final = 0.16
_NODES_IN: Final = 4.4
_COLUMNS, _ROWS = 1500, 720
_BUSY, _BLUE, _ORANGE = "#4d4d4d", "#0072B2", "#a84300"
_NOTE_CHARACTERS: Final = 170
_RESERVED: Final = "#cfcfcf"
_MOST_NAMES: Final = 60
_WAITS: Final = {
    1.0: "1 s", 10.0: "10 s", 60.0: "1 min", 600.0: "10 min", 3600.0: "1 h", 36_000.0: "10 h", 86_400.0: "1 day",
    864_000.0: "10 days", 8_640_000.0: "100 days",
}  # fmt: skip
_UNITS: Final = ((86_400.0, "day"), (3600.0, "h"), (60.0, "min"))
_BACKGROUND, _TAKEN = -1, -2


def headline(course: Course) -> str:
    """The finding: how busy it was, and how long jobs waited."""
    text = f"{course.policy}: {words.percent(course.utilization)} busy"
    if course.waits_s is None:
        return f"{text}, no job has started"
    _, half_s, most_s = course.waits_s
    if most_s < 1:
        return f"{text}, nine of ten jobs start at once"
    half = "half of the jobs start at once" if half_s < 1 else f"half of the jobs wait up to {_wait_text(half_s)}"
    return f"{text}; {half}, nine of ten {'wait ' if half_s < 1 else ''}up to {_wait_text(most_s)}"


def claim(course: Course) -> str:
    """One sentence that a stranger understands."""
    still = course.open_jobs
    so_far = f", of which {still:,} {'is' if still == 1 else 'are'} not over" if still else ""
    return (
        f"{words.plural(course.jobs, 'job')}{so_far} on {words.plural(course.nodes, 'node')} under {course.policy}, "
        f"over {words.seconds(course.makespan_s)}; jobs held {words.percent(course.utilization)} of nodes x makespan."
    )


def describe(course: Course, window: Window) -> str:
    """Say in words what the picture shows (its alternative text)."""
    return (
        f"Three curves over the whole run: share of the nodes that jobs held, jobs that waited (at most "
        f"{course.most_waiting:,}), and waits. {headline(course)}. Below, nodes over time: {_part(window)}."
    )


def draw(course: Course, part: RunRecord, window: Window, *, titled: bool = True) -> Figure:
    """Draw a run.

    Args:
        course: All of it.
        part: What happened in the window, with the clock of the run.
        window: Of which nodes over time are drawn.
        titled: With the finding above, which a page has already.
    """
    notes = [line for note in course.notes for line in textwrap.wrap(drawable(note), _NOTE_CHARACTERS)]
    head_in, between_in, foot_in = 0.86 if titled else 0.3, 0.95, 0.82 + 0.17 * len(notes)
    height_in = head_in + 3 * _STRIP_IN + 2 * _GAP_IN + between_in + _NODES_IN + foot_in
    sheet = RunSheet(height_in, _LEFT_IN, _RIGHT_IN)
    strips = [sheet.box(head_in + index * (_STRIP_IN + _GAP_IN), _STRIP_IN) for index in range(3)]
    _busy(strips[0], course)
    _queue(strips[1], course)
    _waits(strips[2], course)
    for axes in strips:
        axes.set_xlim(0, course.makespan_s)
        narrow(axes)
        time_ticks(axes, course.makespan_s)
        axes.tick_params(labelbottom=axes is strips[2])
    beside(strips[2], words.unit(course.makespan_s)[1], (1, 0), (9, -5), xycoords="axes fraction", va="top")
    top_in = head_in + 3 * _STRIP_IN + 2 * _GAP_IN + between_in
    nodes = sheet.box(top_in, _NODES_IN)
    _nodes(nodes, course, part, window)
    if window.to_s - window.from_s < course.makespan_s:
        _lead(sheet.figure, strips, nodes, window)
    if titled:
        sheet.say(headline(course), f"{claim(course)} Curves: each step is the mean of {_step(course)}.")
    rows = "a job's rows lie together: how many nodes it has, not which" if _is_gathered(part) else "a row is a node"
    lines = [f"An area is a job, and {rows}; colours repeat. Grey: held without use, or down. White: idle.", *notes]
    sheet.note(lines)
    return sheet.figure


def five_numbers(course: Course) -> list[words.Number]:
    """Makespan, utilization, waits, turnaround and resizes."""
    mean_s, half_s, most_s = course.waits_s or (None, 0.0, 0.0)
    half = f"up to {_wait_text(half_s)}" if half_s >= 1 else "at once"
    spread = f"half of the jobs {half}, nine of ten up to {_wait_text(most_s)}"
    if most_s < 1:
        spread = "nine of ten jobs start at once" if course.waits_s else ""
    now = "first submission to now" if course.open_jobs else "first submission to last end"
    return [
        words.Number("Makespan", words.seconds(course.makespan_s), hint=now),
        words.Number("Utilization", words.percent(course.utilization), hint="held by jobs, of nodes x makespan"),
        words.Number("Mean wait", words.seconds(mean_s), hint=spread),
        words.Number("Mean turnaround", words.seconds(course.mean_turnaround_s), hint="submission to end"),
        words.Number("Resizes carried out", f"{course.grows:,} + {course.shrinks:,}", hint="grows + shrinks"),
    ]


def caption(course: Course, window: Window) -> str:
    """What is below the picture on a page."""
    return (
        f"Curves: the whole run, each step the mean of {_step(course)}. Nodes over time: {_part(window)}; the "
        "same jobs are in the table."
    )


def _wait_text(wait_s: float) -> str:
    """Word a wait by two digits: a bound that nine of ten keep is known no better."""
    size_s, name = next(((size_s, name) for size_s, name in _UNITS if wait_s >= 1.5 * size_s), (1.0, "s"))
    value = wait_s / size_s
    return f"{value:.{0 if value >= 9.5 else 1}f} {name}{'s' if name == 'day' else ''}"


def _step(course: Course) -> str:
    step_s = float(course.edges_s[1] - course.edges_s[0])
    size_s, name = next(((size_s, name) for size_s, name in _UNITS if step_s % size_s == 0), (1.0, "s"))
    return f"{step_s / size_s:.4g} {name}{'s' if name == 'day' and step_s > size_s else ''}"


def _part(window: Window) -> str:
    """Word the window, in the unit of the axis below its nodes."""
    size_s, unit = words.unit(window.to_s)
    which = "the busiest part, " if window.is_busiest else ""
    digits = max(0, 3 - math.floor(math.log10((window.to_s - window.from_s) / size_s)))
    begin, end = (f"{at_s / size_s:.{digits}f}" for at_s in (window.from_s, window.to_s))
    if digits:
        begin, end = (text.rstrip("0").rstrip(".") for text in (begin, end))
    return f"{which}{unit} {begin} to {end}"


def _label(axes: Axes, level: float, text: str, color: str) -> None:
    """Name a curve at its right end."""
    beside(axes, text, (1, level), (5, 0), xycoords=("axes fraction", "data"), color=color, va="center")


def _stairs(axes: Axes, course: Course, levels: NDArray[np.float64], color: str, fill: str) -> None:
    axes.stairs(levels, course.edges_s, fill=True, color=fill, linewidth=0)
    axes.stairs(levels, course.edges_s, color=color, linewidth=1.0, baseline=None)


def _busy(axes: Axes, course: Course) -> None:
    _stairs(axes, course, 100 * course.busy, _BUSY, "#d9d9d9")
    mean = 100 * course.utilization
    axes.axhline(mean, color="#D55E00", linewidth=1.2, linestyle=(0, (4, 2)))
    _label(axes, mean, f"mean {mean:.0f} %", _ORANGE)
    axes.set_ylim(0, 105)
    axes.set_yticks([0, 50, 100], ["0", "50", "100 %"])
    axes.set_ylabel("busy nodes", fontsize=8)


def _queue(axes: Axes, course: Course) -> None:
    _stairs(axes, course, course.waiting, _BLUE, "#bcd6ea")
    highest = float(np.max(course.waiting, initial=0.0))
    axes.set_ylim(0, 1.12 * highest or 1.0)
    axes.yaxis.set_major_locator(MaxNLocator(3, integer=highest >= 3))
    axes.yaxis.set_major_formatter(lambda count, _: f"{count:,g}")
    mean = float(np.average(course.waiting, weights=np.diff(course.edges_s)))
    axes.axhline(mean, color="#D55E00", linewidth=1.2, linestyle=(0, (4, 2)))
    shown = f"{mean:,.0f}" if mean >= 10 else f"{mean:.1f}" if mean >= 0.1 else "below 0.1"
    _label(axes, max(mean, 0.14 * axes.get_ylim()[1]), f"mean {shown}\nmost {course.most_waiting:,}", _ORANGE)
    axes.set_ylabel("waiting jobs", fontsize=8)


def _waits(axes: Axes, course: Course) -> None:
    """Waits on a logarithmic axis, whose lower end stands for all below a second."""
    half_s, most_s = np.maximum(course.half_s, 1.0), np.maximum(course.most_s, 1.0)
    axes.stairs(most_s, course.edges_s, baseline=half_s, fill=True, color="#e3d3ea", linewidth=0)
    axes.stairs(half_s, course.edges_s, color="#8a3f8f", linewidth=1.2, baseline=None)
    axes.stairs(most_s, course.edges_s, color="#b88bc2", linewidth=1.0, baseline=None)
    axes.set_yscale("log")
    finite = most_s[~np.isnan(most_s)]
    highest = max(60.0, 1.5 * float(finite.max(initial=1.0)))
    axes.set_ylim(0.9, highest)
    shown = [wait_s for wait_s in _WAITS if wait_s <= highest]
    shown = shown[:: 1 if len(shown) < 6 else 2]
    axes.set_yticks(shown, [_WAITS[wait_s] for wait_s in shown])
    axes.yaxis.set_minor_locator(NullLocator())
    axes.set_ylabel("wait of the jobs\nsubmitted then", fontsize=8)
    if course.waits_s is None:
        return
    _, half, most = (max(1.0, value) for value in course.waits_s)
    span = highest / 0.9
    if most <= 1:
        _label(axes, 0.9 * span**0.16, "nine of ten\nstart at once", "#6f2f74")
        return
    apart = max(0.0, 0.34 - math.log(most / half) / math.log(span))
    low = 0.08 if half < 0.9 * span**0.08 else 0.0
    _label(axes, most * span ** (low + apart * 0.6), "nine of ten\nwait less", "#8d5a99")
    _label(axes, half * span ** (low - apart * 0.4), "half wait less", "#6f2f74")


def _lead(figure: Figure, strips: Sequence[Axes], nodes: Axes, window: Window) -> None:
    """Mark the part of the curves whose nodes are drawn, and lead the eye to them."""
    for axes in strips:
        axes.axvspan(window.from_s, window.to_s, color="#E69F00", alpha=0.35, linewidth=1.2, zorder=0.5)
    above = strips[-1].get_xaxis_transform()
    for at_s, corner in ((window.from_s, 0.0), (window.to_s, 1.0)):
        line = ConnectionPatch((at_s, 0.0), (corner, 1.0), above, nodes.transAxes, color="#c98500", linewidth=0.9)
        figure.add_artist(line)


def _nodes(axes: Axes, course: Course, part: RunRecord, window: Window) -> None:
    """Paint what jobs held, a pixel being some seconds of some nodes; what changes within one shows its last state."""
    canvas = _Canvas(part, window, course.origin_s)
    axes.imshow(
        canvas.image(), extent=(window.from_s, window.to_s, len(part.nodes) - 0.5, -0.5), aspect="auto",
        interpolation="nearest", zorder=1,
    )  # fmt: skip
    axes.set_xlim(window.from_s, window.to_s)
    axes.set_ylim(len(part.nodes) - 0.5, -0.5)
    axes.yaxis.set_major_locator(MaxNLocator(8, integer=True))
    axes.yaxis.set_major_formatter(lambda row, _: f"{row:,.0f}")
    axes.set_ylabel(f"{len(part.nodes):,} nodes", fontsize=9)
    narrow(axes)
    time_ticks(axes, window.to_s)
    axes.set_xlabel(f"{words.unit(window.to_s)[1]} since the first submission", fontsize=9)
    text = _part(window)
    title = axes.set_title(
        f" {text[:1].upper()}{text[1:]}: which jobs held how many nodes ",
        fontsize=10, fontweight="bold", pad=7, loc="center",
    )  # fmt: skip
    title.set_bbox({"facecolor": "white", "edgecolor": "none", "pad": 1.5})
    title.set_zorder(10)
    width_px, height_px = axes.get_window_extent().size
    point_px = axes.figure.dpi / 72
    for text, look, (from_s, to_s, first, last) in canvas.names():
        wide = (to_s - from_s) / (window.to_s - window.from_s) * width_px
        tall = (last - first + 1) / len(part.nodes) * height_px
        for size_pt in (9.0, 8.0, 7.0):
            if 0.62 * len(text) * size_pt * point_px + 4 <= wide and 1.15 * size_pt * point_px <= tall:
                at = (from_s + to_s) / 2, (first + last) / 2
                name_within(axes, at, text, size_pt, look, clip_on=True, path_effects=outlined(look.color, 1.8))
                break


def _is_gathered(part: RunRecord) -> bool:
    """Whether rows are numbers of nodes, not certain ones: a job's nodes lie anywhere on a large machine."""
    return len(part.nodes) > MOST_NODES


class _Stay(NamedTuple):
    """Rows from when to when; ``job`` None: they are not in use.

    ``named``: the job's name may be there; ``painted``: they are not painted by others of the same job.
    """

    from_s: float
    to_s: float
    runs: Sequence[tuple[int, int]]
    job: JobRecord | None
    named: bool = True
    painted: bool = True


class _Rows:
    """Rows that are free, as runs of neighbours; who takes some gets neighbours as far as there are."""

    def __init__(self, count: int) -> None:
        self._free = [(0, count - 1)] if count else []

    def take(self, count: int, beside: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
        """Take ``count`` rows, or as many as there are: next to those that one has, else of the run that fits best."""
        taken: list[tuple[int, int]] = []
        ends = {last + 1 for _, last in beside}
        begins = {first - 1 for first, _ in beside}
        while count > 0 and self._free:
            near = [run for run in self._free if run[0] in ends or run[1] in begins]
            fits = [run for run in self._free if run[1] - run[0] + 1 >= count]
            run = near[0] if near else min(fits, key=_length) if fits else max(self._free, key=_length)
            self._free.remove(run)
            first, last = run
            if _length(run) <= count:
                part = run
            elif first not in ends and last in begins:
                part = (last - count + 1, last)
                self._free.append((first, last - count))
            else:
                part = (first, first + count - 1)
                self._free.append((first + count, last))
            taken.append(part)
            ends.add(part[1] + 1)
            begins.add(part[0] - 1)
            count -= _length(part)
        return taken

    def give(self, runs: Iterable[tuple[int, int]]) -> None:
        """Give rows back."""
        self._free = merged((*self._free, *runs))


def _length(run: tuple[int, int]) -> int:
    return run[1] - run[0] + 1


_Change: TypeAlias = tuple[float, bool, int, int, int]
"""When, whether it grows, by how much less, whose, and how many nodes it has then."""


def _changes(part: RunRecord) -> tuple[list[JobRecord | None], list[_Change]]:
    """Who holds nodes, None being what is held without use, and how that changes, by time."""
    reserved = Counter((taken.from_s, taken.to_s, taken.job_id) for taken in part.reserved)
    sizes = [[(from_s, to_s, count)] for (from_s, to_s, _), count in reserved.items()]
    sizes += [
        [(one.from_s, one.to_s, math.ceil(len(one.nodes) * one.share)) for one in job.segments] for job in part.jobs
    ]
    changes: list[_Change] = []
    for index, steps in enumerate(sizes):
        held, until_s = 0, -math.inf
        for from_s, to_s, count in steps:
            if held and from_s > until_s:
                changes.append((until_s, False, 0, index, 0))
                held = 0
            changes.append((from_s, count > held, held - count, index, count))
            held, until_s = count, to_s
        changes.append((until_s, False, 0, index, 0))
    return [None] * len(reserved) + list(part.jobs), sorted(changes)


def _gathered(part: RunRecord) -> Iterable[_Stay]:
    """Rows for all by time: who has some keeps them, and those of a job lie together as far as that can be."""
    holders, changes = _changes(part)
    rows = _Rows(len(part.nodes))
    mine: dict[int, tuple[float, list[tuple[int, int]]]] = {}
    for at_s, grows, _, index, count in changes:
        since_s, runs = mine.get(index, (at_s, []))
        if runs and at_s > since_s:
            yield _Stay(since_s, at_s, merged(runs), holders[index])
        if grows:
            runs = [*runs, *rows.take(count - sum(map(_length, runs)), runs)]
        else:
            runs, given = _split(runs, count)
            rows.give(given)
        mine[index] = at_s, runs


def _stacked(part: RunRecord, from_s: float, to_s: float) -> Iterable[_Stay]:
    """Rows for all, one below the other by start, at each of some moments: for parts in which much is resized.

    No job keeps its rows, but they always lie together, and what is idle lies below all.
    """
    holders, changes = _changes(part)
    step_s = (to_s - from_s) / _COLUMNS
    held: dict[int, int] = {}
    bands: dict[int, list[tuple[float, int, int]]] = {}  # by holder: from when on it has which rows, moment by moment
    coming = iter((*changes, (math.inf, False, 0, 0, 0)))
    change = next(coming)
    for column in range(_COLUMNS):
        while change[0] <= from_s + (column + 0.5) * step_s:
            held[change[3]] = change[4]
            if not change[4]:
                del held[change[3]]
            change = next(coming)
        top = 0
        for index, count in held.items():
            bands.setdefault(index, []).append((from_s + column * step_s, top, top + count - 1))
            top += count
    for index, places in bands.items():
        for (first, last), same in groupby(places, key=lambda place: place[1:]):
            times_s = [at_s for at_s, _, _ in same]
            yield _Stay(times_s[0], times_s[-1] + step_s, [(first, last)], holders[index], named=False)
        yield from _rooms(places, step_s, holders[index])


def _rooms(places: Sequence[tuple[float, int, int]], step_s: float, job: JobRecord | None) -> Iterable[_Stay]:
    """In parts of a job's time, rows that it has all along: the longer the part, the fewer they are."""
    for long in {max(1, len(places) // count) for count in (1, 2, 3, 5, 8)}:
        for begin in range(0, len(places) - long + 1, max(1, long // 2)):
            there = places[begin : begin + long]
            first, last = max(first for _, first, _ in there), min(last for _, _, last in there)
            if first <= last:
                yield _Stay(there[0][0], there[-1][0] + step_s, [(first, last)], job, painted=False)


def _split(runs: list[tuple[int, int]], count: int) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """The first ``count`` rows, and the others."""
    kept: list[tuple[int, int]] = []
    given: list[tuple[int, int]] = []
    for first, last in runs:
        stays = min(count, last - first + 1)
        count -= stays
        if stays:
            kept.append((first, first + stays - 1))
        if first + stays <= last:
            given.append((first + stays, last))
    return kept, given


class _Canvas:
    """Pixels of nodes over time. Colours are given so that jobs that touch each other differ, where that can be."""

    def __init__(self, part: RunRecord, window: Window, origin_s: float) -> None:
        self._part = part
        self._window = window
        self._origin_s = origin_s
        self._row = {node: index for index, node in enumerate(part.nodes)}
        self._tall = min(_ROWS, len(part.nodes))
        self._cells = np.full((self._tall, _COLUMNS), _BACKGROUND, dtype=np.int16)
        self._edges = np.zeros((self._tall, _COLUMNS), dtype=np.bool_)
        self._looks: dict[int, int] = {}
        self._largest: dict[int, tuple[float, tuple[float, float, int, int]]] = {}
        self._paint()

    def image(self) -> NDArray[np.float64]:
        """Red, green and blue of every pixel."""
        table = np.array([to_rgb(color) for color in (*OKABE_ITO, _RESERVED, "#ffffff")])
        found: NDArray[np.float64] = table[np.where(self._edges, _BACKGROUND, self._cells)]
        return found

    def names(self) -> Iterable[tuple[str, Look, tuple[float, float, int, int]]]:
        """What may be written where: of the largest areas the job, and the largest rectangle of it."""
        order = sorted(self._part.jobs, key=lambda job: -self._largest.get(job.job_id, (0.0,))[0])
        for job in order[:_MOST_NAMES]:
            if job.job_id in self._largest:
                mark = f"{MALLEABLE_MARK} " if job.malleable else ""
                look = Look(OKABE_ITO[self._looks[job.job_id]])
                yield f"{mark}{drawable(job.name)}", look, self._largest[job.job_id][1]

    def _paint(self) -> None:
        for stay in self._stays():
            areas = [self._pixels(stay.from_s, stay.to_s, first, last) for first, last in stay.runs]
            if stay.job is None:
                for area in areas:
                    self._cells[area] = _TAKEN
                    self._edges[area] = False
                continue
            job = stay.job
            if job.job_id not in self._looks:
                self._looks[job.job_id] = self._look(areas, job.job_id)
            from_s, to_s = stay.from_s - self._origin_s, stay.to_s - self._origin_s
            for (first, last), area in zip(stay.runs, areas, strict=True):
                rows, columns = area
                if stay.painted:
                    self._cells[area] = self._looks[job.job_id]
                    self._edges[area] = False
                if job.start_s == stay.from_s and columns.start > 0 and columns.stop - columns.start > 2:
                    self._edges[rows, columns.start] = True
                if not stay.named and rows.stop - rows.start > 3:
                    self._edges[rows.start, columns] = True
                size = (to_s - from_s) * (last - first + 1)
                if stay.named and size > self._largest.get(job.job_id, (0.0,))[0]:
                    self._largest[job.job_id] = size, (from_s, to_s, first, last)

    def _stays(self) -> Iterable[_Stay]:
        """Who is on which rows, by time: on those of its nodes, or gathered where these could not be distinguished."""
        if _is_gathered(self._part):
            resizes = sum(max(0, len(job.segments) - 1) for job in self._part.jobs)
            if resizes <= len(self._part.jobs):
                return _gathered(self._part)
            from_s, to_s = self._origin_s + self._window.from_s, self._origin_s + self._window.to_s
            return _stacked(self._part, from_s, to_s)
        stays = [_Stay(taken.from_s, taken.to_s, self._runs((taken.node,)), None) for taken in self._part.reserved]
        stays += [
            _Stay(part.from_s, part.to_s, self._runs(part.nodes), job)
            for job in self._part.jobs
            for part in job.segments
        ]
        return sorted(stays, key=lambda stay: (stay.job is not None, stay.from_s))

    def _look(self, areas: Sequence[tuple[slice, slice]], job_id: int) -> int:
        """The colour that least of its neighbours have."""
        count = len(OKABE_ITO)
        around = np.zeros(count, dtype=np.int64)
        for rows, columns in areas[:20]:
            wider = slice(max(0, rows.start - 1), rows.stop + 1), slice(max(0, columns.start - 2), columns.stop)
            seen = self._cells[wider]
            around += np.bincount(seen[seen >= 0], minlength=count)
        turn = [(job_id + index) % count for index in range(count)]
        return min(turn, key=lambda look: around[look])

    def _runs(self, nodes: Iterable[str]) -> list[tuple[int, int]]:
        return runs_of(self._row[node] for node in nodes if node in self._row)

    def _pixels(self, from_s: float, to_s: float, first: int, last: int) -> tuple[slice, slice]:
        """Those of a rectangle; at least one of each side."""
        scale = _COLUMNS / (self._window.to_s - self._window.from_s)
        left = min(_COLUMNS - 1, max(0, round((from_s - self._origin_s - self._window.from_s) * scale)))
        right = max(left + 1, min(_COLUMNS, round((to_s - self._origin_s - self._window.from_s) * scale)))
        nodes = len(self._row)
        top = first * self._tall // nodes
        return slice(top, max(top + 1, -(-(last + 1) * self._tall // nodes))), slice(left, right)


# The course of a run of any size: use, queue and waits in a bounded number of steps, and its busiest part ------------
#
# A picture of one bar for each job cannot be read beyond some hundreds of jobs. Here a step is the mean over some time,
# exactly: what jobs held is integrated, not sampled.

MOST_JOBS, MOST_NODES = 1000, 256
"""Larger runs cannot be read where each job has a bar."""
_MOST_STEPS: Final = 300
_WINDOW_JOBS: Final = 150
"""As many jobs are submitted in a window of the usual length as there can be distinct bars."""
_MINUTE_S, _HOUR_S, _DAY_S = 60.0, 3600.0, 86_400.0
_LENGTHS_S: Final = (
    *(1.0, 2.0, 5.0, 10.0, 20.0, 30.0),
    *(part * _MINUTE_S for part in (1, 2, 5, 10, 20, 30)),
    *(part * _HOUR_S for part in (1, 2, 3, 6, 12)),
    *(part * _DAY_S for part in (1, 2, 4, 7, 14, 28, 56, 112, 224)),
)
"""Of steps and windows: those that people count in."""


def is_large(jobs: int, nodes: int) -> bool:
    """Whether a run is drawn as an overview and a part."""
    return jobs > MOST_JOBS or nodes > MOST_NODES


class Life(NamedTuple):
    """A job from its submission to its end, in seconds; ``held`` are (from, to, nodes)."""

    submit_s: float
    start_s: float | None
    end_s: float | None
    held: Sequence[tuple[float, float, float]]
    grows: int = 0
    shrinks: int = 0


@dataclass(frozen=True, slots=True)
class Window:
    """A part of a run, in seconds since its first submission; ``is_busiest``: it was chosen for that."""

    from_s: float
    to_s: float
    is_busiest: bool = False


class Course:
    """A run in numbers and steps. Times in seconds since the first submission.

    Args:
        policy: What decided.
        nodes: Of the cluster.
        lives: Its jobs, but for refused ones.
        until_s: When it was last seen, if jobs are not over; None: at the last end.
        notes: What is to be said on every picture.

    Attributes:
        jobs: That were submitted and not refused.
        open_jobs: Those of them that are not over.
        edges_s: Where steps begin, and where the last one ends.
        busy: In each step, the share of the nodes that jobs held.
        waiting: In each step, how many jobs waited on average.
        most_waiting: How many waited at once at most.
        half_s: Of the jobs submitted in each step, half waited less; NaN: there is none.
        most_s: Nine of ten waited less.
        makespan_s: First submission to last end.
        utilization: Held node-seconds of nodes times makespan.
        waits_s: Mean, median and ninth decile of all waits; None: no job has started.
        mean_turnaround_s: Submission to end; None: no job is over.
        grows: That were carried out.
        shrinks: That were carried out.
        origin_s: The first submission, on the clock of the run.

    Raises:
        ValueError: There is no job.
    """

    def __init__(
        self, policy: str, nodes: int, lives: Iterable[Life], *, until_s: float | None = None, notes: Iterable[str] = ()
    ) -> None:
        lives = list(lives)
        if not lives:
            raise ValueError("nothing to draw: there is no job")
        self.policy, self.nodes, self.notes = policy, nodes, tuple(notes)
        self.jobs = len(lives)
        times_s = [(life.submit_s, life.start_s, life.end_s) for life in lives]
        submit_s, start_s, end_s = np.array(times_s, dtype=float).T  # None becomes NaN
        self.origin_s = origin_s = float(submit_s.min())
        submit_s, start_s, end_s = submit_s - origin_s, start_s - origin_s, end_s - origin_s
        is_open = np.isnan(end_s)
        self.open_jobs = int(is_open.sum())
        last_s = float(np.nanmax(end_s)) if not is_open.all() else 0.0
        if until_s is not None and is_open.any():
            last_s = max(last_s, until_s - origin_s)
        self.makespan_s = last_s = last_s or 1.0
        step_s = next((length for length in _LENGTHS_S if last_s / length <= _MOST_STEPS), last_s / _MOST_STEPS)
        self.edges_s = np.append(np.arange(0.0, last_s, step_s), last_s)
        span = np.array([part for life in lives for part in life.held]).reshape(-1, 3) - (origin_s, origin_s, 0.0)
        self._held = _area(span[:, 0], span[:, 1], span[:, 2])
        self.busy = _means(self._held, self.edges_s) / nodes
        self.utilization = float(self._held[1][-1]) / (nodes * last_s)
        left_s = np.where(np.isnan(start_s), np.where(is_open, last_s, end_s), start_s)
        self._queued = _area(submit_s, left_s, np.ones_like(submit_s))
        self.waiting = _means(self._queued, self.edges_s)
        self.most_waiting = _most(submit_s, left_s)
        started = ~np.isnan(start_s)
        waits_s = (left_s - submit_s)[started]
        self.half_s, self.most_s = _quantiles(submit_s[started], waits_s, self.edges_s)
        self.waits_s = _summary(waits_s)
        self.mean_turnaround_s = None if is_open.all() else float((end_s - submit_s)[~is_open].mean())
        self.grows, self.shrinks = sum(life.grows for life in lives), sum(life.shrinks for life in lives)
        self._starts_s = np.sort(start_s[started])

    def busiest(self) -> Window:
        """The part, with some hundred submissions, in which jobs held most nodes; where that is even, most waited.

        Use is compared in steps of a tenth, and parts begin at quarters of their length. Where no job waited, it is the
        one in which most jobs began.
        """
        usual_s = self.makespan_s * _WINDOW_JOBS / self.jobs
        length_s = next((length for length in _LENGTHS_S if length >= usual_s), self.makespan_s)
        if length_s >= self.makespan_s:
            return Window(0.0, self.makespan_s, is_busiest=False)
        begins_s = np.arange(0.0, self.makespan_s - length_s + 1e-9, length_s / 4)
        use, queue = (
            np.interp(begins_s + length_s, *area) - np.interp(begins_s, *area) for area in (self._held, self._queued)
        )
        begun = np.searchsorted(self._starts_s, begins_s + length_s) - np.searchsorted(self._starts_s, begins_s)
        tenths = np.floor(10 * use / (self.nodes * length_s) + 0.5)
        best = max(range(len(begins_s)), key=lambda at: (tenths[at], queue[at], begun[at]))
        return Window(float(begins_s[best]), float(begins_s[best]) + length_s, is_busiest=True)


def lives_of(record: RunRecord) -> Iterable[Life]:
    """The jobs of a record, but for refused ones."""
    for job in record.jobs:
        if job.state != "refused":
            held = [(part.from_s, part.to_s, len(part.nodes) * part.share) for part in job.segments]
            yield Life(job.submit_s, job.start_s, job.end_s, held, job.done("grow"), job.done("shrink"))


_Held = TypeVar("_Held", "Segment", "Reserved")


def cut(record: RunRecord, window: Window, origin_s: float) -> RunRecord:
    """The part of a record that lies in a window: jobs that held nodes then, and only what they held then."""
    from msgspec.structs import replace

    from_s, to_s = window.from_s + origin_s, window.to_s + origin_s

    def within(parts: Iterable[_Held]) -> list[_Held]:
        return [
            replace(part, from_s=max(part.from_s, from_s), to_s=min(part.to_s, to_s))
            for part in parts
            if part.from_s < to_s and part.to_s > from_s
        ]

    jobs = [replace(job, segments=held) for job in record.jobs if (held := within(job.segments))]
    return replace(record, jobs=jobs, reserved=within(record.reserved))


def _area(from_s: Floats, to_s: Floats, height: Floats) -> tuple[Floats, Floats]:
    """Moments at which the sum of such rectangles changes, and its integral until then."""
    at_s = np.concatenate((from_s, to_s))
    change = np.concatenate((height, -height))
    order = np.argsort(at_s, kind="stable")
    at_s, level = at_s[order], np.cumsum(change[order])
    if not len(at_s):
        return np.zeros(1), np.zeros(1)
    return at_s, np.concatenate(([0.0], np.cumsum(level[:-1] * np.diff(at_s))))


def _means(area: tuple[Floats, Floats], edges_s: Floats) -> Floats:
    """The mean of what was integrated, in each step."""
    integral: Floats = np.interp(edges_s, *area)
    return np.asarray(np.diff(integral) / np.diff(edges_s))


def _most(from_s: Floats, to_s: Floats) -> int:
    """How many of such intervals there are at once at most; one that ends when another one begins is over."""
    from_s, to_s = from_s[to_s > from_s], to_s[to_s > from_s]
    at_s, change = np.concatenate((to_s, from_s)), np.repeat((-1, 1), len(to_s))
    return int(np.max(np.cumsum(change[np.argsort(at_s, kind="stable")]), initial=0))


def _quantiles(submit_s: Floats, waits_s: Floats, edges_s: Floats) -> tuple[Floats, Floats]:
    order = np.argsort(submit_s, kind="stable")
    waits_s = waits_s[order]
    at = np.searchsorted(submit_s[order], edges_s)
    at[-1] = len(waits_s)
    half_s, most_s = np.full(len(edges_s) - 1, np.nan), np.full(len(edges_s) - 1, np.nan)
    for step in range(len(edges_s) - 1):
        if at[step] < at[step + 1]:
            half_s[step], most_s[step] = np.quantile(waits_s[at[step] : at[step + 1]], (0.5, 0.9))
    return half_s, most_s


def _summary(waits_s: Floats) -> tuple[float, float, float] | None:
    if not len(waits_s):
        return None
    half_s, most_s = np.quantile(waits_s, (0.5, 0.9))
    return float(waits_s.mean()), float(half_s), float(most_s)
