"""Presentation of the runs: which tables, figures and claims show them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from scheduler_bridge.experiments.outcome import DataTable, Picture, Value, listed
from scheduler_bridge.experiments.published_runs.claims import Claim, read_claims
from scheduler_bridge.experiments.real_runs import findings
from scheduler_bridge.experiments.real_runs.costs import HONEST, costs, costs_table, honest
from scheduler_bridge.experiments.real_runs.fidelity import LIMIT, REPLICAS, SAME_S, Held, Repeated, errors, grouped
from scheduler_bridge.experiments.real_runs.findings import PUBLISHED, cells, orders
from scheduler_bridge.experiments.real_runs.plan import SCALING, Plan, RunKey
from scheduler_bridge.experiments.real_runs.scaling import computed_s, scaling_table
from scheduler_bridge.experiments.study import Word, word_for
from scheduler_bridge.record import RunRecord


@dataclass(frozen=True, slots=True)
class Shown:
    """What is shown.

    Attributes:
        plan: What was run.
        records: All runs.
        batches: Those without slower resizes.
        paper: The paper's means by policy and share, scaled.
        orders: Its grows and shrinks per malleable job, by share.
        scaling: Its seconds by configuration and nodes, not scaled.
        held: The runs and the simulator beside them.
        note: What is emulated, for every figure.
    """

    plan: Plan
    records: Mapping[RunKey, RunRecord]
    batches: Mapping[RunKey, RunRecord]
    paper: Mapping[tuple[str, int], Mapping[str, float]]
    orders: Mapping[int, tuple[float, float]]
    scaling: Mapping[str, Mapping[int, float]]
    held: Sequence[Held]
    note: str


def tables(shown: Shown) -> list[DataTable]:
    """The tables of the runs, those that people look at first before the others."""
    found = [
        findings.merit_table(shown.batches, shown.paper),
        costs_table(list(shown.batches.values())),
        findings.orders_table(shown.batches, shown.orders),
    ]
    if any(key.kind == "injected" for key in shown.records):
        found.append(findings.injected_table(shown.records))
    if SCALING in shown.records:
        found.append(scaling_table(shown.records[SCALING], shown.scaling, shown.plan.time))
    return found


def draw(shown: Shown) -> dict[str, Picture]:
    """The figures, by name."""
    from scheduler_bridge.experiments.real_runs.figures import (
        draw_costs,
        draw_fidelity,
        draw_means,
        draw_orders,
        draw_scaling,
        draw_turnaround,
    )

    found: dict[str, Picture] = {}
    if shown.batches:
        found["means"] = draw_means(shown.batches, shown.paper, shown.note)
        found["turnaround"] = draw_turnaround(shown.batches, shown.paper, shown.note)
        found["costs"] = draw_costs(costs(shown.batches.values()), shown.note)
    orders = {share: pair for (policy, share), pair in findings.orders(shown.batches).items() if policy == "malleable"}
    if orders:
        found["orders"] = draw_orders(orders, shown.orders, shown.note)
    if SCALING in shown.records:
        ours = computed_s([shown.records[SCALING]])
        found["scaling"] = draw_scaling(ours, shown.scaling, shown.plan.time, shown.note)
    if shown.held:
        found["fidelity"] = draw_fidelity(shown.held, shown.note)
    return found


def of_runs(records: Mapping[RunKey, RunRecord]) -> dict[str, str]:
    """Tell of real runs: how many there are, their seeds, when they began."""
    began = sorted(record.started_at for record in records.values())
    return {
        "real runs": str(len(records)),
        "seeds": listed(key.seed for key in records),
        "first run began": began[0],
        "last run began": began[-1],
    }


_WITHIN: Final = ("makespan within the simulated range", "turnaround within it")


def runs_table(held: Sequence[Held]) -> DataTable:
    """The same run by run."""
    rows = []
    for one in held:
        found = errors([one]).values()
        within = ["yes" if one.covers(name) else "no" for name in ("makespan_s", "turnaround_s")]
        values = (value for triple in found for value in triple)
        rows.append((one.key.spoken, *honest([one.record]), *within, *values))
    return DataTable(
        "fidelity-runs", "The simulator held against each run", ("run", *HONEST, *_WITHIN, *_compared()), tuple(rows)
    )


def _compared() -> list[str]:
    return [column for title in findings.MEASURES.values() for column in (title, "simulated", "error %")]


def fidelity_table(held: Sequence[Held]) -> tuple[DataTable, str]:
    """The error of the simulator against reality by policy and share, and a sentence on how many means it meets."""
    rows: list[tuple[Value, ...]] = []
    every: list[float] = []
    for (policy, share, kind), those in grouped(held).items():
        found = errors(those)
        row: list[Value] = [policy + (", slower resizes" if kind == "injected" else ""), share, len(those)]
        row += honest([one.record for one in those])
        for real, simulated, error in found.values():
            row += [real, simulated, error]
            every.append(abs(error))
        rows.append(tuple(row))
    columns = ("policy", "malleable %", "runs", *HONEST, *_compared())
    inside = sum(error <= LIMIT for error in every)
    makespans, turnarounds = (sum(one.covers(name) for one in held) for name in ("makespan_s", "turnaround_s"))
    sentence = (
        f"{inside} of {len(every)} means by policy and share are within {LIMIT:g} % of what was measured, "
        f"the farthest is off by {max(every):.1f} %. Of {len(held)} single runs, {makespans} have a makespan and "
        f"{turnarounds} a turnaround among those of {REPLICAS} simulations each."
        if every
        else ""
    )
    title = "The simulator held against the runs"
    return DataTable("fidelity", title, columns, tuple(rows)), sentence


def repeated_table(repeated: Sequence[Repeated]) -> tuple[DataTable, str]:
    """How much of each run the simulator repeats if it is told what everything took, and a sentence about all."""
    rows = tuple((one.key.spoken, one.decisions, one.same, one.apart_s) for one in repeated)
    whole = sum(one.same == one.decisions for one in repeated)
    same, decisions = sum(one.same for one in repeated), sum(one.decisions for one in repeated)
    sentence = (
        f"Told of every job what its start, computation and resizes took, the simulator repeats {whole} of "
        f"{len(repeated)} runs start by start and order by order: {same} of {decisions} decisions are the same, "
        f"at most {max(one.apart_s for one in repeated):.2f} s apart."
        if repeated
        else ""
    )
    columns = ("run", "decisions", f"the same within {SAME_S:g} s", "farthest apart s")
    return DataTable("repeated", "The runs again, with what everything took", columns, rows), sentence


# The paper's claims: do our own runs show the same change? -----------------------------------------------------------

_ORDERS: Final = {"grows_per_job": 0, "shrinks_per_job": 1}


def judged(records: Mapping[RunKey, RunRecord]) -> tuple[DataTable, list[Word]]:
    """The claims whose runs are there, as a table, and what became of them."""
    found, told = cells(records), orders(records)
    ours = {theirs: name for name, theirs in PUBLISHED.items()}

    def mean(claim: Claim, cell: tuple[str, int]) -> float:
        policy, share = ours[cell[0]], cell[1]
        if claim.measure in _ORDERS:
            return told.get((policy, share), (math.nan, math.nan))[_ORDERS[claim.measure]]
        runs = found.get((policy, share), [])
        return statistics.fmean(run[claim.measure] for run in runs) if runs else math.nan

    rows: list[tuple[Value, ...]] = []
    words: list[Word] = []
    for claim in read_claims():
        before, after = mean(claim, claim.before), mean(claim, claim.after)
        if math.isnan(before) or math.isnan(after) or not before:
            continue
        change = 100 * (after / before - 1)
        words.append(word_for(change, claim.printed_change))
        rows.append((claim.text, claim.where, claim.printed_change, change, words[-1]))
    columns = ("claim", "where", "paper: change %", "ours: change %", "verdict")
    return DataTable("claims", "The paper's claims", columns, tuple(rows)), words
