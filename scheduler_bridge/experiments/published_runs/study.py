"""The experiment ``real-runs-simulated``: the published runs again, in the simulator."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeAlias

from scheduler_bridge.experiments import study
from scheduler_bridge.experiments.merit import LIMIT, MEASURES, draw_by_share, draw_runs, inside, within
from scheduler_bridge.experiments.published_runs.cells import (
    AS_MEASURED,
    COMPAT,
    CORRECT,
    JUDGED,
    SHARES,
    Cell,
    Cells,
    Reference,
    RunKey,
    ends_apart_s,
    errors_of,
    measured,
    predicted,
    read_reference,
    replayed,
)
from scheduler_bridge.experiments.study_report import DataTable, Picture, StudyReport, Value, listed
from scheduler_bridge.experiments.sweep import Scale
from scheduler_bridge.report.charts import INK, Curve

SEEDS: Final = range(42, 52)
REPLICAS: Final = 8
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


def run(data: Path, scale: Scale, progress: Callable[[str], None] = lambda _: None) -> StudyReport:
    """Replay the runs and compare.

    Args:
        data: The folder with the reference data.
        scale: ``small``: two batches at three shares, once each; ``full``: all runs, several times each.
        progress: Called with what is being simulated.

    Raises:
        TraceError: The published data are not there.
    """
    reference = read_reference(data)
    shares, seeds, replicas = ((0, 60, 100), (45, 46), 1) if scale == "small" else (SHARES, SEEDS, REPLICAS)
    compat, correct = (
        replayed(reference, policies, shares=shares, seeds=seeds, replicas=replicas, progress=progress)
        for policies in (COMPAT, CORRECT)
    )
    errors = errors_of(compat)
    every = [one for cell in compat.values() for one in cell.runs]
    runs = len(every)
    verdict = f"{runs} real runs replayed: {within(errors, 'means')}"
    return StudyReport(
        "real-runs-simulated",
        "The 2024 paper's real runs on 32 nodes, simulated",
        verdict,
        _remarks(compat, reference, scale, replicas),
        (
            _means(compat),
            _gains(compat, correct),
            study.claims_table(judged(compat, correct), _CLAIM_COLUMNS),
            _batches(compat),
        ),
        {"means": draw_means(compat, replicas), "batches": draw_runs(every, _BATCHES, "with a failed resize")},
        passed=inside(errors) == len(errors),
        provenance={
            "real runs": str(runs),
            "seeds": listed(one.key.seed for one in every),
            "simulations of each": str(replicas),
        },
        data=reference.files,
    )


def _remarks(compat: Cells, reference: Reference, scale: Scale, replicas: int) -> tuple[str, ...]:
    simulations = (
        f"mean of {replicas} runs of each batch, with runtimes that differ by {100 * AS_MEASURED.spread:.1f} %"
        if replicas > 1
        else "once, with the median runtimes"
    )
    remarks = [
        study.HOW_JUDGED,
        _COSTS.format(costs=AS_MEASURED),
        _FAILED,
        "Rigid jobs named UTS_19_rigid_4 that ran on 8 nodes are replayed on 8.",
        "Utilization is compared with the published means, which count a job's nodes until they are free.",
        f"Simulated: {simulations}.",
        _single_jobs(compat, reference),
    ]
    if scale == "full":
        remarks.append(_out_of_sample(reference))
    twice = [RunKey("MalleableStrategy", 100, 47, number) for number in (0, 1)]
    if all(key in reference.runs for key in twice):
        first, second = (measured(reference.runs[key].jobs) for key in twice)
        makespan, wait = (abs(study.percent(first[name], second[name])) for name in ("makespan_s", "wait_s"))
        remarks.append(
            f"How far reality repeats itself: one batch (100 % malleable, seed 47) was run twice; the makespans differ "
            f"by {makespan:.1f} %, the mean waits by {wait:.1f} %."
        )
    far = [
        f"{cell.strategy} at {cell.share} %: {MEASURES[name]} {error:+.1f} %"
        for cell in compat.values()
        for name in JUDGED
        if (error := cell.error(name)) is not None and abs(error) > LIMIT
    ]
    if far:
        sound = statistics.fmean(errors_of(compat, JUDGED[:3], sound=True))
        remarks.append(
            f"Farther than {LIMIT:g} %: {'; '.join(far)}. Over all policies and shares, the runs without a failed "
            f"resize are off by {sound:.1f} % on average."
        )
    if scale == "small":
        remarks.append("Small scale: two of ten batches at three of six shares, whose means differ from the paper's.")
    return tuple(remarks)


def _single_jobs(compat: Cells, reference: Reference) -> str:
    """How far the simulated ends of single jobs are from the real ones."""
    apart = [
        seconds
        for cell in compat.values()
        for one in cell.runs
        for seconds in ends_apart_s(reference.runs[one.key], reference.scaling, cell.policy, AS_MEASURED)
    ]
    turnaround_s = statistics.fmean(one.real["turnaround_s"] for cell in compat.values() for one in cell.runs)
    return (
        f"Single jobs end {statistics.fmean(apart):.1f} s from where they did, in the mean of {len(apart):,} jobs "
        f"(median {statistics.median(apart):.1f} s); their mean turnaround is {turnaround_s:.0f} s."
    )


def _out_of_sample(reference: Reference) -> str:
    """How far means are off if nothing is fitted to the runs that are replayed."""
    halves = list(predicted(reference, shares=SHARES, seeds=SEEDS, replicas=REPLICAS))
    errors = [error for _, cells in halves for error in errors_of(cells, JUDGED[:3])]
    fitted = " and ".join(f"{costs.release_s:.2f} s" for costs, _ in halves)
    return (
        f"Out of sample: the time until nodes are free, fitted to one half of the seeds ({fitted}), predicts the other "
        f"half. {within(errors, 'means over five seeds (makespan, turnaround, wait)')}"
    )


# Claims: do the simulated runs show the same change? -----------------------------------------------------------------

CLAIMS: Final = study.claims_file(__package__)
_CLAIM_COLUMNS: Final = (
    "claim", "where", "printed change %", "simulated %", "with correct policies %", "verdict", "reason",
)  # fmt: skip
_PER_JOB: Final = {"shrinks_per_job": "shrinks", "grows_per_job": "grows"}
_JOBS: Final = 25
Find: TypeAlias = Callable[[study.Claim], float | None]
"""The mean that a claim is about, by the paper's name of the policy."""


def judged(compat: Cells, correct: Cells) -> list[study.ClaimVerdict]:
    """Judge the claims whose runs were replayed, and say beside what our correct policies would have done."""

    def means_of(cells: Cells) -> Find:
        return lambda claim: _value(claim["measure"], cells.get((claim["policy"], claim["share"])))

    by = study.Judge(means_of(compat))

    def reason(claim: study.Claim) -> str:
        if claim["rule"] == "first":
            return "not known"
        errors = map(study.percent, claim["printed"], (by.base(claim), by.mean(claim)))
        return f"the simulated means are off by {' and '.join(f'{error:+.1f} %' for error in errors)}"

    return judge_claims(by.find, reason, means_of({**compat, **correct}))


def judge_claims(
    find: Find, reason: Callable[[study.Claim], str] = lambda _: "", beside: Find | None = None
) -> list[study.ClaimVerdict]:
    """Judge the claims whose runs are there; ``beside``: what else was found, to compare with."""
    also = None if beside is None else study.Judge(beside)
    verdicts = study.Judge(find).verdicts(
        CLAIMS["claim"],
        reason,
        where=lambda claim: (claim["where"],),
        beside=lambda claim: () if also is None else (also.judged(claim).found,),
    )
    return [verdict for verdict in verdicts if verdict.word != "not judged"]


def _value(measure: str, cell: Cell | None) -> float | None:
    if cell is None:
        return None
    if name := _PER_JOB.get(measure):
        malleable = _JOBS * cell.share / 100
        return statistics.fmean(one.mean(name) for one in cell.runs) / malleable if malleable else None
    return cell.means(measure)[1]


# Tables --------------------------------------------------------------------------------------------------------------

_COMPARED: Final = [column for name in JUDGED for column in (f"{MEASURES[name]} measured", "simulated", "error %")]


def _means(compat: Cells) -> DataTable:
    columns = ["policy", "malleable %", "runs", *_COMPARED]
    columns += ["runs without a failed resize", *(f"error % there, {MEASURES[name]}" for name in JUDGED)]
    rows: list[tuple[Value, ...]] = []
    for cell in compat.values():
        row: list[Value] = [f"{cell.strategy} ({cell.policy})", cell.share, len(cell.runs)]
        for name in JUDGED:
            row += [*cell.means(name), cell.error(name)]
        row += [sum(not one.apart for one in cell.runs), *(cell.error(name, sound=True) for name in JUDGED)]
        rows.append(tuple(row))
    return DataTable("means", "Means of the batches, measured and simulated", columns, rows)


def _gains(compat: Cells, correct: Cells) -> DataTable:
    columns = ["policy", "malleable %", "instead of"]
    for name in JUDGED:
        columns += [MEASURES[name], "change %"]
    rows: list[tuple[Value, ...]] = []
    for key, cell in correct.items():
        row: list[Value] = [cell.policy, cell.share, cell.strategy]
        for name in JUDGED:
            _, ours = cell.means(name)
            _, theirs = compat[key].means(name)
            row += [ours, study.change(theirs, ours)]
        rows.append(tuple(row))
    title = "What the correct policies would have done, compared with the published ones, both simulated"
    return DataTable("correct-policies", title, columns, rows)


def _batches(compat: Cells) -> DataTable:
    columns = ("policy", "malleable %", "seed", "run", "failed resize", *_COMPARED)
    rows: list[tuple[Value, ...]] = []
    for cell in compat.values():
        for one in cell.runs:
            row: list[Value] = [cell.strategy, cell.share, one.key.seed, one.key.number, "yes" if one.apart else ""]
            for name in JUDGED:
                theirs, mine = one.real.get(name), one.mean(name)
                row += [theirs, mine, study.change(theirs, mine)]
            rows.append(tuple(row))
    return DataTable("batches", "Every run", columns, rows)


# Figures 9 to 11 and the mean wait, run by run, too ------------------------------------------------------------------

_BATCHES: Final = "real runs on 32 nodes, under the policies as published"


def draw_means(compat: Cells, replicas: int) -> Picture:
    """Means by share of malleable jobs, simulated and measured; a row of panels a measure, a column a policy."""
    runs = sum(len(cell.runs) for cell in compat.values())
    return draw_by_share(
        {MEASURES[name]: {strategy: _pair(compat, strategy, name) for strategy in COMPAT} for name in JUDGED},
        {share for _, share in compat},
        _within(compat),
        f"{runs} {_BATCHES}; means over the batches, each simulated {replicas} times.",
        f"Means over the batches; {runs} real runs, each simulated {replicas} times.",
    )


def _pair(compat: Cells, strategy: str, name: str) -> list[Curve]:
    means = [(cell.share, *cell.means(name)) for cell in compat.values() if cell.strategy == strategy]
    return [
        Curve("simulated", [(share, ours) for share, _, ours in means if ours is not None]),
        Curve("measured", [(share, real) for share, real, _ in means if real is not None], INK, hollow=True),
    ]


def _within(compat: Cells) -> str:
    errors = errors_of(compat)
    near, judged = inside(errors), len(errors)
    which = f"All {judged}" if near == judged else f"{near} of {judged}"
    return f"{which} simulated means are within {LIMIT:g} % of the measured ones"
