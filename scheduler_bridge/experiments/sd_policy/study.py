"""The experiment ``sd-policy``: simulate, compare with what the 2019 paper prints, say where it differs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np
from matplotlib.colors import TwoSlopeNorm

from scheduler_bridge.experiments import study
from scheduler_bridge.experiments.sd_policy.cells import (
    COLUMNS,
    CURIE_FILE,
    LIMITS,
    MEASURES,
    SEEDS,
    STATIC,
    Jobs,
    Trace,
    cells,
    named,
    replayed,
    simulated,
    traces,
)
from scheduler_bridge.experiments.study_report import DataTable, Picture, StudyReport, Value, of_rows, there
from scheduler_bridge.experiments.sweep import Scale, Sweeping
from scheduler_bridge.report.charts import BarRow, Entry, sheet
from scheduler_bridge.report.looks import OKABE_ITO

CLAIMS: Final = study.claims_file(__package__)
_BIG: Final = 4
"""The workload of section 4.2."""
_TOLERANCE: Final = f"{study.HOW_JUDGED} A share of jobs is held up to {study.LEVEL:g} points away."
_WORKLOADS: Final = (
    "Workloads 1, 2 and 5 are drawn in the form of Cirne and Berman's model, 3 is a twin of RICC's numbers of jobs and "
    "nodes: synthetic, with loads made so that static backfill has about the paper's makespan and response time. So "
    "gains are of these workloads, not of the authors'."
)
_MODEL: Final = (
    "Every job is malleable within its nodes; SharingFactor is 0.5, at most two mates. The policy always estimates by "
    "the worst model; jobs are executed by the ideal one where nothing else is said. Sharing costs nothing but cores."
)
_METRICS: Final = (
    "Slowdown is response time by the runtime on nodes of its own, mean of the ratios, as in the paper. Energy is an "
    "estimate from busy and idle nodes (a part of a node counts as a part); the paper measured that of its real run."
)
_REAL: Final = (
    "Workload 5 was a real run there: better use of nodes by memory-bound phases is in no simulation. Real runs of "
    "this project: malleable experiment sd-real."
)
_SHORT: Final = "Short cuts on smaller machines: for a look, not for the paper's numbers. Those are --scale full."


def run(data: Path | None, how: Sweeping) -> StudyReport:
    """Simulate what is not known yet and compare.

    At scale ``small`` there are short cuts and one seed, at ``full`` there is Table 1 (of Curie what there is) and both
    models for all limits.
    """
    found = traces(how.scale, data)
    named_traces = {trace.name: trace for trace in found}
    rows = how.rows(cells(found, SEEDS, how.scale), partial(simulated, named_traces), COLUMNS)
    drawn = [gains(trace, SEEDS[0]) for trace in found if trace.paper in (1, _BIG)]
    means = Limits(rows)
    verdicts = judged(means, found, next((one for one in drawn if one.trace.paper == _BIG), None))
    limits = {limit: f"limit {limit}" for limit in LIMITS}
    models = {"dynamic": "ideal model", named("dynamic", "worst"): "worst case model"}
    figures = {
        "limits": draw_changes(means, found, limits, "MAX_SLOWDOWN, ideal model"),
        "models": draw_changes(means, found, models, "Runtime models, dynamic limit"),
    }
    for one in sorted(drawn, key=lambda one: -one.trace.paper):
        figures[f"map-{one.trace.name}"] = draw_maps(one)
        if len(one.days) > 1:
            figures[f"days-{one.trace.name}"] = draw_days(one)
    return StudyReport(
        "sd-policy",
        "The 2019 paper: SD-Policy, jobs that share nodes",
        f"{len(rows)} simulations: {study.counted(verdicts)}.",
        tuple(_remarks(found, how.scale)),
        (_means_table(means, found), study.claims_table(verdicts), _maps_table(drawn), _days_table(drawn)),
        figures,
        passed=study.agree(verdicts),
        provenance=of_rows(rows),
        data=there(data, (CURIE_FILE,)),
    )


def _remarks(found: Sequence[Trace], scale: Scale) -> list[str]:
    remarks = [_TOLERANCE, _WORKLOADS, _MODEL, _METRICS, _REAL]
    if scale == "small":
        remarks.insert(0, _SHORT)
    if not any(trace.paper == _BIG for trace in found):
        remarks.insert(0, f"Workload 4 is left out: {CURIE_FILE} is not there. Give --data, the folder that holds it.")
    return remarks


class Limits(study.Means):
    """Means by workload and policy: static backfill, and SD-Policy by limit and runtime model."""

    def change(self, trace: str, policy: str, measure: str) -> float | None:
        """The mean against that of static backfill, in percent."""
        return study.change(self.get(trace, STATIC, measure), self.get(trace, policy, measure))

    def best(self, trace: str, measure: str) -> str | None:
        """The limit with the smallest mean, under the ideal model; None: one of them was not simulated."""
        known = study.known_of(self.get(trace, limit, measure) for limit in LIMITS)
        return LIMITS[known.index(min(known))] if known else None

    def find(self, claim: study.Claim) -> float | None:
        """The mean that a claim is about, also of the best limit."""
        best = self.best(claim["workload"], claim["measure"]) if claim["policy"] == "best" else claim["policy"]
        return self.get(claim["workload"], best or "", claim["measure"])


# Claims ---------------------------------------------------------------------------------------------------------------

_DAYS: Final = 90.0
"""The percent of the days on which slowdown is not higher that are taken for all but a first spike."""
_NEARLY: Final = 80.0
"""The percent of the categories that are taken for nearly all: the paper has three that are worse."""
_ANOTHER: Final = {
    1: "drawn by the model's form, not by the authors",
    2: "drawn by the model's form, not by the authors",
    3: "a twin: of the log, only numbers of jobs and nodes and the largest job are known here",
    4: "a part of the log, another one than the paper's eight months",
    5: "a simulation, where jobs have no memory-bound phases; what sharing gained in the real run is not in the model",
}


def judged(means: Limits, traces: Sequence[Trace], gains: Gains | None) -> list[study.ClaimVerdict]:
    """Judge all claims, those on workload 4 also by who ``gains`` in it; on workloads that are not there, none."""
    names = {trace.paper: trace.name for trace in traces}
    rules: dict[str, study.Rule] = {
        "corner": (
            lambda claim: f"up to x {claim['printed']:.2f}",
            lambda _, claim: _corner(_counted(gains), claim["printed"]),
        ),
        "categories": (lambda _: "x >= 1", lambda _, claim: _kept(_counted(gains), claim["measure"])),
        "days": (lambda _: "nearly all days", lambda *_: _days(() if gains is None else gains.days)),
    }

    def note(claim: study.Claim) -> str:
        """Which limit is the best one, where the claim is on one workload."""
        best = claim["policy"] == "best" and "workload" not in claim["than"]
        return f" ({means.best(names[claim['workload']], claim['measure'])})" if best else ""

    def reason(claim: study.Claim) -> str:
        """That the workload is another one, and how far off it is before anything is shared."""
        if isinstance(paper := claim["workload"], list):
            return "see the claims on each workload"
        printed = {name: value for name, value in CLAIMS["printed"][str(paper)].items() if name != "makespan_s"}
        far = study.far_off(printed, lambda measure: means.get(names[paper], STATIC, measure), "static")
        return "; ".join((_ANOTHER[paper], *far))

    by = study.Judge(means.find, study.RULES | rules, names, note=note)
    return by.verdicts(CLAIMS["claim"], reason)


def _counted(gains: Gains | None) -> list[Category]:
    """The categories that have enough jobs."""
    if gains is None:
        raise study.Missing
    return [category for category in gains.categories if category.counts]


def _corner(counted: Sequence[Category], wanted: float) -> tuple[str, study.Word]:
    small, large = ([c.slowdown for c in counted if c.is_small is is_small] for is_small in (True, False))
    if not small or not large:
        raise study.Missing
    best = max(small)
    found = f"up to x {best:.2f}; larger or longer ones up to x {max(large):.2f}"
    return found, "differs" if best <= max(large) or best <= 1 else study.word_for_times(best, wanted)


def _kept(counted: Sequence[Category], kind: str) -> tuple[str, study.Word]:
    """Whether categories are better, nearly all of them; of waits: all that run longer."""
    if kind == "wait":
        ratios = [c.wait if c.wait is not None else 1.0 for c in counted if c.runtime < 1]
    else:
        ratios = [category.slowdown for category in counted]
    if not ratios:
        raise study.Missing(f"no category of {FEW} jobs")
    better = sum(ratio >= 1 for ratio in ratios)
    needed = len(ratios) if kind == "wait" else math.ceil(_NEARLY / 100 * len(ratios))
    return f"{better} of {len(ratios)} categories", study.held(better >= needed)


def _days(days: Sequence[Day]) -> tuple[str, study.Word]:
    """A day counts as kept where its slowdown is not above that of static backfill."""
    if not days:
        raise study.Missing
    kept = sum(day.shared <= day.static for day in days)
    return f"{kept} of {len(days)} days", study.held(100 * kept / len(days) >= _DAYS)


# Gains of jobs and days [section 4.2, figures 4 to 7] ----------------------------------------------------------------
#
# Ratios by size and runtime of the jobs, and slowdowns by day.

LIMIT: Final = "10"
"""What the paper draws beside static backfill."""
SIZES: Final = (1, 2, 8, 32, 128, 512, 1024, math.inf)
"""Upper ends, in nodes [D: the paper names 512 and 1,024]."""
HOURS: Final = (1 / 6, 1, 4, 12, 24, math.inf)
"""Upper ends of runtimes on nodes of their own [D: the paper names 4 h, 12 h and a day]."""
FEW: Final = 20
"""A category of fewer jobs says nothing."""
CORNER: Final = (512, 4.0)
"""The small and short jobs of the paper: nodes, hours."""
_DAY_S: Final = 86_400.0


@dataclass(frozen=True, slots=True)
class Category:
    """Jobs of like size and runtime, and the ratios of their means: static backfill by SD-Policy.

    Attributes:
        size: Index of its upper end in ``SIZES``.
        hours: Index of its upper end in ``HOURS``.
        jobs: How many there are.
        slowdown: Ratio of mean slowdowns; above 1, jobs gain.
        wait: Of mean waits; infinite where no job waits any more, None where none has waited.
        runtime: Of mean runtimes; below 1, they run longer.
    """

    size: int
    hours: int
    jobs: int
    slowdown: float
    wait: float | None
    runtime: float

    @property
    def counts(self) -> bool:
        """Whether there are enough jobs."""
        return self.jobs >= FEW

    @property
    def is_small(self) -> bool:
        """Whether its jobs are those of which the paper says that they gain most."""
        return SIZES[self.size] <= CORNER[0] and HOURS[self.hours] <= CORNER[1]


@dataclass(frozen=True, slots=True)
class Day:
    """A day of submissions: its mean slowdowns, and how many of its jobs were started on nodes of others."""

    number: int
    static: float
    shared: float
    guests: int
    jobs: int


@dataclass(frozen=True, slots=True)
class Gains:
    """Who gains in a workload: its categories, by size and runtime, and its days."""

    trace: Trace
    categories: tuple[Category, ...]
    days: tuple[Day, ...]


def gains(trace: Trace, seed: int) -> Gains:
    """Compare static backfill with SD-Policy, job by job."""
    (static, _), (shared, _) = replayed(trace, STATIC, seed), replayed(trace, LIMIT, seed)
    return Gains(trace, categories(static, shared), days(static, shared))


def categories(static: Jobs, shared: Jobs) -> tuple[Category, ...]:
    """The categories that have jobs."""
    size = np.searchsorted(np.array(SIZES), static.nodes)
    hours = np.searchsorted(np.array(HOURS), static.static_s / 3600)
    found = []
    for row in range(len(SIZES)):
        for column in range(len(HOURS)):
            which = (size == row) & (hours == column)
            if which.any():
                before, after = static.wait_s[which].mean(), shared.wait_s[which].mean()
                wait = None if before == after == 0 else float(before / after) if after else math.inf
                slowdown = float(static.slowdown[which].mean() / shared.slowdown[which].mean())
                runtime = float(static.runtime_s[which].mean() / shared.runtime_s[which].mean())
                found.append(Category(row, column, int(which.sum()), slowdown, wait, runtime))
    return tuple(found)


def days(static: Jobs, shared: Jobs) -> tuple[Day, ...]:
    """The days on which jobs were submitted [D: a job counts on that day]."""
    day = np.floor((static.submit_s - static.submit_s.min()) / _DAY_S)
    found = []
    for number in np.unique(day):
        which = day == number
        before, after = (float(jobs.slowdown[which].mean()) for jobs in (static, shared))
        found.append(Day(int(number), before, after, int(shared.guest[which].sum()), int(which.sum())))
    return tuple(found)


# Tables ---------------------------------------------------------------------------------------------------------------


def _means_table(means: Limits, found: Sequence[Trace]) -> DataTable:
    rows: list[tuple[Value, ...]] = []
    by_name = {trace.name: trace for trace in found}
    for name, policy, _ in means.known():
        trace = by_name[name]
        values: list[Value] = []
        for measure in MEASURES:
            values += [
                means.get(name, policy, measure),
                None if policy == STATIC else means.change(name, policy, measure),
            ]
            if measure != MEASURES[-1]:  # the paper has no energy of simulations
                values.append(CLAIMS["printed"][str(trace.paper)][measure] if policy == STATIC else None)
        rest: list[Value] = [means.get(name, policy, column) for column in COLUMNS[len(MEASURES) :]]
        rows.append((trace.paper, trace.label, policy, *values, *rest, means.seeds(name, policy)))
    measures = ("response s", "slowdown", "makespan s", "energy kWh")
    columns = ["no.", "workload", "limit"]
    for measure in measures:
        columns += [measure, "change %", *(["paper"] if measure != measures[-1] else [])]
    columns += ["wait s", "runtime s", "utilization %", "guests %", "mates %", "jobs", "killed", "seeds"]
    rows.sort(key=lambda row: str(row[0]))
    return DataTable("means", "Means over jobs and seeds, changes against static backfill", columns, rows)


def _maps_table(drawn: Sequence[Gains]) -> DataTable:
    rows = tuple(
        (one.trace.name, SIZES[c.size], HOURS[c.hours], c.jobs, c.slowdown, c.wait, c.runtime)
        for one in drawn
        for c in one.categories
    )
    columns = ("workload", "nodes up to", "hours up to", "jobs", "slowdown", "wait", "runtime")
    return DataTable("map", f"Ratios of static backfill to SD-Policy, limit {LIMIT}", columns, rows)


def _days_table(drawn: Sequence[Gains]) -> DataTable:
    rows = tuple(
        (one.trace.name, day.number + 1, day.static, day.shared, day.guests, day.jobs)
        for one in drawn
        for day in one.days
    )
    columns = ("workload", "day", "slowdown, static", f"slowdown, limit {LIMIT}", "guests", "jobs")
    return DataTable("days", "Mean slowdown by day of submission", columns, rows)


# Figures: limits and models beside static backfill (1 to 3, 8), who gains (4 to 6), days (7) --------------------------

_TITLES: Final = {"slowdown": "mean slowdown", "response_s": "mean response time"}
_SLIGHT: Final = ("makespan_s", "energy_kwh")
"""What changes by so little that the title says all of it."""
_RATIO_TITLES: Final = {"slowdown": "mean slowdown", "wait": "mean wait", "runtime": "mean runtime"}
_FOLD: Final = 3.0
"""Colours end at ratios of two to this power."""
_MAP_NOTE: Final = "ratio, above 1 (blue): better with SD-Policy (none: no job waits); below it the number of jobs"
_SIZE_LABELS: Final = ("1", "2", "3-8", "9-32", "33-128", "129-512", "513-1,024", "> 1,024")
_HOUR_LABELS: Final = ("< 10 min", "< 1 h", "< 4 h", "< 12 h", "< 1 d", "> 1 d")


def printed(means: Limits, trace: Trace, measure: str) -> dict[str, float]:
    """What the paper prints by policy, as a change in percent: of the best limit, where ours is best."""
    found: dict[str, float] = {}
    for claim in CLAIMS["claim"]:
        of = claim["rule"], claim["workload"], claim["measure"]
        if of != ("change", trace.paper, measure) or "policy" not in claim["than"]:
            continue
        policy = means.best(trace.name, measure) if claim["policy"] == "best" else claim["policy"]
        before = means.change(trace.name, claim["than"]["policy"], measure)
        if policy is not None and before is not None:
            found[policy] = 100 * ((1 + before / 100) * (1 + claim["printed"] / 100) - 1)
    return found


def draw_changes(means: Limits, traces: Sequence[Trace], names: Mapping[str, str], what: str) -> Picture:
    """By limit, or by runtime model with the dynamic limit, against static backfill [figures 1 to 3, 8]."""
    rows = []
    for trace in traces:
        theirs = {measure: printed(means, trace, measure) for measure in _TITLES}
        rows.append(BarRow(f"{trace.paper}: {trace.name}"))
        for policy, label in names.items():
            found = {measure: means.change(trace.name, policy, measure) for measure in _TITLES}
            rows.append(BarRow(label, [Entry(found[of], None, theirs[of].get(policy)) for of in _TITLES]))
    draws = ", ".join(f"{means.seeds(trace.name, STATIC)} of {trace.name}" for trace in traces)
    note = (
        f"{what}: changes of means from static backfill to SD-Policy, by workload; left of the line is better. Draws: "
        f"{draws}. Hollow: what the paper prints; of the best of several limits, at our best."
    )
    caption = f"Bars: changes of means against static backfill, below zero is better; draws: {draws}."
    alt = f"{what}: a table of bars by workload: slowdown and response time."
    finding = _finding(means, traces, names)
    return study.draw_bars(list(_TITLES.values()), rows, "{:+.0f} %".format, finding, note, caption, alt)


def _finding(means: Limits, traces: Sequence[Trace], policies: Iterable[str]) -> str:
    """On which workloads all of the policies lower slowdowns, and how far makespan and energy change."""

    def changes(measure: str, trace: Trace) -> list[float]:
        found = (means.change(trace.name, policy, measure) for policy in policies)
        return [change for change in found if change is not None]

    known = [trace for trace in traces if changes("slowdown", trace)]
    lower = [trace for trace in known if max(changes("slowdown", trace)) < 0]
    rest = [change for trace in known for name in _SLIGHT for change in changes(name, trace)]
    where = f"all {len(known)} workloads" if len(lower) == len(known) else f"{len(lower)} of {len(known)} workloads"
    text = f"Sharing nodes shortens slowdowns on {where}"
    higher = [trace.name for trace in known if min(changes("slowdown", trace)) > 0]
    text += f", not on {', '.join(higher)}" if higher else ""
    return f"{text}; makespan and energy change by {max(map(abs, rest)):.0f} % at most" if rest else text


def draw_maps(gains: Gains) -> Picture:
    """Ratios of static backfill to SD-Policy by size and runtime [figures 4 to 6]."""
    figure = sheet(5.2)
    figure.suptitle(
        f"{gains.trace.label}: means of static backfill by those of SD-Policy (limit {LIMIT})", fontweight="bold"
    )
    rows = sorted({category.size for category in gains.categories})
    panels = figure.subplots(1, len(_RATIO_TITLES), sharey=True)
    for axes, (kind, title) in zip(panels, _RATIO_TITLES.items(), strict=True):
        image = np.full((len(rows), len(HOURS)), np.nan)
        for category in gains.categories:
            row, ratio = rows.index(category.size), getattr(category, kind)
            level = 0.0 if ratio is None else _level(ratio)
            image[row, category.hours] = level
            ink = "white" if abs(level) > 0.6 * _FOLD else "#222222"
            text = f"{_ratio(ratio)}\n{category.jobs:,}"
            axes.text(category.hours, row, text, ha="center", va="center", fontsize=7, color=ink)
        axes.imshow(image, cmap="RdBu", norm=TwoSlopeNorm(0.0, -_FOLD, _FOLD), aspect="auto", origin="lower")
        axes.set_xticks(range(len(HOURS)), _HOUR_LABELS, fontsize=8, rotation=30)
        axes.set_yticks(range(len(rows)), [_SIZE_LABELS[size] for size in rows], fontsize=8)
        axes.set_title(title, fontsize=10)
        axes.set_xlabel("runtime on nodes of its own")
    panels[0].set_ylabel("nodes")
    figure.supxlabel(_MAP_NOTE, fontsize=9, color="#555555")
    better = sum(category.slowdown > 1 for category in gains.categories)
    return Picture(
        figure,
        f"One draw. {_MAP_NOTE[0].upper()}{_MAP_NOTE[1:]}.",
        f"{gains.trace.label}: three maps by nodes and runtime: by how much SD-Policy lowers slowdown and wait, and "
        f"lengthens runtimes. Slowdown is better in {better} of {len(gains.categories)} categories.",
    )


def _level(ratio: float) -> float:
    return max(-_FOLD, min(_FOLD, math.log2(ratio))) if ratio > 0 else -_FOLD


def _ratio(ratio: float | None) -> str:
    if ratio is None:
        return "none"
    if ratio == math.inf:
        return "no more"
    return f"{ratio:.2f}" if ratio < 10 else f"{ratio:,.0f}"


def draw_days(gains: Gains) -> Picture:
    """Slowdown by day of submission, and jobs started on nodes of others [figure 7]."""
    figure = sheet(3.8)
    figure.suptitle(f"{gains.trace.label}: slowdown by day of submission", fontweight="bold")
    axes = figure.subplots()
    numbers = [day.number + 1 for day in gains.days]
    axes.bar(numbers, [day.guests for day in gains.days], color="#d5d5d5", label="jobs started on nodes of others")
    axes.set(xlabel="day", ylabel="jobs (bars)", xlim=(min(numbers) - 0.6, max(numbers) + 0.6))
    axes.spines["top"].set_visible(False)
    other = axes.twinx()
    styles = (("static", OKABE_ITO[5], "o"), ("shared", OKABE_ITO[4], "s"))
    for name, color, marker in styles:
        label = "static backfill" if name == "static" else f"SD-Policy, limit {LIMIT}"
        other.plot(numbers, [getattr(day, name) for day in gains.days], color=color, marker=marker, ms=4, label=label)
    other.set(ylabel="mean slowdown (lines)", yscale="log")
    other.spines["top"].set_visible(False)
    axes.set_xticks(numbers if len(numbers) <= 31 else numbers[::7])
    figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    better = sum(day.shared < day.static for day in gains.days)
    return Picture(
        figure,
        "One draw. Lines: mean slowdown of the jobs submitted on a day; bars: how many started on nodes of others.",
        f"{gains.trace.label}: mean slowdown by day under static backfill and SD-Policy, which is better on {better} "
        f"of {len(gains.days)} days.",
    )
