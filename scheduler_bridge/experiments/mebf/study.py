"""The experiment ``mebf``: simulate, compare with what the MEBF paper prints."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeAlias

from scheduler_bridge.experiments import study
from scheduler_bridge.experiments.mebf.cells import (
    COLUMNS,
    COMMON,
    EBF,
    EXPANDS,
    GROUPS,
    HOURS,
    SCALABILITIES,
    SEEDS,
    SIZES,
    STEP_H,
    cells,
    column,
    simulated,
    variant,
)
from scheduler_bridge.experiments.study_report import DataTable, Picture, StudyReport, Value, of_rows
from scheduler_bridge.experiments.sweep import Sweeping
from scheduler_bridge.report.charts import (
    INK,
    LINE_COLORS,
    MARKERS,
    BarRow,
    Curve,
    Entry,
    draw_curves,
    name_ends,
    say,
    sheet,
)

CLAIMS: Final = study.claims_file(__package__)
EVENTS: Final = ("shrinks", "expands", "backfills")
"""The events that Table 5 divides."""
EXPAND_SIZES: Final = {f"expands_{low}_to_{high}": str(low) if low == high else f"{low}-{high}" for low, high in GROUPS}
"""The expands that figure 6 divides, and the sizes of their jobs."""
OVER_TIME: Final = variant("1k", "intensive", "high")
"""The workload of figure 11."""
_REMARKS: Final = (
    f"{study.HOW_JUDGED} A utilization is held up to {study.LEVEL:g} points away.",
    (
        "The workload is a statistical twin of KIT's, synthetic: 500 nodes and the numbers of jobs are the paper's, "
        "sizes, runtimes and arrivals ours. So the gains are of this workload, not of the log."
    ),
    "EBF is EASY with rigid jobs. Slowdown is mean turnaround by the mean runtime without resizes, as in the paper.",
    (
        "A resize costs 10 s x ((alpha + b) x change + beta / (before + after)), alpha and beta drawn for each job "
        "from the paper's interval, and known to the scheduler, b its middle; half overhead is half of that. The "
        "paper's scale in seconds is not printed."
    ),
    "No job is killed; requested times are scaled where a job has another size than it asked for.",
    "shrink+ and expand+ are with handoff; the paper does not name the policy below them.",
)
_TWIN: Final = "not known; the workload is a twin of which only numbers of jobs and nodes are the paper's"


def run(_data: Path | None, how: Sweeping) -> StudyReport:
    """Simulate what is not known yet and compare: one twin at scale ``small``, ten at ``full``."""
    seeds = SEEDS[how.scale]
    rows = how.rows(cells(seeds), simulated, COLUMNS)
    means = Twins(rows)
    verdicts = judged(means)
    return StudyReport(
        "mebf",
        "The MEBF paper: resizing by scalability",
        f"Twins: {len(seeds)}. {study.counted(verdicts)}.",
        _REMARKS,
        (study.claims_table(verdicts), *_tables(means)),
        {name: draw(means) for name, draw in DRAWN.items()},
        passed=study.agree(verdicts),
        provenance=of_rows(rows),
    )


class Twins(study.Means):
    """Means over twins; those of EASY, whose jobs are rigid, are those of a variant's size and load."""

    def get(self, trace: str, policy: str, measure: str = "turnaround_s", share: int | None = 100) -> float | None:
        """The mean."""
        if policy == EBF:
            trace, share = " ".join(trace.split()[:2]), 0
        return super().get(trace, policy, measure, share)

    def gain(self, trace: str, policy: str, measure: str = "turnaround_s", share: int = 100) -> float | None:
        """The change against EASY in percent."""
        return study.change(self.get(trace, EBF, measure), self.get(trace, policy, measure, share))

    def parts(self, trace: str, policy: str, names: Iterable[str], share: int = 100) -> dict[str, float | None]:
        """How numbers of events divide, in percent; None: there are no events."""
        counts = {name: self.get(trace, policy, name, share) or 0.0 for name in names}
        total = sum(counts.values())
        return {name: 100 * count / total if total else None for name, count in counts.items()}

    def find(self, claim: study.Claim) -> float | None:
        """What a claim is about: a mean, that of the utilization in some ``hours``, or a ``part`` of events, in %."""
        of = claim["workload"], claim["policy"]
        if "hours" in claim:
            hours = (hour for hour in HOURS if claim["hours"][0] <= hour < claim["hours"][1])
            known = study.known_of(self.get(*of, column(hour), claim["share"]) for hour in hours)
            return statistics.fmean(known) if known else None
        if "part" in claim:
            names = claim["part"].split(" + ")
            parts = self.parts(*of, EVENTS if set(names) <= set(EVENTS) else EXPAND_SIZES, claim["share"])
            known = study.known_of(parts[name] for name in names)
            return sum(known) if known else None
        return self.get(*of, claim["measure"], claim["share"])


# Claims --------------------------------------------------------------------------------------------------------------

PRINTED: Final[Mapping[tuple[str, str, int, str], float]] = {
    (claim["workload"], claim["policy"], claim["share"], claim["measure"]): claim["printed"]
    for claim in CLAIMS["claim"]
    if claim["rule"] == "change"
}
"""The printed changes by workload, policy, share and measure."""


def judged(means: Twins) -> list[study.ClaimVerdict]:
    """Judge all claims."""
    by = study.Judge(
        means.find, in_percent=lambda claim: "hours" in claim or "part" in claim or claim["measure"] == "utilization"
    )
    return by.verdicts(CLAIMS["claim"], lambda _: _TWIN)


# Tables --------------------------------------------------------------------------------------------------------------

_PLACES: Final = (
    ("Figures 7, 8, 9, 12, 16", "turnaround", "mean turnaround by load, scalability, overhead, share, wrong model"),
    ("Figures 13, 14, 15", "slowdown", "slowdown by scalability, with shrink+ and expand+"),
    ("Figure 10", "utilization", "utilization by scalability"),
    ("Figure 11", "over-time", "utilization over time"),
    ("Figure 6", "events", "expands by the size of the jobs"),
    ("Table 5", "events", "how events divide"),
    ("Tables 6, 7", "slowdowns", "change of the slowdown by scalability, share and policy"),
)
_OF: Final = ("workload (synthetic)", "policy", "malleable %")


def _tables(means: Twins) -> Iterator[DataTable]:
    """All means, slowdowns (Tables 6 and 7), events (Table 5, figure 6), utilization over time (figure 11)."""
    every: list[tuple[Value, ...]] = []
    divided: list[tuple[Value, ...]] = []
    for key in means.known():
        trace, policy, share = key
        values = [means.get(trace, policy, measure, share) for measure in COMMON]
        gains = [means.gain(trace, policy, measure, share) for measure in ("turnaround_s", "slowdown")]
        every.append((*key, *values, *gains))
        kinds, sizes = (means.parts(trace, policy, names, share).values() for names in (EVENTS, EXPAND_SIZES))
        divided.append((*key, *kinds, *sizes))
    yield DataTable(
        "means",
        "Means over twins (synthetic), and the change against EASY with rigid jobs",
        (*_OF, *COMMON, "turnaround, change %", "slowdown, change %"),
        every,
    )
    cases = [(size, scalability, 100) for size in SIZES for scalability in SCALABILITIES]
    cases += [("1k", scalability, share) for share in (60, 80) for scalability in SCALABILITIES]
    slowdowns: list[tuple[Value, ...]] = []
    for size, scalability, share in cases:
        trace = variant(size, "intensive", scalability)
        for policy in EXPANDS:
            found = means.gain(trace, policy, "slowdown", share)
            slowdowns.append((size, scalability, share, policy, PRINTED.get((trace, policy, share, "slowdown")), found))
    yield DataTable(
        "slowdowns",
        "Change of the slowdown against EASY with rigid jobs, in percent, intensive load (twins, synthetic)",
        ("jobs", "scalability", "malleable %", "policy", "printed %", "found %"),
        slowdowns,
    )
    groups = (f"expands of {size} nodes %" for size in EXPAND_SIZES.values())
    yield DataTable(
        "events",
        "Events, and expands by the size of the jobs, in percent (twins, synthetic)",
        (*_OF, *(f"{kind} %" for kind in EVENTS), *groups),
        divided,
    )
    policies = (EBF, *EXPANDS)
    yield DataTable(
        "over-time",
        "Utilization over time, in percent of all nodes: 1,000 jobs, intensive, high (twins, synthetic)",
        ("hours", *policies),
        [
            (f"{hour}-{hour + STEP_H}", *(means.get(OVER_TIME, policy, column(hour)) for policy in policies))
            for hour in HOURS
        ],
    )
    yield DataTable("places", "Where the paper's figures and tables are", ("paper", "here", "what"), _PLACES)


# Figures -------------------------------------------------------------------------------------------------------------

_POLICIES: Final = (EBF, *EXPANDS, "shrink+", "expand+")
_LABELS: Final = {EBF: "easy, rigid", "shrink+": "handoff, shrink+", "expand+": "handoff, expand+"}
_NAMES: Final = {name: _LABELS.get(name, name) for name in _POLICIES}
_MS: Final = "1k intensive medium full"
_JOBS: Final = {"1k": "1,000 jobs", "5k": "5,000 jobs"}
_Group: TypeAlias = tuple[str, str, int]
"""A label, a variant, a share of malleable jobs in percent."""
_HOURS: Final = 12
"""Of the beginning, in which the machine fills."""


def draw_turnarounds(means: Twins) -> Picture:
    """By how much the policies turn jobs around faster than EASY, workload by workload [figures 7 to 9, 12, 16]."""
    blocks: dict[str, list[_Group]] = {
        f"{title}, all malleable": [("normal load, low scalability", f"{size} normal low full", 100), *_intensive(size)]
        for size, title in _JOBS.items()
    }
    blocks["1,000 jobs, intensive, medium: fewer malleable jobs"] = [
        (f"{share} % malleable", _MS, share) for share in (80, 60, 40)
    ]
    blocks["The same, where jobs scale worse than believed"] = [("100 % malleable", f"{_MS} error", 100)]
    blocks["5,000 jobs, intensive, high: resizes"] = [
        (f"at {name} cost", f"5k intensive high {name}", 100) for name in ("full", "half")
    ]
    policies = [policy for policy in _POLICIES if policy != EBF]
    rows = []
    for heading, groups in blocks.items():
        rows.append(BarRow(heading))
        for label, trace, share in groups:
            entries = [
                Entry(means.gain(trace, name, share=share), None, PRINTED.get((trace, name, share, "turnaround_s")))
                for name in policies
            ]
            rows.append(BarRow(label, entries))
    gains = [entry.value for row in rows for entry in row.entries if entry.value is not None]
    better = sum(gain < 0 for gain in gains)
    finding = f"Resizing turns jobs around faster than EASY in {_of(better, len(gains))} cases"
    if better == len(gains) and gains:
        finding += f", by {-max(gains):.0f} to {-min(gains):.0f} %"
    alt = "A table of bars by workload and policy: the change of mean turnaround against EASY with rigid jobs."
    return _table(
        means, rows, policies, "{:+.0f} %".format, finding, "Change of mean turnaround against EASY, rigid jobs", alt
    )


def _of(count: int, total: int) -> str:
    return f"all {total}" if count == total else f"{count} of {total}"


def _values(means: Twins, measure: str, *, normal: str = "") -> list[BarRow]:
    """A mean by size, scalability and policy, under intensive load, and of one workload under normal load."""
    rows = []
    for size, title in _JOBS.items():
        groups = _intensive(size)
        if normal:
            groups.append((f"normal load, {normal} scalability", f"{size} normal {normal} full", 100))
        rows.append(BarRow(title))
        rows += [
            BarRow(label, [Entry(means.get(variant, policy, measure)) for policy in _POLICIES])
            for label, variant, _ in groups
        ]
    return rows


def draw_slowdowns(means: Twins) -> Picture:
    """Slowdown by size and scalability, with shrink+ and expand+ [figures 13 to 15]."""
    rows = _values(means, "slowdown", normal="medium")
    finding = _lower_or_higher(rows, "Slowdown is lower than under EASY", lower=True)
    alt = "A table of bars: slowdown by number of jobs, scalability and policy."
    what = "Slowdown: mean turnaround by mean runtime without resizes"
    return _table(means, rows, _POLICIES, "{:.2f}".format, finding, what, alt)


def draw_utilizations(means: Twins) -> Picture:
    """Utilization by size and scalability [figure 10]."""
    rows = _values(means, "utilization")
    finding = _lower_or_higher(rows, "More of the machine is used than under EASY", lower=False)
    alt = "A table of bars: utilization by number of jobs, scalability and policy."
    return _table(means, rows, _POLICIES, "{:.1f} %".format, finding, "Utilization, of all nodes", alt)


def _lower_or_higher(rows: Sequence[BarRow], what: str, *, lower: bool) -> str:
    pairs = [
        (row.entries[0].value, entry.value)
        for row in rows
        for entry in row.entries[1:]
        if entry.value is not None and row.entries[0].value is not None
    ]
    return f"{what} in {_of(sum((after < easy) is lower for easy, after in pairs), len(pairs))} cases"


def draw_events(means: Twins) -> Picture:
    """How events divide into kinds [Table 5], and expands by the size of the jobs [figure 6], in 1,000 jobs."""
    rows = []
    titles = ("of all events", "of the expands, by the nodes that the job asked for")
    most = {}
    for names, title in zip(({kind: kind for kind in EVENTS}, EXPAND_SIZES), titles, strict=True):
        by_policy = {policy: means.parts(_MS, policy, names) for policy in EXPANDS}
        rows.append(BarRow(title))
        rows += [BarRow(label, [Entry(found[name]) for found in by_policy.values()]) for name, label in names.items()]
        if names.keys() == set(EVENTS):
            known = {policy: found for policy, found in by_policy.items() if study.known_of(found.values())}
            most = {policy: max(EVENTS, key=lambda kind: found[kind] or 0.0) for policy, found in known.items()}
    finding = "Most events are " + ", ".join(
        f"{kind} under {', '.join(policy for policy in most if most[policy] == kind)}"
        for kind in dict.fromkeys(most.values())
    )
    alt = "A table of bars: how events divide into shrinks, expands and backfills, and expands by the size of jobs."
    return _table(means, rows, EXPANDS, "{:.0f} %".format, finding, "1,000 jobs, intensive, medium: shares", alt)


def draw_over_time(means: Twins) -> Picture:
    """Utilization by hours, a line for each policy [figure 11]."""
    figure = sheet(4.6)
    axes = figure.subplots()
    middles = [hour + STEP_H / 2 for hour in HOURS]
    known: dict[str, list[float]] = {}
    for policy in (EBF, *EXPANDS):
        if values := study.known_of(means.get(OVER_TIME, policy, column(hour)) for hour in HOURS):
            known[policy] = values
    styles = dict(zip((EBF, *EXPANDS), zip((INK, *LINE_COLORS), MARKERS, strict=False), strict=False))
    curves = [
        Curve(_NAMES[policy], list(zip(middles, values, strict=True)), *styles[policy], hollow=policy == EBF)
        for policy, values in known.items()
    ]
    draw_curves(axes, curves)
    axes.set(xlabel="hours since the beginning", ylabel="nodes in use, %", ylim=(0, 106), xlim=(0, middles[-1]))
    axes.set_xticks(range(0, HOURS[-1], 12))
    name_ends(figure, {axes: curves})
    finding = "Utilization over time"
    if EBF in known and (ours := [values for policy, values in known.items() if policy != EBF]):
        leads = [min(each) - easy for hour, easy, *each in zip(HOURS, known[EBF], *ours, strict=True) if hour < _HOURS]
        finding = f"While the machine fills, resizing policies use {max(leads):.0f} points more of it than EASY"
    note = f"means over {STEP_H} hours and {means.most_seeds()} twins of KIT's workload, synthetic."
    say(figure, finding, f"1,000 jobs of high scalability, intensive load; {note}")
    return Picture(
        figure,
        f"Points: means over {STEP_H} hours and {means.most_seeds()} twins.",
        f"{finding}. Four lines: utilization over time under EASY with rigid jobs, handoff, spare and intensive.",
    )


DRAWN: Final[dict[str, Callable[[Twins], Picture]]] = {
    "turnaround": draw_turnarounds,
    "slowdown": draw_slowdowns,
    "utilization": draw_utilizations,
    "over-time": draw_over_time,
    "events": draw_events,
}
"""All figures, by name."""


def _intensive(size: str) -> list[_Group]:
    return [(f"intensive load, {name} scalability", f"{size} intensive {name} full", 100) for name in SCALABILITIES]


def _table(
    means: Twins, rows: Sequence[BarRow], policies: Sequence[str], form: Callable[[float], str], finding: str,
    what: str, alt: str,
) -> Picture:  # fmt: skip
    hollow = " Hollow: what the paper prints." if any(e.printed is not None for r in rows for e in r.entries) else ""
    twins = f"{means.most_seeds()} twins"
    note = f"{what}. Twins of KIT's workload, synthetic; means over {twins}.{hollow}"
    caption = f"Bars: means over jobs and {twins}.{hollow}"
    return study.draw_bars([_NAMES[policy] for policy in policies], rows, form, finding, note, caption, alt)
