"""``malleable experiment real-runs``: the 2024 paper's evaluation on real processes."""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from scheduler_bridge.daemon.trial import CalibrationError
from scheduler_bridge.experiments.outcome import Outcome
from scheduler_bridge.experiments.published_runs import Reference, read_reference
from scheduler_bridge.experiments.real_runs import fidelity, findings
from scheduler_bridge.experiments.real_runs.keeping import HERE, Site, alone_in
from scheduler_bridge.experiments.real_runs.plan import PLANS, Plan, RunKey, Scale
from scheduler_bridge.experiments.real_runs.presenting import (
    Shown,
    draw,
    fidelity_table,
    judged,
    of_runs,
    repeated_table,
    runs_table,
    tables,
)
from scheduler_bridge.experiments.real_runs.problems import Problem, calibrate, calibrated, of_paper_size
from scheduler_bridge.experiments.real_runs.runner import Again, Runner, Watcher, all_kept, run_all
from scheduler_bridge.experiments.real_runs.scaling import published_s
from scheduler_bridge.experiments.study import counted
from scheduler_bridge.record import RunRecord, busy_node_s

NAME: Final = "real-runs"
LAG_LIMIT_S: Final = 0.25
"""A place that lags more behind its rate had too little of the cores."""


def run(
    folder: Path,
    scale: Scale,
    data: Path | None = None,
    *,
    tell: Callable[[str], None] = lambda _: None,
    watcher: Watcher | None = None,
    again: Again | None = None,
    site: Site = HERE,
) -> Outcome:
    """Run the batches that ``folder`` does not hold yet, and say what all of them show.

    Args:
        folder: Keeps the record of every run; an interrupted experiment goes on there.
        scale: How many runs.
        data: The folder with the paper's results, to show them beside; None: without.
        tell: Called with lines about what is prepared.
        watcher: Sees the runs go on.
        again: Which runs are done again although they are there.
        site: Where the nodes are.

    Raises:
        BadReferenceError: ``data`` holds no results of the paper.
        CalibrationError: A benchmark does not run.
        DaemonError: The scheduler cannot start, or another experiment runs in the folder.
        OSError: A record cannot be written.
    """
    reference = None if data is None else read_reference(data)
    plan = PLANS[scale].at(site)
    folder.mkdir(parents=True, exist_ok=True)
    environment = {"PYTHONPATH": import_path()}
    with alone_in(folder, site):
        if plan.paced:
            names = plan.problems()
            problems = calibrate(names, folder, environment, lambda name: tell(f"measuring {name} at full speed"))
        else:
            problems = of_paper_size(plan.problems())
        records = run_all(Runner(plan, problems, folder, environment, site), watcher, again)
    return conclude(plan, records, reference, problems, site)


def report(folder: Path, scale: Scale, data: Path | None = None, site: Site = HERE) -> Outcome:
    """Say what the runs show that ``folder`` holds already; nothing is run.

    Args:
        folder: Where they were kept.
        scale: Of the experiment.
        data: The folder with the paper's results, to show them beside; None: without.
        site: Where they were made.

    Raises:
        BadReferenceError: ``data`` holds no results of the paper.
        CalibrationError: ``folder`` holds no calibration, or no run of this scale.
    """
    reference = None if data is None else read_reference(data)
    plan = PLANS[scale].at(site)
    problems = calibrated(plan.problems(), folder) if plan.paced else of_paper_size(plan.problems())
    records = all_kept(Runner(plan, problems, folder))
    if not records:
        raise CalibrationError(f"{folder} holds no run of the scale {scale}")
    return conclude(plan, records, reference, problems, site)


def _emulation(plan: Plan, problems: Mapping[str, Problem], note: str) -> list[str]:
    """What is not as it is on the paper's nodes."""
    if not plan.paced:
        return []
    shares = ", ".join(f"{name} {100 * problem.share(plan.time):.1f} %" for name, problem in problems.items())
    return [
        f"Emulated: {note}. Processes, messages, steals, resizes and decisions are real and not scaled.",
        f"A node's share of a core: {shares}.",
    ]


def conclude(
    plan: Plan,
    records: Mapping[RunKey, RunRecord],
    reference: Reference | None,
    problems: Mapping[str, Problem],
    site: Site = HERE,
) -> Outcome:
    """Say what the runs show.

    Args:
        plan: What was run.
        records: Its runs.
        reference: The paper's results, if they are at hand.
        problems: What the jobs computed.
        site: Where.
    """
    paper_size = (plan.nodes, plan.jobs) == (32, 25)
    wrong = findings.faults(records)
    batches = {key: record for key, record in records.items() if key.kind == "batch"}
    where = site.spoken(plan.nodes, os.cpu_count())
    note = f"{where}; one second of the paper lasts {plan.time:g} s" if plan.paced else f"{where}, the paper's problems"
    costs = fidelity.fitted(records, plan.time)
    shown = Shown(
        plan,
        records,
        batches,
        findings.published(reference, plan.time) if paper_size else {},
        findings.published_orders(reference) if paper_size else {},
        published_s(reference),
        fidelity.hold(records, costs),
        note,
    )
    claims, words = judged(batches if paper_size else {})
    held, within = fidelity_table(shown.held)
    repeated, again = repeated_table(fidelity.repeat(records, costs))
    jobs = sum(len(record.jobs) for record in records.values())
    missing = len(plan.runs()) - len(records)
    remarks = [
        *_emulation(plan, problems, note),
        "The batches are drawn from the paper's table of configurations with its seeds; the paper's own draws differ.",
        *([f"{missing} of {len(plan.runs())} runs are not there yet."] if missing else []),
        *(_lags(records) if site.hosts is None else []),
        *([f"The paper's claims: {counted(words)}."] if words else []),
        f"Simulated with what was measured: {costs.spoken}. {within}",
        *([again] if again else []),
        *wrong,
    ]
    verdict = (
        f"Runs: {len(records)}, jobs: {jobs}; every result is right."
        if not wrong
        else f"Runs: {len(records)}, jobs: {jobs}; {len(wrong)} jobs failed or are wrong."
    )
    return Outcome(
        NAME,
        "The 2024 paper's batches as real jobs",
        f"{verdict} {_gain(batches)}".strip(),
        tuple(remarks),
        (
            *tables(shown),
            held,
            *([claims] if words else []),
            repeated,
            runs_table(shown.held),
            findings.honesty_table(records),
        ),
        draw(shown),
        passed=not wrong,
        provenance=of_runs(records),
    )


def _gain(records: Mapping[RunKey, RunRecord]) -> str:
    """What malleability brings, in a sentence: easy without malleable jobs beside malleable with the most of them."""
    found = findings.cells(records)
    shares = sorted(share for policy, share in found if policy == "malleable")
    rigid = sorted(share for policy, share in found if policy == "easy")
    if not shares or not rigid:
        return ""
    before, after = (
        sum(run["turnaround_s"] for run in runs) / len(runs)
        for runs in (found["easy", rigid[0]], found["malleable", shares[-1]])
    )
    return (
        f"Mean turnaround: {after:.1f} s under malleable with {shares[-1]} % malleable jobs, {before:.1f} s under easy "
        f"with {rigid[0]} % ({100 * (after / before - 1):+.0f} %)."
    )


def _lags(records: Mapping[RunKey, RunRecord]) -> list[str]:
    """How far the emulation was from what it should be: nodes behind their rate, and others on the machine."""
    cpu = {key: record.provenance["cpu"] for key, record in records.items()}
    remarks = []
    if late := [key for key, used in cpu.items() if used["worst_lag_s"] > LAG_LIMIT_S]:
        worst = max(late, key=lambda key: cpu[key]["worst_lag_s"])
        held_s = sum(busy_node_s(record.jobs) for record in records.values())
        given_up = 100 * sum(used["given_up_s"] for used in cpu.values()) / held_s if held_s else 0.0
        remarks.append(
            f"In {len(late)} of {len(records)} runs a place fell more than {LAG_LIMIT_S} s behind its rate, for the "
            f"cores were busy, most in {worst.spoken}: {cpu[worst]['worst_lag_s']:.2f} s. {given_up:.2f} % of all "
            "node-seconds were given up so; --repeat-lagged SECONDS does such runs again."
        )
    others = {key: used["others_share"] for key, used in cpu.items() if used["others_share"] is not None}
    if others:
        busiest = max(others, key=others.__getitem__)
        own = statistics.fmean(used["share"] for used in cpu.values())
        theirs = statistics.fmean(others.values())
        remarks.append(
            f"The jobs used {100 * own:.0f} % of the cores. Others used {100 * theirs:.0f} % meanwhile, which makes "
            f"starts and resizes slower (most in {busiest.spoken}: {100 * others[busiest]:.0f} %); "
            "--repeat-busy PERCENT does such runs again."
        )
    return remarks


def import_path() -> str:
    """Let the jobs import what this process imports, installed or not."""
    root = str(Path(__file__).resolve().parents[3])
    return os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH", ""))))
