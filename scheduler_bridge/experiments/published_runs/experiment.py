"""``malleable experiment real-runs-simulated``: the published runs again, in the simulator."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Final, Literal, TypeAlias

from scheduler_bridge.experiments.outcome import DataTable, Outcome, Value, listed
from scheduler_bridge.experiments.published_runs.claims import judge
from scheduler_bridge.experiments.published_runs.compare import JUDGED, LIMIT, Cell, Comparison, compare
from scheduler_bridge.experiments.published_runs.data import SHARES, Reference, RunKey, read_reference
from scheduler_bridge.experiments.published_runs.model import measured

NAME: Final = "real-runs-simulated"
SEEDS: Final = range(42, 52)
REPLICAS: Final = 8
_WORDS: Final = {
    "makespan_s": "makespan s",
    "turnaround_s": "turnaround s",
    "wait_s": "wait s",
    "utilization": "utilization %",
}

_COSTS: Final = (
    "Costs: nodes are free {costs.release_s} s after a job's end; a malleable job takes orders {costs.ready_s} s after "
    "its start; a grow takes {costs.grow_s} s, a shrink {costs.shrink_s} s (the published data file; the paper's text "
    "has the two the other way round). Decisions every 5 s and at events, 60 s between resizes of a job, as published."
)
_FAILED: Final = (
    "Malleable-Algorithm: 24 real jobs have a failed resize and went on with fewer nodes than they held, for up to "
    "four times as long. They are replayed as long as they took, without orders; which nodes were lost meanwhile is "
    "not published. The errors without such runs stand beside."
)

Scale: TypeAlias = Literal["small", "full"]


def run(data: Path, scale: Scale, progress: Callable[[str], None] = lambda _: None) -> Outcome:
    """Replay the runs and compare.

    Args:
        data: The folder with the reference data.
        scale: ``small``: two batches at three shares, once each; ``full``: all runs, several times each.
        progress: Told what is being simulated.

    Raises:
        BadReferenceError: The published data are not there.
    """
    reference = read_reference(data)
    if scale == "small":
        comparison = compare(reference, shares=(0, 60, 100), seeds=(45, 46), progress=progress)
    else:
        comparison = compare(reference, shares=SHARES, seeds=SEEDS, replicas=REPLICAS, progress=progress)
    return _outcome(comparison, reference, scale)


def _outcome(comparison: Comparison, reference: Reference, scale: Scale) -> Outcome:
    from scheduler_bridge.experiments.published_runs.figure import draw_batches, draw_means

    inside, judged = comparison.within()
    largest = max(abs(cell.error(name) or 0.0) for cell in comparison.compat for name in JUDGED)
    runs = sum(len(cell.runs) for cell in comparison.compat)
    seeds = [key.seed for cell in comparison.compat for key in cell.runs]
    verdict = (
        f"{runs} real runs replayed: {inside} of {judged} means are within {LIMIT:g} % of what was measured, "
        f"the farthest is off by {largest:.1f} %."
    )
    return Outcome(
        NAME,
        "The 2024 paper's real runs on 32 nodes, simulated",
        verdict,
        _remarks(comparison, reference, scale),
        (_means(comparison), _gains(comparison), _claims(comparison), _batches(comparison)),
        {"means": draw_means(comparison), "batches": draw_batches(comparison)},
        passed=inside == judged,
        provenance={"real runs": str(runs), "seeds": listed(seeds), "simulations of each": str(comparison.replicas)},
    )


def _means(comparison: Comparison) -> DataTable:
    columns = ["policy", "malleable %", "runs"]
    for name in JUDGED:
        columns += [f"{_WORDS[name]} measured", "simulated", "error %"]
    columns += ["runs without a failed resize", *(f"error % there, {_WORDS[name]}" for name in JUDGED)]
    rows: list[tuple[Value, ...]] = []
    for cell in comparison.compat:
        row: list[Value] = [f"{cell.strategy} ({cell.policy})", cell.share, len(cell.runs)]
        for name in JUDGED:
            row += [*cell.means(name), cell.error(name)]
        row += [cell.broken.count(False), *(cell.error(name, sound=True) for name in JUDGED)]
        rows.append(tuple(row))
    return DataTable("means", "Means of the batches, measured and simulated", tuple(columns), tuple(rows))


def _gains(comparison: Comparison) -> DataTable:
    columns = ["policy", "malleable %", "instead of"]
    for name in JUDGED:
        columns += [f"{_WORDS[name]}", "change %"]
    rows: list[tuple[Value, ...]] = []
    published = {(cell.strategy, cell.share): cell for cell in comparison.compat}
    for cell in comparison.correct:
        row: list[Value] = [cell.policy, cell.share, cell.strategy]
        for name in JUDGED:
            _, ours = cell.means(name)
            _, theirs = published[cell.strategy, cell.share].means(name)
            row += [ours, 100 * (ours / theirs - 1) if ours is not None and theirs else None]
        rows.append(tuple(row))
    title = "What the correct policies would have done, compared with the published ones, both simulated"
    return DataTable("correct-policies", title, tuple(columns), tuple(rows))


def _claims(comparison: Comparison) -> DataTable:
    columns = ("claim", "where", "printed change %", "simulated %", "with correct policies %", "verdict", "reason")
    rows = tuple(
        (
            verdict.claim.text,
            verdict.claim.where,
            verdict.claim.printed_change,
            verdict.simulated,
            verdict.correct,
            verdict.word,
            verdict.reason,
        )
        for verdict in judge(comparison)
    )
    return DataTable("claims", "The paper's claims", columns, rows)


def _batches(comparison: Comparison) -> DataTable:
    columns = ["policy", "malleable %", "seed", "run", "failed resize"]
    for name in JUDGED:
        columns += [f"{_WORDS[name]} measured", "simulated", "error %"]
    rows = [row for cell in comparison.compat for row in _batch_rows(cell)]
    return DataTable("batches", "Every run", tuple(columns), tuple(rows))


def _batch_rows(cell: Cell) -> list[tuple[Value, ...]]:
    rows: list[tuple[Value, ...]] = []
    for key, real, ours, broken in zip(cell.runs, cell.real, cell.ours, cell.broken, strict=True):
        row: list[Value] = [cell.strategy, cell.share, key.seed, key.number, "yes" if broken else ""]
        for name in JUDGED:
            theirs, mine = getattr(real, name), getattr(ours, name)
            row += [theirs, mine, 100 * (mine / theirs - 1) if theirs and mine is not None else None]
        rows.append(tuple(row))
    return rows


def _remarks(comparison: Comparison, reference: Reference, scale: Scale) -> tuple[str, ...]:
    costs = comparison.costs
    simulations = (
        f"mean of {comparison.replicas} runs of each batch, with runtimes that differ by {100 * costs.spread:.1f} %"
        if comparison.replicas > 1
        else "once, with the median runtimes"
    )
    remarks = [
        _COSTS.format(costs=costs),
        _FAILED,
        "Rigid jobs named UTS_19_rigid_4 that ran on 8 nodes are replayed on 8.",
        "Utilization is compared with the published means, which count a job's nodes until they are free.",
        f"Simulated: {simulations}.",
    ]
    twice = [RunKey("MalleableStrategy", 100, 47, number) for number in (0, 1)]
    if all(key in reference.runs for key in twice):
        first, second = (measured(reference.runs[key], costs) for key in twice)
        makespan, wait = (
            100 * abs(getattr(second, name) / getattr(first, name) - 1) for name in ("makespan_s", "wait_s")
        )
        remarks.append(
            f"How far reality repeats itself: one batch (100 % malleable, seed 47) was run twice; the makespans differ "
            f"by {makespan:.1f} %, the mean waits by {wait:.1f} %."
        )
    far = [
        f"{cell.strategy} at {cell.share} %: {_WORDS[name]} {error:+.1f} %"
        for cell in comparison.compat
        for name in JUDGED
        if (error := cell.error(name)) is not None and abs(error) > LIMIT
    ]
    if far:
        sound = statistics.fmean(
            abs(error)
            for cell in comparison.compat
            for name in JUDGED[:3]
            if (error := cell.error(name, sound=True)) is not None
        )
        remarks.append(
            f"Farther than {LIMIT:g} %: {'; '.join(far)}. Over all policies and shares, the runs without a failed "
            f"resize are off by {sound:.1f} % on average."
        )
    if scale == "small":
        remarks.append("Small scale: two of ten batches at three of six shares, whose means differ from the paper's.")
    return tuple(remarks)
