"""The experiment ``real-workloads``: simulate, compare with what the 2025 paper prints, say where it differs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from scheduler_bridge.experiments.judging import CLOSE, TOLERANCE, agree, counted
from scheduler_bridge.experiments.outcome import DataTable, Outcome, Value
from scheduler_bridge.experiments.page import of_rows
from scheduler_bridge.experiments.real_workloads.cells import COLUMNS, PLANS, Plan, simulated, timeline
from scheduler_bridge.experiments.real_workloads.claims import OnTrace, judge, read_claims
from scheduler_bridge.experiments.real_workloads.means import MeanTable, change
from scheduler_bridge.experiments.real_workloads.traces import NO_THETA, Trace, traces
from scheduler_bridge.experiments.sweep import OnTraces, Row, Scale, Sweeping

NAME: Final = "real-workloads"
_MEASURES: Final = {
    "turnaround_s": "turnaround, s",
    "runtime_s": "runtime, s",
    "wait_s": "wait, s",
    "utilization": "utilization, %",
}
_TOLERANCE: Final = (
    f"A change holds where its sign is the printed one and it is at most {TOLERANCE:g} points away from it; up to "
    f"{CLOSE:g} points, the sign does not matter."
)
_TWINS: Final = (
    "Haswell, KNL and Eagle are statistical twins, drawn from what the paper prints of them: synthetic, not the logs. "
    "How much of the machine they use and how long rigid jobs wait was made to be of the printed size."
)
_MODEL: Final = (
    "Decisions follow events, without the paper's tick of 1 or 10 s. Resizes cost nothing. Nobody is killed: requested "
    "times count for reservations only, and are scaled where a job has another size than it asked for. Malleable jobs "
    "have the bounds that the paper's authors give to jobs of these logs in a later program (the rule amdahl-logs)."
)
_EASY: Final = (
    "Under easy, malleable jobs are moldable: they start on what is free, up to their maximum. The paper's easy is "
    "that at 0 %."
)
_SPREAD: Final = "Quartiles are over jobs (of utilization: over seeds); expands and shrinks are per malleable job."


def run(
    data: Path | None,
    how: Sweeping,
    *,
    plan: Plan | None = None,
    workloads: Sequence[Trace] | None = None,
) -> Outcome:
    """Simulate what is not known yet and compare.

    Args:
        data: The folder with the traces; without it, Theta is left out.
        how: How the sweep is run; at scale ``small`` there are Theta and short twins, three shares, one seed; ``full``
            is as in the paper.
        plan: Other shares and seeds.
        workloads: Other workloads.

    Raises:
        SweepFileError: The folder holds rows of another kind.
        TraceError: The trace cannot be read.
        OSError: The same, or the folder cannot be written.
    """
    plan = plan or PLANS[how.scale]
    found = list(workloads) if workloads is not None else traces(how.scale, data)
    rows = how.rows(plan.cells(found), OnTraces.of(found, simulated), COLUMNS)
    return _outcome(rows, found, how.scale, plan)


def _outcome(rows: Sequence[Row], found: Sequence[Trace], scale: Scale, plan: Plan) -> Outcome:
    from scheduler_bridge.experiments.real_workloads.figure import draw_means, draw_resizes, draw_time

    means = MeanTable(rows)
    verdicts = judge(means, found)
    figures = {}
    for trace in found:
        workload = trace.make()
        window = trace.warmup_of(workload) + workload.jobs[0].submit_s, workload.jobs[-1].submit_s
        figures[f"{trace.name}-means"] = draw_means(means, trace.name, trace.label, trace.paper)
        figures[f"{trace.name}-resizes"] = draw_resizes(means, trace.name, trace.label, trace.paper)
        figures[f"{trace.name}-time"] = draw_time(timeline(trace), trace.label, window)
    return Outcome(
        NAME,
        "The 2025 paper: real workloads with malleable jobs",
        f"{counted([verdict.word for verdict in verdicts])}.",
        _remarks(found, scale, plan),
        (_beside(means, found), _claims(verdicts), _workloads(found), _means(means, found)),
        figures,
        passed=agree(verdicts),
        provenance=of_rows(rows),
    )


def _beside(means: MeanTable, found: Sequence[Trace]) -> DataTable:
    """Rigid and best means beside the printed ones."""
    printed = {
        (claim["trace"], claim["measure"]): claim["printed"]
        for claim in read_claims()["change"]
        if claim["after"][0] == "best"
    }
    rows: list[tuple[Value, ...]] = []
    for trace in found:
        for measure, title in _MEASURES.items():
            rigid = means.rigid(trace.name, measure)
            best = means.choose(trace.name, "best", "any", measure)
            at = (best[0], best[1], best[2]) if best else (None, None, None)
            theirs = read_claims()["rigid"][trace.paper].get(measure)
            gained = change(rigid, at[2])
            rows.append((trace.label, title, rigid, theirs, *at, gained, printed.get((trace.paper, measure))))
    columns = ("workload", "mean", "rigid", "paper", "best", "at %", "is", "change %", "paper's %")
    return DataTable("beside-the-paper", "The best strategy, beside what the paper prints", columns, tuple(rows))


def _claims(verdicts: Sequence[OnTrace]) -> DataTable:
    columns = ("claim", "where", "workload", "printed", "found", "verdict", "what is known of the reason")
    rows = tuple((v.text, v.where, v.trace, v.printed, v.found, v.word, v.reason) for v in verdicts)
    return DataTable("claims", "The paper's claims", columns, rows)


def _workloads(found: Sequence[Trace]) -> DataTable:
    rows: list[tuple[Value, ...]] = []
    for trace in found:
        workload = trace.make()
        span_s = workload.jobs[-1].submit_s - workload.jobs[0].submit_s
        whole_hours = trace.warmup_of(workload) / 3600
        rate = len(workload) / span_s * 3600 if span_s else None
        rows.append((trace.label, len(workload), workload.nodes, span_s / 86_400, rate, whole_hours, workload.source))
    columns = ("workload", "jobs", "nodes", "days", "jobs/hour", "warm-up, h", "source")
    return DataTable("workloads", "What was simulated", columns, tuple(rows))


def _means(means: MeanTable, found: Sequence[Trace]) -> DataTable:
    labels = {trace.name: trace.label for trace in found}
    rows = tuple(
        (
            labels[trace],
            policy,
            share,
            means.seeds(trace, policy, share),
            *(means.get(trace, policy, share, column) for column in COLUMNS),
        )
        for trace, policy, share in sorted(means.keys(), key=lambda key: (list(labels).index(key[0]), key[2], key[1]))
    )
    title = "Means over seeds, with quartiles over jobs"
    return DataTable("means", title, ("workload", "policy", "malleable %", "seeds", *COLUMNS), rows)


def _remarks(found: Sequence[Trace], scale: Scale, plan: Plan) -> tuple[str, ...]:
    remarks = [_TOLERANCE, _TWINS, _MODEL, _EASY, _SPREAD]
    if any(trace.paper == "theta" for trace in found):
        remarks.append(
            "Theta is the public trace of the same 28 days: it has 1,617 of the paper's 2,550 jobs, mostly the small "
            "ones are missing, and 4,360 of its 4,392 nodes."
        )
    else:
        remarks.append(NO_THETA)
    if scale == "small":
        shares = ", ".join(map(str, plan.shares))
        remarks.append(
            f"Small scale: {len(plan.seeds)} seed instead of 10, {shares} % malleable; the twins are cut to their "
            "first hours, with the first tenth as warm-up: their machines are not full yet and hardly anybody waits."
        )
    return tuple(remarks)
