"""A comparison of policies on a workload of the user's: what a simulation leaves, the table, and the figure of all.

Policies are compared seed by seed: of a seed, all of them have the same jobs, so that the differences of a policy to
the first one say more than both means do.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from scheduler_bridge.experiments.study import Means, known_of
from scheduler_bridge.experiments.study_report import DataTable, Picture, StudyReport, Value, of_rows
from scheduler_bridge.experiments.sweep import Cell, Figures, Reporter, Row, SweepFileError, row_file, sweep
from scheduler_bridge.report import words
from scheduler_bridge.report.charts import INK, LINE_COLORS, drawable, plain, say, sheet
from scheduler_bridge.report.looks import MINUS
from scheduler_bridge.sim.measures import Times, counted

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from scheduler_bridge.sim import Replay

# One simulation -------------------------------------------------------------------------------------------------------

_STEPS: Final = 60
_QUANTILES: Final = tuple(range(0, 101, 5))
_BUSY: Final = tuple(f"busy_{step:02}" for step in range(_STEPS))
_SLOWDOWN: Final = tuple(f"slowdown_p{percent}" for percent in _QUANTILES)
COLUMNS: Final = (
    "jobs", "killed", "unfinished", "refused", "wait_s", "wait_p95_s", "turnaround_s", "slowdown", "utilization",
    "makespan_s", "resizes", "rigid_turnaround_s", "malleable_turnaround_s", "fairness", "energy_kwh",
    *_SLOWDOWN, *_BUSY,
)  # fmt: skip
"""Of a row: means over the jobs; utilization, and that in each sixtieth of the makespan (``busy_00`` on), in percent;
``resizes`` of a job; slowdowns are bounded ones, their mean and quantiles."""


def figures_of(done: Replay, nodes: int) -> Figures:
    """What a comparison keeps of a simulation on ``nodes`` nodes."""
    measures, every = done.measures, done.measures.every
    times = Times.of(counted(done.result.records.values(), measures.window))
    slowdowns = np.percentile(times.bounded_slowdown, _QUANTILES).tolist() if every.jobs else [None] * len(_QUANTILES)
    return {
        "jobs": every.jobs,
        "killed": every.killed,
        "unfinished": measures.unfinished,
        "refused": measures.refused,
        "wait_s": every.mean_wait_s,
        "wait_p95_s": float(np.percentile(times.wait_s, 95)) if every.jobs else None,
        "turnaround_s": every.mean_turnaround_s,
        "slowdown": every.mean_bounded_slowdown,
        "utilization": 100 * measures.utilization,
        "makespan_s": measures.makespan_s,
        "resizes": (every.grows + every.shrinks) / max(1, every.jobs),
        "rigid_turnaround_s": measures.rigid.mean_turnaround_s,
        "malleable_turnaround_s": measures.malleable.mean_turnaround_s,
        "fairness": measures.fairness,
        "energy_kwh": measures.energy_kwh,
        **dict(zip(_SLOWDOWN, slowdowns, strict=True)),
        **dict(zip(_BUSY, _busy(done, nodes), strict=True)),
    }


def _busy(done: Replay, nodes: int) -> list[float]:
    """The part of the nodes on which jobs computed, in percent, in each step of the makespan."""
    records = [record for record in done.result.records.values() if not record.refused]
    spans = np.array([span for record in records for span in record.spans()], float).reshape(-1, 3)
    first_s = min((record.spec.submit_s for record in records), default=0.0)
    edges_s = np.linspace(first_s, first_s + max(done.measures.makespan_s, 1e-9), _STEPS + 1)
    held = [float((np.clip(edge_s, spans[:, 0], spans[:, 1]) - spans[:, 0]) @ spans[:, 2]) for edge_s in edges_s]
    return [float(share) for share in 100 * np.diff(held) / (nodes * np.diff(edges_s))]


# All of them ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Comparison:
    """What is compared.

    Attributes:
        workload: Its name for people; says where jobs are synthetic.
        key: Tells it, and all options that the results depend on, from others.
        policies: By name, with parameters behind it; the others are compared with the first one.
        seeds: By share of malleable jobs, in percent: those that draw different jobs, or else one.
        notes: What to know besides.
    """

    workload: str
    key: str
    policies: tuple[str, ...]
    seeds: Mapping[int, Sequence[int]]
    notes: tuple[str, ...] = ()

    def cells(self) -> list[Cell]:
        """All simulations, those of the first seeds first."""
        most = max(len(seeds) for seeds in self.seeds.values())
        return [
            Cell(self.key, policy, share, seeds[turn])
            for turn in range(most)
            for share, seeds in self.seeds.items()
            if turn < len(seeds)
            for policy in self.policies
        ]

    def rows(self, simulate: Callable[[Cell], Figures], file: Path, reporter: Reporter) -> list[Row]:
        """Simulate what ``file`` does not know yet, see ``sweep``.

        Raises:
            SweepFileError: The file has another comparison, or cannot be gone on with.
            OSError: It cannot be read or written.
        """
        with row_file(file, COLUMNS) as kept:
            if other := next((cell for cell in kept.found if cell.trace != self.key), None):
                raise SweepFileError(f"{file} has a comparison of {other.trace}, this is one of {self.key}")
        return sweep(self.cells(), simulate, COLUMNS, file=file, reporter=reporter)

    def report(self, rows: Sequence[Row]) -> StudyReport:
        """The table, the figure and the page."""
        results = Results(rows)
        picture = _picture(self, results)
        return StudyReport(
            "comparison",
            f"{', '.join(self.policies)} on {self.workload}",
            _verdict(self, results),
            (*_warnings(self, results), *_remarks(self), *self.notes),
            (_table(self, results),),
            {"comparison": picture},
            passed=True,
            provenance=of_rows(rows),
            summary=_summary(self, results),
        )


# Means, and differences seed by seed ----------------------------------------------------------------------------------

CONFIDENCE: Final = 95
_T: Final = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
"""Quantiles of Student's t distribution at 0.975, by degrees of freedom from 1 on."""
_NORMAL: Final = 1.95996


def t_quantile(freedom: int) -> float:
    """The quantile of Student's t distribution at 0.975; beyond the table by the first terms of its expansion."""
    if freedom <= len(_T):
        return _T[freedom - 1]
    z = _NORMAL
    return z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over seeds, and how far its interval reaches to both sides; None: there is one seed only."""

    mean: float
    reach: float | None

    @classmethod
    def of(cls, values: Sequence[float]) -> Estimate | None:
        """The estimate from the values of seeds; None of nothing."""
        if len(values) < 2:
            return cls(values[0], None) if values else None
        reach = t_quantile(len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))
        return cls(statistics.fmean(values), reach)

    def shown(self, digits: int) -> str:
        """The difference with its sign, and how far its interval reaches."""
        reach = "" if self.reach is None else f" ± {self.reach:,.{digits}f}"
        return f"{self.mean:+,.{digits}f}{reach}".replace("-", MINUS)


class Results(Means):
    """What was simulated of one workload, by share, policy and seed."""

    def values(self, share: int, policy: str, column: str) -> dict[int, float]:
        """What was found, by seed."""
        (workload, _, _), *_ = self.known()
        return self.by_seed(workload, policy, column, share)

    def mean(self, share: int, policy: str, column: str) -> Estimate | None:
        """The mean over seeds; None: there is no such number."""
        return Estimate.of(list(self.values(share, policy, column).values()))

    def difference(self, share: int, policy: str, base: str, column: str) -> Estimate | None:
        """The mean of the differences of ``policy`` to ``base``, seed by seed."""
        ours, theirs = self.values(share, policy, column), self.values(share, base, column)
        return Estimate.of([value - theirs[seed] for seed, value in ours.items() if seed in theirs])

    def unfinished(self, share: int, policy: str) -> int:
        """How many jobs never ended, with the seed that has most of them."""
        return int(max(self.values(share, policy, "unfinished").values(), default=0))

    def averaged(self, share: int, policy: str, columns: Sequence[str]) -> list[float]:
        """The means over seeds of several columns; empty: some have none."""
        found = (self.mean(share, policy, column) for column in columns)
        return known_of(None if estimate is None else estimate.mean for estimate in found)


# The table, and what it says ------------------------------------------------------------------------------------------

_MEASURES: Final = (
    ("wait_s", "wait, s", 0),
    ("turnaround_s", "turnaround, s", 0),
    ("slowdown", "slowdown", 1),
    ("utilization", "utilization, %", 1),
)
"""Column, title, digits of a difference."""


def _table(asked: Comparison, results: Results) -> DataTable:
    base = asked.policies[0]
    rows: list[tuple[Value, ...]] = []
    for share, seeds in asked.seeds.items():
        for policy in asked.policies:
            found: list[Value] = []
            for column, _, digits in _MEASURES:
                mean, apart = results.mean(share, policy, column), results.difference(share, policy, base, column)
                found.append(None if mean is None else round(mean.mean, digits + 1))
                found.append("" if policy == base else "-" if apart is None else apart.shown(digits))
            resizes = results.mean(share, policy, "resizes")
            rows.append((share, policy, len(seeds), *found, None if resizes is None else round(resizes.mean, 2)))
    pairs = ((title, f"{title.split(',')[0]} against {base}") for _, title, _ in _MEASURES)
    titles = itertools.chain.from_iterable(pairs)
    columns = ("malleable %", "policy", "seeds", *titles, "resizes a job")
    title = f"Means over seeds, and {CONFIDENCE} % intervals of the differences to {base}, seed by seed"
    return DataTable("comparison", title, columns, rows)


def _summary(asked: Comparison, results: Results) -> DataTable:
    """The table for a terminal: a difference stands below its mean."""
    base = asked.policies[0]

    def cell(share: int, policy: str, column: str, digits: int) -> str:
        mean, apart = results.mean(share, policy, column), results.difference(share, policy, base, column)
        if mean is None:
            return "-"
        return f"{mean.mean:,.{digits}f}" + ("" if policy == base or apart is None else f"\n{apart.shown(digits)}")

    rows = [
        (
            f"{share} %",
            policy.replace(" ", "\n"),
            *(cell(share, policy, column, digits) for column, _, digits in _MEASURES),
        )
        for share in asked.seeds
        for policy in asked.policies
    ]
    title = f"Shares of malleable jobs: means; below, differences to {base}, {CONFIDENCE} % intervals"
    heads = (head.replace(", ", "\n") for _, head, _ in _MEASURES)
    return DataTable("summary", title, ("share", "policy", *heads), rows)


def _remarks(asked: Comparison) -> tuple[str, ...]:
    once = [f"{share} %" for share, seeds in asked.seeds.items() if len(seeds) == 1]
    several = any(len(seeds) > 1 for seeds in asked.seeds.values())
    how = (
        f"A difference to {asked.policies[0]} is the mean of those of all seeds; ± is its {CONFIDENCE} % interval by "
        "Student's t. Where it does not reach zero, the policies differ. Slowdown is the mean bounded slowdown."
    )
    remarks = [how]
    if once and several:
        remarks.append(f"At {', '.join(once)} malleable, seeds draw nothing: one simulation each, without intervals.")
    elif once:
        remarks.append("Seeds draw nothing: one simulation each, without intervals; --shake 60 moves submissions.")
    return tuple(remarks)


def _warnings(asked: Comparison, results: Results) -> Iterator[str]:
    for share in asked.seeds:
        for policy in asked.policies:
            if jobs := results.unfinished(share, policy):
                yield (
                    f"WARNING: never ended, {share} % malleable, {policy}: {words.plural(jobs, 'job')}; the means are "
                    "without them, and look better for it."
                )


def _verdict(asked: Comparison, results: Results) -> str:
    base = asked.policies[0]
    found = []
    for share in asked.seeds:
        means = {policy: results.mean(share, policy, "turnaround_s") for policy in asked.policies}
        known = {
            policy: mean.mean for policy, mean in means.items()
            if mean is not None and not results.unfinished(share, policy)
        }  # fmt: skip
        if not known:
            continue
        best = min(known, key=known.__getitem__)
        apart = results.difference(share, best, base, "turnaround_s")
        text = f"{share} % malleable: {best}"
        if best != base and apart is not None and known.get(base):
            sure = "" if apart.reach is None or apart.mean + apart.reach < 0 else ", which may be chance"
            text += f", {-100 * apart.mean / known[base]:.0f} % less than {base}{sure}"
        found.append(text)
    if found:
        return f"Lowest mean turnaround: {'; '.join(found)}."
    unfinished = any(results.unfinished(share, policy) for share in asked.seeds for policy in asked.policies)
    return "Under no policy did all jobs end." if unfinished else "No job has ended."


# The figure: a row of panels for each share ---------------------------------------------------------------------------

_DASHES: Final = ("-", (0, (4, 2)), (0, (1, 1.5)))


def _picture(asked: Comparison, results: Results) -> Picture:
    shares, names = list(asked.seeds), asked.policies
    tall_in = max(2.1, 0.75 + 0.26 * len(names))
    figure = sheet(1.5 + tall_in * len(shares), 14.0)
    grid = figure.subplots(len(shares), 4, squeeze=False, sharex="col", width_ratios=(1, 1, 1.35, 1.1))
    makespans_s = {
        (share, name): mean.mean for share in shares for name in names
        if (mean := results.mean(share, name, "makespan_s")) is not None
    }  # fmt: skip
    longest_s = max(makespans_s.values(), default=1.0) or 1.0
    size_s, unit = words.unit(longest_s)
    bars = [_bar_unit(results, shares, names, column) for column in ("wait_s", "turnaround_s")]
    for share, line in zip(shares, grid, strict=True):
        for axes, column, (bar_s, _) in zip(line, ("wait_s", "turnaround_s"), bars, strict=False):
            _draw_means(axes, names, [results.mean(share, name, column) for name in names], bar_s)
        for number, name in enumerate(names):
            color, dash = _look(number)
            wide = 3.2 - 2.0 * number / max(1, len(names) - 1)  # so that curves that coincide are all seen
            busy, slowdowns = results.averaged(share, name, _BUSY), results.averaged(share, name, _SLOWDOWN)
            if busy and (share, name) in makespans_s:
                edges = np.linspace(0, makespans_s[share, name] / size_s, _STEPS + 1)
                line[2].stairs(busy, edges, baseline=None, color=color, ls=dash, lw=wide)
            if slowdowns:
                line[3].plot(slowdowns, _QUANTILES, color=color, ls=dash, lw=wide)
        _name_rows(line[0], names, share)
        line[1].set_yticks([])
        line[2].set(ylim=(0, 103), xlim=(0, longest_s / size_s))
        line[3].set(ylim=(0, 102), xscale="log")
        line[3].xaxis.set_major_locator(LogLocator(numticks=6))
        line[3].xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        line[3].xaxis.set_minor_formatter(NullFormatter())
        for axes in line[2:]:
            plain(axes)
            axes.tick_params(labelsize=8.5)
    for panels in grid.T[:2]:  # which share an axis
        panels[0].set_xlim(0, 1.22 * max(0.0, *(float(axes.dataLim.x1) for axes in panels)) or 1.0)
    titles = ("mean wait", "mean turnaround", "nodes busy, %", "jobs with at most this slowdown, %")
    for axes, title in zip(grid[0], titles, strict=True):
        axes.set_title(title, fontsize=10, loc="left")
    labels = (*(name for _, name in bars), f"{unit} since the first submission", "bounded slowdown")
    for axes, label in zip(grid[-1], labels, strict=True):
        axes.set_xlabel(label, fontsize=9)
    verdict = _verdict(asked, results)
    most = max(len(seeds) for seeds in asked.seeds.values())
    note = (
        f"{asked.workload}. Means over {words.plural(most, 'seed')}, or one simulation where seeds draw nothing; thin "
        f"lines: {CONFIDENCE} % intervals. Curves have the colours of the names, the first policy the widest ones; "
        "busy nodes are means of sixtieths of the makespan."
    )
    say(figure, verdict, note)
    return Picture(figure, note, f"{verdict} Rows: shares of malleable jobs. Columns: {', '.join(titles)}.")


def _look(number: int) -> tuple[str, str | tuple[float, tuple[float, ...]]]:
    """Colour and dashes of a policy; after the last colour they come again, dashed."""
    return LINE_COLORS[number % len(LINE_COLORS)], _DASHES[number // len(LINE_COLORS) % len(_DASHES)]


def _bar_unit(results: Results, shares: Sequence[int], names: Sequence[str], column: str) -> tuple[float, str]:
    """The unit, in seconds, in which all means of a column are drawn, and its name."""
    found = [mean.mean for share in shares for name in names if (mean := results.mean(share, name, column)) is not None]
    return words.unit(max(found, default=1.0))


def _draw_means(axes: Axes, names: Sequence[str], means: Sequence[Estimate | None], size_s: float) -> None:
    for number, mean in enumerate(means):
        if mean is None:
            continue
        axes.barh(number, mean.mean / size_s, 0.62, color=_look(number)[0], alpha=0.85)
        end = mean.mean
        if mean.reach is not None:
            low, end = max(0.0, mean.mean - mean.reach), mean.mean + mean.reach
            axes.plot([low / size_s, end / size_s], [number, number], color=INK, lw=1.1)
        text = f"{mean.mean / size_s:.3g}"
        axes.annotate(text, (end / size_s, number), (3, 0), textcoords="offset points", va="center", fontsize=8)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    axes.tick_params(labelsize=8.5)


def _name_rows(axes: Axes, names: Sequence[str], share: int) -> None:
    axes.set_yticks(range(len(names)), [drawable(name) for name in names], fontsize=9, parse_math=False)
    for number, label in enumerate(axes.get_yticklabels()):
        label.set_color(_look(number)[0])
        label.set_fontweight("bold")
    axes.set_ylabel(f"{share} % malleable", fontsize=10, fontweight="bold")
