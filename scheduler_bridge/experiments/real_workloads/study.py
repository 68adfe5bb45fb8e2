"""The experiment ``real-workloads``: simulate, compare with what the 2025 paper prints, say where it differs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Final

from scheduler_bridge.experiments import study
from scheduler_bridge.experiments.real_workloads.cells import (
    COLUMNS,
    CORI_FILES,
    OF_RESIZED,
    PUBLISHED,
    RIGID,
    SEEDS,
    SHARES,
    STRATEGIES,
    THETA_FILE,
    Trace,
    cells_of,
    left_out,
    simulated,
    timeline,
    traces,
)
from scheduler_bridge.experiments.study_report import DataTable, Picture, StudyReport, Value, of_rows, there
from scheduler_bridge.experiments.sweep import Scale, Sweeping
from scheduler_bridge.report import words
from scheduler_bridge.report.charts import (
    INK,
    LINE_COLORS,
    MARKERS,
    Curve,
    draw_curves,
    mark_printed,
    name_ends,
    plain,
    say,
    sheet,
)
from scheduler_bridge.report.looks import OKABE_ITO

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CLAIMS: Final = study.claims_file(__package__)
_TWIN: Final = (
    "Eagle is a statistical twin, drawn from what the paper prints of it: synthetic, not the log. How much of the "
    "machine it uses and how long rigid jobs wait was made to be of the printed size."
)
_REAL: Final = {
    "theta": "Theta is the public trace of the same 28 days: it has 1,617 of the paper's 2,550 jobs, mostly the small "
    "ones are missing, and 4,360 of its 4,392 nodes.",
    "haswell": "Cori Haswell is the public log of the same five days, cleaned: 28,243 jobs, the paper has 28,259.",
    "knl": "Cori KNL is the public log of the same five days, cleaned: the paper's 41,524 jobs.",
}
"""By what the paper calls it, what a log is."""
_COUNTED: Final = (
    "What counts: jobs that were submitted after the warm-up and ended before the last submission, and what nodes did "
    "between. So long jobs that run beyond are in no mean, and there are more of them without malleable jobs than with."
)
_MODEL: Final = (
    "Decisions follow events, without the paper's tick of 1 or 10 s. Resizes cost nothing. No job is killed: requested "
    "times count for reservations only, and are scaled where a job has another size than it asked for. Malleable jobs "
    "have the bounds that the paper's authors give to jobs of these logs in a later program (the rule amdahl-logs)."
)
_EASY: Final = (
    "Under easy, malleable jobs are moldable: they start on what is free, up to their maximum. The paper's easy is "
    "that at 0 %."
)
_BASELINES: Final = (
    "Changes are from rigid jobs under easy. Beside them are those from rigid jobs under easy-clock-compat: EASY as "
    "the authors published it later, in which every job that fits overtakes the first blocked one once the clock is "
    "past that job's walltime. The paper's baseline may have been that one."
)
_SPREAD: Final = (
    "Quartiles are over jobs (of utilization: over seeds); expands and shrinks are per malleable job, and beside that "
    "per job that has any."
)


def run(data: Path | None, how: Sweeping) -> StudyReport:
    """Simulate what is not known yet and compare.

    At scale ``small`` there are Theta and short cuts, three shares, one seed; ``full`` is as in the paper.
    """
    shares, seeds, found = SHARES[how.scale], SEEDS[how.scale], traces(how.scale, data)
    rows = how.rows(cells_of(shares, seeds, found), partial(simulated, {trace.name: trace for trace in found}), COLUMNS)
    means = Shares(rows)
    verdicts = judged(means, found)
    figures = {}
    for trace in found:
        workload = trace.make()
        window = trace.warmup_of(workload) + workload.jobs[0].submit_s, workload.jobs[-1].submit_s
        figures[f"{trace.name}-means"] = draw_means(means, trace.name, trace.label, trace.paper)
        figures[f"{trace.name}-resizes"] = draw_resizes(means, trace.name, trace.label, trace.paper)
        figures[f"{trace.name}-time"] = draw_time(timeline(trace), trace.label, window)
    return StudyReport(
        "real-workloads",
        "The 2025 paper: real workloads with malleable jobs",
        f"{study.counted(verdicts)}.",
        _remarks(found, how.scale, judged(means, found, PUBLISHED)),
        (_beside(means, found), study.claims_table(verdicts, _CLAIM_COLUMNS), _workloads(found), _means(means, found)),
        figures,
        passed=study.agree(verdicts),
        provenance=of_rows(rows),
        data=there(data, (THETA_FILE, *CORI_FILES.values())),
    )


def _remarks(found: Sequence[Trace], scale: Scale, published: Sequence[study.ClaimVerdict]) -> tuple[str, ...]:
    from_published = f"From it, {study.counted(published)}."
    remarks = [study.HOW_JUDGED, _TWIN, *(_REAL[paper] for paper in _REAL if any(t.paper == paper for t in found))]
    if (missing := left_out(trace.name for trace in found)) is not None:
        remarks.append(missing)
    remarks += [_COUNTED, _MODEL, _EASY, f"{_BASELINES} {from_published}", _SPREAD]
    if scale == "small":
        shares = ", ".join(map(str, SHARES[scale]))
        remarks.append(
            f"Small scale: {len(SEEDS[scale])} seed instead of 10, {shares} % malleable; all but Theta are cut to "
            "about their first day, with the first tenth as warm-up: their machines are filling up, and few jobs wait."
        )
    return tuple(remarks)


class Shares(study.Means):
    """Means by workload, policy and share of malleable jobs."""

    def shares(self, trace: str) -> list[int]:
        """The shares of malleable jobs in percent, without 0."""
        return sorted({share for name, _, share in self.known() if name == trace and share})

    def rigid(self, trace: str, measure: str, easy: str = RIGID) -> float | None:
        """The mean without malleable jobs, under the correct EASY or the published one."""
        return self.get(trace, easy, measure, 0)

    def choose(self, trace: str, policy: str, share: int | str, measure: str) -> tuple[str, int, float] | None:
        """A mean, and which one it is: also of the ``best`` or ``worst`` of the strategies, or shares (``any``)."""
        names = STRATEGIES if policy in ("best", "worst") else (policy,)
        shares = self.shares(trace) if share == "any" else [int(share)]
        found = [
            (name, percent, value)
            for percent in shares
            for name in names
            if (value := self.get(trace, name, measure, percent)) is not None
        ]
        sign = -1 if (measure == "utilization") != (policy == "worst") else 1
        return min(found, key=lambda one: sign * one[2], default=None)


# Claims ---------------------------------------------------------------------------------------------------------------

_THETA_AXIS_S: Final = 4500
_OF_RESIZED: Final = "the paper does not say over which jobs it counts; over those alone that have any"
_CLAIM_COLUMNS: Final = (
    "claim", "where", "workload", "printed", "found", "from the published EASY", "verdict",
    "what is known of the reason",
)  # fmt: skip


def judged(means: Shares, traces: Sequence[Trace], easy: str = RIGID) -> list[study.ClaimVerdict]:
    """Judge all claims on all workloads that stand for the paper's; two forms of a workload count once.

    ``easy``: the policy of the rigid jobs that changes are from.
    """
    forms: dict[str, list[list[study.ClaimVerdict]]] = {}
    for trace in traces:
        forms.setdefault(trace.paper, []).append(_judged_on(trace, means, easy))
    return [study.together(each) for of_one in forms.values() for each in zip(*of_one, strict=True)]


def _judged_on(trace: Trace, means: Shares, easy: str) -> list[study.ClaimVerdict]:
    by, published = (_judge(trace, means, each) for each in (easy, PUBLISHED))
    return by.verdicts(
        [claim for claim in CLAIMS["claim"] if claim["workload"] == trace.paper],
        partial(_reason, trace=trace, means=means),
        where=lambda claim: (claim["where"], trace.label),
        beside=lambda claim: (published.judged(claim).found if _from_rigid(claim) else None,),
    )


def _from_rigid(claim: study.Claim) -> bool:
    """Whether a claim is about changes from rigid jobs."""
    return claim["rule"] in ("change", "only", "slightly", "early") and claim["than"] == {"policy": "rigid"}


def _is_printed(claim: study.Claim) -> bool:
    """Whether it follows from a claim what the paper prints of a mean: a change from rigid jobs."""
    return claim["rule"] == "change" and _from_rigid(claim)


def _judge(trace: Trace, means: Shares, easy: str) -> study.Judge:
    """Judges the claims on a workload, with changes from rigid jobs under one of both EASYs."""

    def chosen(claim: study.Claim, measure: str) -> tuple[str, int, float] | None:
        policy, share = (easy, 0) if claim["policy"] == "rigid" else (claim["policy"], claim["share"])
        return means.choose(claim["workload"], policy, share, measure)

    def find(claim: study.Claim) -> float | None:
        """A mean, or a sum of means."""
        found = [chosen(claim, measure) for measure in claim["measure"].split(" + ")]
        known = [one[2] for one in found if one is not None]
        return sum(known) if len(known) == len(found) else None

    def note(claim: study.Claim) -> str:
        of = None if isinstance(claim["share"], list) else chosen({**claim, "workload": trace.name}, claim["measure"])
        return "" if of is None else f" ({of[0]}, {of[1]} %)"

    names, shares = {trace.paper: trace.name}, means.shares(trace.name)
    return study.Judge(find, study.RULES | _RULES, names, shares, note)


def _limit(by: study.Judge, claim: study.Claim) -> tuple[str, study.Word]:
    """The mean stays below it at all shares."""
    rigid, most = by.base(claim), max(by.means(claim))
    if rigid < claim["below"]:
        raise study.Missing(f"rigid jobs wait {rigid:.1f} s")
    return f"{most:.1f} s", study.held(most < claim["below"])


def _only(by: study.Judge, claim: study.Claim) -> tuple[str, study.Word]:
    """One strategy lowers a mean, and none of the others does."""
    changes = {name: by.change({**claim, "policy": name}) for name in claim["among"]}
    lower = [name for name, value in changes.items() if value < 0]
    found = ", ".join(f"{name} {value:+.1f} %" for name, value in changes.items())
    return found, study.held(lower == [claim["policy"]])


def _slightly(by: study.Judge, claim: study.Claim) -> tuple[str, study.Word]:
    """A mean rises at all shares, and by no more than the tolerance."""
    changes = [by.change(one) for one in by.each(claim)]
    found = ", ".join(f"{value:+.1f} %" for value in changes)
    return found, study.held(all(0 < value <= study.TOLERANCE for value in changes))


def _early(by: study.Judge, claim: study.Claim) -> tuple[str, study.Word]:
    """The best strategy gains at one share more than half of what it gains at most."""
    then, most = by.change(claim), by.change({**claim, "share": "any"})
    if most >= 0:
        raise study.Missing
    part = 100 * then / most
    return f"{part:.0f} % ({then:+.1f} of {most:+.1f} %)", study.held(part > 50)


def _fewest(by: study.Judge, claim: study.Claim) -> tuple[str, study.Word]:
    """A strategy is first at every share."""
    each = {one["share"]: by.judged({**one, "rule": "first"}) for one in by.each(claim)}
    known = {share: one for share, one in each.items() if one.word != "not judged"}
    if not known:
        raise study.Missing
    held = sum(one.word == "held" for one in known.values())
    share, first = next(iter(known.items()))
    return f"at {held} of {len(known)} shares; at {share} %: {first.found}", study.held(held == len(known))


def _twice(by: study.Judge, claim: study.Claim) -> tuple[str, study.Word]:
    """Each of some strategies has more than twice as many as each of the others."""
    counts = {name: by.mean({**claim, "policy": name}) for name in claim["among"]}
    often = study.several(claim["policy"])
    more = min(counts[name] for name in often)
    less = max(value for name, value in counts.items() if name not in often)
    return ", ".join(f"{name} {value:.1f}" for name, value in counts.items()), study.held(more > 2 * less)


_RULES: Final[dict[str, study.Rule]] = {
    "limit": (lambda claim: f"< {claim['below']:g} s", _limit),
    "only": (lambda claim: claim["policy"], _only),
    "slightly": (lambda _: f"0 to {study.TOLERANCE:+g} %", _slightly),
    "early": (lambda _: "> 50 % of it", _early),
    "fewest": (lambda claim: claim["policy"], _fewest),
    "twice": (lambda _: "> 2 times", _twice),
}


def _reason(claim: study.Claim, trace: Trace, means: Shares) -> str:
    """What is known: that the workload is another one, and how far off it is before anything is malleable."""
    far = study.far_off(CLAIMS["rigid"][trace.paper], lambda name: means.rigid(trace.name, name), "rigid")
    if trace.paper == "theta":
        far += _theta(trace, means)
    if trace.warmup_s is None:
        far.append("a short cut, on which the machine is filling up")
    by, resized = _judge(trace, means, RIGID), []
    policies = claim["policy"] if isinstance(claim["policy"], list) else STRATEGIES
    for kind, of in OF_RESIZED.items():
        for name in policies if kind in claim["measure"] else ():
            with suppress(study.Missing):
                count = by.mean({**claim, "policy": name, "measure": of})
                resized.append(f"{name} {count:.1f} {kind}")
    return "; ".join([*far, *([f"{_OF_RESIZED}: {', '.join(resized)}"] if resized else [])]) or "not known"


def _theta(trace: Trace, means: Shares) -> list[str]:
    """The paper prints no rigid means of Theta; the axis of its figure bounds the wait."""
    jobs = "933 of the paper's 2,550 jobs are not in the public trace"
    found = [jobs if trace.name == "theta" else f"{jobs}, those in their place are drawn"]
    if (wait_s := means.rigid(trace.name, "wait_s") or 0.0) > _THETA_AXIS_S:
        found.append(f"rigid jobs wait {wait_s:,.0f} s, the axis of Fig. 9i ends at {_THETA_AXIS_S:,} s")
    return found


# Tables ---------------------------------------------------------------------------------------------------------------

_MEASURES: Final = {
    "turnaround_s": "turnaround, s",
    "runtime_s": "runtime, s",
    "wait_s": "wait, s",
    "utilization": "utilization, %",
}


_BEST_PRINTED: Final[dict[tuple[str, str], float]] = {
    (claim["workload"], claim["measure"]): claim["printed"]
    for claim in CLAIMS["claim"]
    if _is_printed(claim) and claim["policy"] == "best"
}
"""What the paper prints of the best strategy, by workload and mean."""


def _beside(means: Shares, found: Sequence[Trace]) -> DataTable:
    """Rigid and best means beside the printed ones."""
    rows: list[tuple[Value, ...]] = []
    for trace in found:
        for measure, title in _MEASURES.items():
            rigid = means.rigid(trace.name, measure)
            best = means.choose(trace.name, "best", "any", measure)
            at = best or (None, None, None)
            theirs = CLAIMS["rigid"][trace.paper].get(measure)
            as_published = means.rigid(trace.name, measure, PUBLISHED)
            gained = study.change(rigid, at[2]), study.change(as_published, at[2])
            row = trace.label, title, rigid, as_published, theirs, *at, *gained
            rows.append((*row, _BEST_PRINTED.get((trace.paper, measure))))
    columns = (
        "workload", "mean", "rigid", "published EASY", "paper", "best", "at %", "is", "change %",
        "from the published %", "paper's %",
    )  # fmt: skip
    return DataTable("beside-the-paper", "The best strategy, beside what the paper prints", columns, rows)


def _workloads(found: Sequence[Trace]) -> DataTable:
    rows: list[tuple[Value, ...]] = []
    for trace in found:
        workload = trace.make()
        span_s = workload.jobs[-1].submit_s - workload.jobs[0].submit_s
        whole_hours = trace.warmup_of(workload) / 3600
        rate = len(workload) / span_s * 3600 if span_s else None
        rows.append((trace.label, len(workload), workload.nodes, span_s / 86_400, rate, whole_hours, workload.source))
    columns = ("workload", "jobs", "nodes", "days", "jobs/hour", "warm-up, h", "source")
    return DataTable("workloads", "What was simulated", columns, rows)


def _means(means: Shares, found: Sequence[Trace]) -> DataTable:
    labels = {trace.name: trace.label for trace in found}
    rows: list[tuple[Value, ...]] = []
    for trace, policy, share in sorted(means.known(), key=lambda key: (list(labels).index(key[0]), key[2], key[1])):
        values = (means.get(trace, policy, column, share) for column in COLUMNS)
        rows.append((labels[trace], policy, share, means.seeds(trace, policy, share), *values))
    title = "Means over seeds, with quartiles over jobs"
    return DataTable("means", title, ("workload", "policy", "malleable %", "seeds", *COLUMNS), rows)


# Figures: means by share of malleable jobs (6 to 9), and the machine over time (2 and 4) ------------------------------

_MEANS: Final = ("turnaround_s", "wait_s", "runtime_s", "utilization")
_RESIZES: Final = {"expands": "expands per malleable job", "shrinks": "shrinks per malleable job"}
_POLICIES: Final = (RIGID, *STRATEGIES)
_NAMES: Final = {name: "easy, moldable" if name == RIGID else name for name in _POLICIES}
_STYLES: Final = dict(zip(_POLICIES, zip((INK, *LINE_COLORS), MARKERS, strict=False), strict=False))


def draw_means(means: Shares, trace: str, label: str, paper: str) -> Picture:
    """Four panels: means over jobs and seeds by share of malleable jobs; diamonds are what ``paper`` has."""
    best, finding = means.choose(trace, "best", "any", "turnaround_s"), f"{label}: means by share of malleable jobs"
    if best is not None:
        gains = {
            f"from {easy}": study.change(means.rigid(trace, "turnaround_s", easy), best[2])
            for easy in (RIGID, PUBLISHED)
        } | {"paper": _BEST_PRINTED.get((paper, "turnaround_s"))}
        listed = ", ".join(f"{whose} {value:+.0f} %" for whose, value in gains.items() if value is not None)
        finding = f"{label}: turnaround by {best[0]} with {best[1]} % malleable jobs: {listed}"
    return _panels(means, trace, paper, {name: _MEASURES[name] for name in _MEANS}, finding)


def draw_resizes(means: Shares, trace: str, label: str, paper: str) -> Picture:
    """Two panels: expands and shrinks per malleable job by share of malleable jobs."""
    counts = {
        policy: sum(
            (means.get(trace, policy, "expands", share) or 0.0) + (means.get(trace, policy, "shrinks", share) or 0.0)
            for share in means.shares(trace)
        )
        for policy in STRATEGIES
    }
    most = max(counts, key=lambda policy: counts[policy])
    return _panels(means, trace, paper, _RESIZES, f"{label}: {most} resizes jobs most often")


def _panels(means: Shares, trace: str, paper: str, measures: Mapping[str, str], finding: str) -> Picture:
    figure = sheet(3.6 * (len(measures) // 2) + 0.8)
    shares = means.shares(trace)
    named: dict[Axes, list[Curve]] = {}
    any_printed, crosses = False, ""
    for axes, (measure, title) in zip(figure.subplots(len(measures) // 2, 2).flat, measures.items(), strict=True):
        named[axes] = _curves(means, trace, measure)
        draw_curves(axes, named[axes])
        for (policy, share), value in printed(means, trace, paper, measure).items():
            whose = f", {policy}" if share else ""
            mark_printed(axes, share, value, f"paper{whose}: {value:,.0f}")
            axes.set_ylim(top=max(axes.get_ylim()[1], 1.08 * value))
            any_printed = True
        if (as_published := means.rigid(trace, measure, PUBLISHED)) is not None and measure not in _RESIZES:
            axes.plot(0, as_published, "x", color=INK, markersize=9, zorder=4)
            crosses = f" Crosses: rigid jobs under {PUBLISHED}."
        axes.set_xticks([0, *shares])
        axes.set(xlabel="malleable jobs, %", ylabel=title)
    name_ends(figure, named)
    seeds = words.plural(means.most_seeds(trace), "seed")
    note = f"Means over jobs and {seeds}; easy starts malleable jobs on what is free.{crosses}"
    if any_printed:
        note += (
            " Diamonds: what the paper prints; changes from the rigid mean that is printed or else ours, "
            "the best of several at our best."
        )
    say(figure, finding, note)
    return Picture(
        figure,
        f"Means over jobs; seeds: {means.most_seeds(trace)}.",
        f"{finding}. Charts over the share of malleable jobs, by policy: {', '.join(measures.values())}.",
    )


def _curves(means: Shares, trace: str, measure: str) -> list[Curve]:
    """A line a policy; all begin at the mean of rigid jobs."""
    rigid = means.rigid(trace, measure) if measure not in _RESIZES else None
    found = []
    for policy in _POLICIES:
        if measure in _RESIZES and policy == RIGID:
            continue  # it never resizes
        points = [(0.0, rigid)] if rigid is not None else []
        points += [
            (share, value)
            for share in means.shares(trace)
            if (value := means.get(trace, policy, measure, share)) is not None
        ]
        color, marker = _STYLES[policy]
        found.append(Curve(_NAMES[policy], points, color, marker, hollow=policy == RIGID))
    return found


def printed(means: Shares, trace: str, paper: str, measure: str) -> dict[tuple[str, int], float]:
    """What the paper prints of a mean, by policy and share: what it says of the best of several, where ours is best."""
    known: float | None = CLAIMS["rigid"][paper].get(measure)
    rigid = means.rigid(trace, measure) if known is None else known
    found = {} if known is None else {(RIGID, 0): known}
    for claim in CLAIMS["claim"]:
        of = claim["workload"], claim["measure"]
        if rigid is not None and of == (paper, measure) and _is_printed(claim):
            best = means.choose(trace, claim["policy"], claim["share"], measure)
            if best is not None:
                found[best[0], best[1]] = rigid * (1 + claim["printed"] / 100)
    return found


def draw_time(points: Sequence[tuple[float, float, float]], label: str, window_s: tuple[float, float]) -> Picture:
    """Utilization and queue over time, all jobs rigid, under EASY; red lines are the ends of what counts."""
    figure = sheet(3.6)
    figure.suptitle(f"{label}: all jobs rigid, EASY", fontweight="bold")
    axes = figure.subplots()
    hours, used, queue = ([point[0] / 3600 for point in points], [p[1] for p in points], [p[2] for p in points])
    axes.plot(hours, used, color=OKABE_ITO[4], lw=1.0)
    axes.set(
        xlabel="hours since the first submission", ylabel="utilization, % (line)", ylim=(0, 105), xlim=(0, hours[-1])
    )
    for moment_s in window_s:
        axes.axvline(moment_s / 3600, color="#cc0000", lw=1.2)
    figure.text(0.995, 0.985, "between the red lines: what counts", ha="right", va="top", color="#cc0000", fontsize=9)
    plain(axes, grid="y")
    other = axes.twinx()
    other.fill_between(hours, queue, color=OKABE_ITO[2], alpha=0.45, lw=0, step="post")
    other.set(ylabel="jobs in the queue (area)", ylim=(0, max(1.0, 1.05 * max(queue))))
    other.spines["top"].set_visible(False)
    return Picture(
        figure,
        "One simulation: line, utilization; area, jobs in the queue; what lies between the red lines counts.",
        f"{label}, all jobs rigid, under EASY: utilization and the queue over time. On average {fmean(used):.0f} % of "
        f"the nodes are busy, at most {max(queue):,.0f} jobs wait.",
    )
