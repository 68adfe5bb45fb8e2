"""The experiment ``real-workloads``: simulate, compare with what the 2025 paper prints, say where it differs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Final

from scheduler_bridge.experiments import study
from scheduler_bridge.experiments.real_workloads.cells import (
    COLUMNS,
    CORI_FILES,
    GRIDS,
    OF_RESIZED,
    PUBLISHED,
    RIGID,
    STRATEGIES,
    THETA_FILE,
    Grid,
    Trace,
    cells_of,
    left_out,
    simulated,
    timeline,
    traces,
)
from scheduler_bridge.experiments.study_report import DataTable, Picture, StudyReport, Value, of_rows, there
from scheduler_bridge.experiments.sweep import Scale, Sweeping, on_trace
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

NAME: Final = "real-workloads"
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

    Args:
        data: The folder with the logs; those that are not there are left out.
        how: How the sweep is run; at scale ``small`` there are Theta and short cuts, three shares, one seed; ``full``
            is as in the paper.

    Raises:
        SweepFileError: The folder holds rows of another kind.
        TraceError: The trace cannot be read.
        OSError: The same, or the folder cannot be written.
    """
    grid, found = GRIDS[how.scale], traces(how.scale, data)
    rows = how.rows(cells_of(grid, found), partial(on_trace, found, simulated), COLUMNS)
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
        NAME,
        "The 2025 paper: real workloads with malleable jobs",
        f"{study.counted(verdict.word for verdict in verdicts)}.",
        _remarks(found, how.scale, grid, judged(means, found, PUBLISHED)),
        (_beside(means, found), study.claims_table(verdicts, _CLAIM_COLUMNS), _workloads(found), _means(means, found)),
        figures,
        passed=study.agree(verdicts),
        provenance=of_rows(rows),
        data=there(data, (THETA_FILE, *CORI_FILES.values())),
    )


def _remarks(
    found: Sequence[Trace], scale: Scale, grid: Grid, published: Sequence[study.ClaimVerdict]
) -> tuple[str, ...]:
    from_published = f"From it, {study.counted(verdict.word for verdict in published)}."
    remarks = [study.HOW_JUDGED, _TWIN, *(_REAL[paper] for paper in _REAL if any(t.paper == paper for t in found))]
    if (missing := left_out(trace.name for trace in found)) is not None:
        remarks.append(missing)
    remarks += [_COUNTED, _MODEL, _EASY, f"{_BASELINES} {from_published}", _SPREAD]
    if scale == "small":
        shares = ", ".join(map(str, grid.shares))
        remarks.append(
            f"Small scale: {len(grid.seeds)} seed instead of 10, {shares} % malleable; all but Theta are cut to about "
            "their first day, with the first tenth as warm-up: their machines are filling up, and few jobs wait."
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

    def choose(self, trace: str, policy: str, share: str, measure: str) -> tuple[str, int, float] | None:
        """A mean, and which one it is.

        Args:
            trace: The workload.
            policy: Or ``best`` or ``worst``, of the strategies.
            share: Or ``any``: the best, or the worst.
            measure: What it is of.
        """
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

_FAR: Final = 10.0
"""In percent: a rigid workload whose mean is farther away from the printed one is called another workload."""
_THETA_AXIS_S: Final = 4500
_OF_RESIZED: Final = "the paper does not say over which jobs it counts; over those alone that have any"
_CLAIM_COLUMNS: Final = (
    "claim", "where", "workload", "printed", "found", "from the published EASY", "verdict",
    "what is known of the reason",
)  # fmt: skip


def judged(means: Shares, traces: Sequence[Trace], easy: str = RIGID) -> list[study.ClaimVerdict]:
    """Judge all claims on all workloads that stand for the paper's; two forms of a workload count once.

    Args:
        means: What was simulated.
        traces: The workloads.
        easy: The policy of the rigid jobs that changes are from.
    """
    forms: dict[str, list[list[study.ClaimVerdict]]] = {}
    for trace in traces:
        forms.setdefault(trace.paper, []).append(_judged_on(trace, means, easy))
    return [study.together(each) for of_one in forms.values() for each in zip(*of_one, strict=True)]


def _judged_on(trace: Trace, means: Shares, easy: str) -> list[study.ClaimVerdict]:
    kinds, published = (_Baseline(means, trace, each).kinds() for each in (easy, PUBLISHED))
    claims = {
        kind: [{**claim, "kind": kind} for claim in CLAIMS[kind] if claim["trace"] == trace.paper] for kind in kinds
    }
    return study.judge(
        claims,
        kinds,
        lambda claim: _reason(claim, trace, means),
        where=lambda claim: (claim["where"], trace.label),
        beside=lambda claim: (published[claim["kind"]](claim).found if claim["kind"] in _CHANGES else None,),
    )


_CHANGES: Final = ("change", "only", "slightly", "early")
"""The kinds of claims that are about changes from rigid jobs."""


@dataclass(frozen=True, slots=True)
class _Baseline:
    """Judges the claims on a workload, with changes from rigid jobs under one of both EASYs."""

    means: Shares
    trace: Trace
    easy: str

    def kinds(self) -> dict[str, Callable[[study.Claim], study.Judged]]:
        """What judges the claims of a kind."""
        return {
            "change": self.changes,
            "limit": self.limits,
            "order": self.orders,
            "only": self.only,
            "slightly": self.slightly,
            "early": self.early,
            "fewest": self.fewest,
            "count": self.counts,
            "twice": self.twice,
            "fewer": self.fewer,
        }

    def changes(self, claim: study.Claim) -> study.Judged:
        """A mean changes as printed."""
        (policy, share), measure = claim["after"], claim["measure"]
        rigid, after = self._rigid(measure), self.means.choose(self.trace.name, policy, share, measure)
        if rigid is None or after is None:
            return study.changed(None, claim)
        if (found := study.change(rigid, after[2])) is None:
            return study.changed(None, claim)._replace(found="no job waits")
        return study.changed(found, claim, f" ({after[0]}, {after[1]} %)")

    def limits(self, claim: study.Claim) -> study.Judged:
        """The best strategy stays below a limit at all shares from one on."""
        measure, below, name = claim["measure"], claim["below"], self.trace.name
        shares = [share for share in self.means.shares(name) if share >= claim["from"]]
        best = [self.means.choose(name, "best", str(share), measure) for share in shares]
        values = [one[2] for one in best if one is not None]
        text = f"< {below:g} s"
        if not values:
            return study.Judged(text, "-", "not judged")
        if (rigid := self._rigid(measure)) is not None and rigid < below:
            return study.Judged(text, f"rigid jobs wait {rigid:.1f} s", "not judged")
        return study.Judged(text, f"{max(values):.1f} s", study.held(max(values) < below))

    def orders(self, claim: study.Claim) -> study.Judged:
        """A strategy is the extreme one of all."""
        measure, share = claim["measure"], claim["share"]
        values = {policy: self.means.get(self.trace.name, policy, measure, share) for policy in STRATEGIES}
        return study.first(values, claim.get("most", claim.get("least")), "{:,.1f}", highest="most" in claim)

    def _rigid(self, measure: str) -> float | None:
        return self.means.rigid(self.trace.name, measure, self.easy)

    def _against_rigid(self, measure: str, policy: str, share: int) -> float | None:
        return study.change(self._rigid(measure), self.means.get(self.trace.name, policy, measure, share))

    def only(self, claim: study.Claim) -> study.Judged:
        """One strategy lowers a mean, and none of the others does."""
        known = study.known_of(self._against_rigid(claim["measure"], name, claim["share"]) for name in STRATEGIES)
        if not known:
            return study.Judged(claim["only"], "-", "not judged")
        changes = dict(zip(STRATEGIES, known, strict=True))
        lower = [name for name, value in changes.items() if value < 0]
        text = ", ".join(f"{name} {value:+.1f} %" for name, value in changes.items())
        return study.Judged(claim["only"], text, study.held(lower == [claim["only"]]))

    def slightly(self, claim: study.Claim) -> study.Judged:
        """A mean rises at all shares from one on, and by no more than the tolerance."""
        shares = [share for share in self.means.shares(self.trace.name) if share >= claim["from"]]
        known = study.known_of(self._against_rigid(claim["measure"], claim["policy"], share) for share in shares)
        text = f"0 to {study.TOLERANCE:+g} %"
        if not known:
            return study.Judged(text, "-", "not judged")
        held = study.held(all(0 < value <= study.TOLERANCE for value in known))
        return study.Judged(text, ", ".join(f"{value:+.1f} %" for value in known), held)

    def early(self, claim: study.Claim) -> study.Judged:
        """The best strategy gains at one share more than half of what it gains at most."""
        measure, name = claim["measure"], self.trace.name
        rigid = self._rigid(measure)
        ends = (self.means.choose(name, "best", share, measure) for share in (str(claim["share"]), "any"))
        then, most = (study.change(rigid, None if best is None else best[2]) for best in ends)
        if then is None or most is None or most >= 0:
            return study.Judged("> 50 % of it", "-", "not judged")
        part = 100 * then / most
        return study.Judged("> 50 % of it", f"{part:.0f} % ({then:+.1f} of {most:+.1f} %)", study.held(part > 50))

    def _events(self, claim: study.Claim, policy: str, share: int) -> float | None:
        """Expands, shrinks, or ``resizes``, which are both, for each malleable job."""
        kinds = ("expands", "shrinks") if claim["measure"] == "resizes" else (claim["measure"],)
        known = study.known_of(self.means.get(self.trace.name, policy, kind, share) for kind in kinds)
        return sum(known) if known else None

    def mean_events(self, claim: study.Claim, policies: Sequence[str]) -> dict[str, float | None]:
        """Those at the share of the claim, or means over all shares."""
        shares = [claim["share"]] if "share" in claim else self.means.shares(self.trace.name)
        found = {policy: study.known_of(self._events(claim, policy, share) for share in shares) for policy in policies}
        return {policy: fmean(known) if known else None for policy, known in found.items()}

    def fewest(self, claim: study.Claim) -> study.Judged:
        """A strategy resizes least of all at every share."""
        wanted = claim["policy"]
        found = {
            share: study.first({name: self._events(claim, name, share) for name in STRATEGIES}, wanted, "{:,.1f}")
            for share in self.means.shares(self.trace.name)
        }
        judged = {share: one for share, one in found.items() if one.word != "not judged"}
        if not judged:
            return study.Judged(wanted, "-", "not judged")
        held = [share for share, one in judged.items() if one.word == "held"]
        first = next(iter(judged))
        text = f"at {len(held)} of {len(judged)} shares; at {first} %: {judged[first].found}"
        return study.Judged(wanted, text, study.held(len(held) == len(judged)))

    def counts(self, claim: study.Claim) -> study.Judged:
        """A number of expands, shrinks or both for each malleable job."""
        return study.amounts(self.mean_events(claim, claim["policies"]), claim["printed"])

    def twice(self, claim: study.Claim) -> study.Judged:
        """Each of some strategies has more than twice as many as each of the others."""
        known = study.known_of(self.mean_events(claim, STRATEGIES).values())
        if not known:
            return study.Judged("> 2 times", "-", "not judged")
        counts = dict(zip(STRATEGIES, known, strict=True))
        more = min(counts[name] for name in claim["policies"])
        less = max(value for name, value in counts.items() if name not in claim["policies"])
        listed = ", ".join(f"{name} {value:.1f}" for name, value in counts.items())
        return study.Judged("> 2 times", listed, study.held(more > 2 * less))

    def fewer(self, claim: study.Claim) -> study.Judged:
        """A strategy has fewer than the others have on average, by a percentage."""
        found = self.mean_events(claim, STRATEGIES)
        others = study.known_of(value for name, value in found.items() if name != claim["policy"])
        mean = fmean(others) if others else None
        return study.changed(study.change(mean, found[claim["policy"]]), claim)


def _reason(claim: study.Claim, trace: Trace, means: Shares) -> str:
    """What is known: that the workload is another one, and how far off it is before anything is malleable."""
    far = [
        f"rigid {name.removesuffix('_s')} is {here:,.0f}, printed {printed:,.0f}"
        for name, printed in CLAIMS["rigid"][trace.paper].items()
        if (here := means.rigid(trace.name, name)) is not None and abs(here / printed - 1) > _FAR / 100
    ]
    if trace.paper == "theta":
        far += _theta(trace, means)
    if trace.warmup_s is None:
        far.append("a short cut, on which the machine is filling up")
    if claim["measure"] in ("expands", "shrinks", "resizes"):
        far += _of_resized(claim, trace, means)
    return "; ".join(far) or "not known"


def _of_resized(claim: study.Claim, trace: Trace, means: Shares) -> list[str]:
    """The numbers of resizes if only the jobs count that were resized in this way."""
    by = _Baseline(means, trace, RIGID)
    found = [
        f"{name} {value:.1f} {kind}"
        for kind, of in OF_RESIZED.items()
        if claim["measure"] in (kind, "resizes")
        for name, value in by.mean_events({**claim, "measure": of}, claim.get("policies", STRATEGIES)).items()
        if value is not None
    ]
    return [f"{_OF_RESIZED}: {', '.join(found)}"] if found else []


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


def _best_printed() -> dict[tuple[str, str], float]:
    """What the paper prints of the best strategy, by workload and mean."""
    best = (claim for claim in CLAIMS["change"] if claim["after"][0] == "best")
    return {(claim["trace"], claim["measure"]): claim["printed"] for claim in best}


def _beside(means: Shares, found: Sequence[Trace]) -> DataTable:
    """Rigid and best means beside the printed ones."""
    printed = _best_printed()
    rows: list[tuple[Value, ...]] = []
    for trace in found:
        for measure, title in _MEASURES.items():
            rigid = means.rigid(trace.name, measure)
            best = means.choose(trace.name, "best", "any", measure)
            at = (best[0], best[1], best[2]) if best else (None, None, None)
            theirs = CLAIMS["rigid"][trace.paper].get(measure)
            as_published = means.rigid(trace.name, measure, PUBLISHED)
            gained = study.change(rigid, at[2]), study.change(as_published, at[2])
            row = trace.label, title, rigid, as_published, theirs, *at, *gained
            rows.append((*row, printed.get((trace.paper, measure))))
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
    rows = tuple(
        (
            labels[trace],
            policy,
            share,
            means.seeds(trace, policy, share),
            *(means.get(trace, policy, column, share) for column in COLUMNS),
        )
        for trace, policy, share in sorted(means.known(), key=lambda key: (list(labels).index(key[0]), key[2], key[1]))
    )
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
        } | {"paper": _best_printed().get((paper, "turnaround_s"))}
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
    for claim in CLAIMS["change"]:
        if rigid is not None and (claim["trace"], claim["measure"]) == (paper, measure):
            best = means.choose(trace, claim["after"][0], claim["after"][1], measure)
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
