"""The experiment ``sd-policy``: simulate, compare with what the 2019 paper prints, say where it differs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from scheduler_bridge.experiments.judging import CLOSE, TOLERANCE, agree, claims_table, counted
from scheduler_bridge.experiments.outcome import DataTable, Outcome, Value
from scheduler_bridge.experiments.page import of_rows
from scheduler_bridge.experiments.sd_policy.cells import COLUMNS, MEASURES, STATIC, cells, simulated
from scheduler_bridge.experiments.sd_policy.claims import judge, printed
from scheduler_bridge.experiments.sd_policy.means import HOURS, LIMIT, SIZES, Gains, Means, gains
from scheduler_bridge.experiments.sd_policy.traces import CURIE_FILE, SEEDS, Trace, traces
from scheduler_bridge.experiments.sweep import OnTraces, Row, Scale, Sweeping

NAME: Final = "sd-policy"
_BIG: Final = 4
"""The workload of section 4.2."""
_TOLERANCE: Final = (
    f"A change holds where its sign is the printed one and it is at most {TOLERANCE:g} points away from it; up to "
    f"{CLOSE:g} points, the sign does not matter. A share of jobs holds up to {CLOSE:g} points away."
)
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


def run(
    data: Path | None,
    how: Sweeping,
    *,
    seeds: Sequence[int] | None = None,
    workloads: Sequence[Trace] | None = None,
) -> Outcome:
    """Simulate what is not known yet and compare.

    Args:
        data: The folder with the traces; without it, Curie is left out.
        how: How the sweep is run; at scale ``small`` there are short cuts and one seed, at ``full`` there is Table 1
            (of Curie what there is) and both models for all limits.
        seeds: Of the workloads that are drawn.
        workloads: Others.

    Raises:
        SweepFileError: The folder holds rows of another kind.
        TraceError: The trace cannot be read.
        OSError: The same, or the folder cannot be written.
    """
    found = list(workloads) if workloads is not None else traces(how.scale, data)
    chosen = SEEDS if seeds is None else tuple(seeds)
    rows = how.rows(cells(found, chosen, how.scale), OnTraces.of(found, simulated), COLUMNS)
    drawn = [gains(trace, chosen[0]) for trace in found if trace.paper in (1, _BIG)]
    return _outcome(rows, found, drawn, how.scale)


def _outcome(rows: Sequence[Row], found: Sequence[Trace], drawn: Sequence[Gains], scale: Scale) -> Outcome:
    from scheduler_bridge.experiments.sd_policy.figure import draw_days, draw_limits, draw_maps, draw_models

    means = Means(rows)
    verdicts = judge(means, found, next((one for one in drawn if one.trace.paper == _BIG), None))
    figures = {"limits": draw_limits(means, found), "models": draw_models(means, found)}
    for one in sorted(drawn, key=lambda one: -one.trace.paper):
        figures[f"map-{one.trace.name}"] = draw_maps(one)
        if len(one.days) > 1:
            figures[f"days-{one.trace.name}"] = draw_days(one)
    return Outcome(
        NAME,
        "The 2019 paper: SD-Policy, jobs that share nodes",
        f"{len(rows)} simulations: {counted([verdict.word for verdict in verdicts])}.",
        (*_missing(found), *_short(scale), _TOLERANCE, _WORKLOADS, _MODEL, _METRICS, _REAL),
        (_means_table(means, found), claims_table(verdicts), _maps_table(drawn), _days_table(drawn)),
        figures,
        passed=agree(verdicts),
        provenance=of_rows(rows),
    )


def _missing(found: Sequence[Trace]) -> tuple[str, ...]:
    if any(trace.paper == _BIG for trace in found):
        return ()
    return (f"Workload 4 is left out: {CURIE_FILE} is not there. Give --data, the folder that holds it.",)


def _short(scale: Scale) -> tuple[str, ...]:
    if scale == "full":
        return ()
    return ("Short cuts on smaller machines: for a look, not for the paper's numbers. Those are --scale full.",)


def _means_table(means: Means, found: Sequence[Trace]) -> DataTable:
    rows: list[tuple[Value, ...]] = []
    by_name = {trace.name: trace for trace in found}
    for name, policy in means.known():
        trace = by_name[name]
        values: list[Value] = []
        for measure in MEASURES:
            values += [
                means.get(name, policy, measure),
                None if policy == STATIC else means.change(name, policy, measure),
            ]
            if measure != MEASURES[-1]:  # the paper has no energy of simulations
                values.append(printed(trace.paper, measure) if policy == STATIC else None)
        rest: list[Value] = [means.get(name, policy, column) for column in COLUMNS[len(MEASURES) :]]
        rows.append((trace.paper, trace.label, policy, *values, *rest, means.seeds(name, policy)))
    measures = ("response s", "slowdown", "makespan s", "energy kWh")
    columns = ["no.", "workload", "limit"]
    for measure in measures:
        columns += [measure, "change %", *(["paper"] if measure != measures[-1] else [])]
    columns += ["wait s", "runtime s", "utilization %", "guests %", "mates %", "jobs", "killed", "seeds"]
    rows.sort(key=lambda row: str(row[0]))
    return DataTable("means", "Means over jobs and seeds, changes against static backfill", tuple(columns), tuple(rows))


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
