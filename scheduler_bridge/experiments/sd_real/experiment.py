"""``malleable experiment sd-real``: real processes that share nodes, under SD-Policy and under static backfill."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from scheduler_bridge.experiments.outcome import Outcome, Picture
from scheduler_bridge.experiments.real_runs.experiment import LAG_LIMIT_S, import_path
from scheduler_bridge.experiments.real_runs.findings import faults, honesty_table
from scheduler_bridge.experiments.real_runs.keeping import alone_in
from scheduler_bridge.experiments.real_runs.plan import RunKey
from scheduler_bridge.experiments.real_runs.presenting import of_runs
from scheduler_bridge.experiments.real_runs.problems import calibrate
from scheduler_bridge.experiments.real_runs.runner import Runner, Watcher, quality, run_all
from scheduler_bridge.experiments.sd_real import findings
from scheduler_bridge.experiments.sd_real.findings import meetings
from scheduler_bridge.experiments.sd_real.plan import PLANS, SHARED, Scale, SharedPlan
from scheduler_bridge.experiments.study import counted
from scheduler_bridge.record import RunRecord, metrics
from scheduler_bridge.report.words import seconds

NAME: Final = "sd-real"
_NOTE: Final = (
    "Every job is a real mpiexec with a place on each of its nodes and a thread for each of its cores; orders to use "
    "fewer or more cores are carried out while it computes. What is emulated are the nodes: a core is held to a rate."
)
_STATIC: Final = (
    "Static backfill is the policy conservative: each waiting job has a reservation, as under sd-policy where nobody "
    "shares. Slowdown is response time by what the same job took under static backfill."
)
_STARTS: Final = (
    "A job here takes seconds, of which its start is a good part; while one starts, another one computes on the same "
    "nodes where they share, so that sharing saves more than it would with jobs of hours."
)
_ENOUGH: Final = 20
"""A batch of fewer jobs is for a look: the paper's claims are not judged by it."""
_ENERGY: Final = "Energy is an estimate from busy and idle nodes, parts of nodes as parts. The paper measured it."


def run(
    folder: Path,
    scale: Scale,
    *,
    tell: Callable[[str], None] = lambda _: None,
    watcher: Watcher | None = None,
) -> Outcome:
    """Run the batches that ``folder`` does not hold yet, and say what all of them show.

    Args:
        folder: Keeps the record of every run; an interrupted experiment goes on there.
        scale: ``tiny``: three jobs on two nodes; ``small``: three batches of 30 jobs on eight nodes.
        tell: Called with lines about what is prepared.
        watcher: Sees the runs go on.

    Raises:
        CalibrationError: A benchmark does not run.
        DaemonError: The scheduler cannot start.
        OSError: A record cannot be written.
    """
    plan = PLANS[scale]
    folder.mkdir(parents=True, exist_ok=True)
    environment = {"PYTHONPATH": import_path()}
    with alone_in(folder):
        problems = calibrate(plan.problems(), folder, environment, lambda name: tell(f"measuring {name} at full speed"))
        records = run_all(Runner(plan, problems, folder, environment), watcher)
    return conclude(plan, records)


def conclude(plan: SharedPlan, records: Mapping[RunKey, RunRecord]) -> Outcome:
    """Say what the runs show.

    Args:
        plan: What was run.
        records: Its runs, each batch under both policies.
    """
    from scheduler_bridge.experiments.sd_real.figure import draw_changes
    from scheduler_bridge.report.gantt import describe, draw

    met = meetings(record for key, record in records.items() if key.policy == SHARED)
    wrong = [*faults(records), *met.clashes]
    found = findings.by_policy(records)
    claims, words = findings.claims_table(found, enough=plan.jobs >= _ENOUGH)
    shared = findings.sharers(record for key, record in records.items() if key.policy == SHARED)
    jobs = sum(len(record.jobs) for record in records.values())
    results = "every result is right" if not wrong else f"{len(wrong)} jobs failed, are wrong or shared a core"
    where = f"{plan.nodes} nodes of {plan.cores} cores emulated on one machine of {os.cpu_count()} cores"
    lag_s = max(quality(record)[1] for record in records.values())
    late = f"A place fell {lag_s:.1f} s behind its rate: the cores of the machine were the bottleneck."
    seed = plan.seeds[0]
    drawn = [record for key, record in records.items() if key.seed == seed]
    return Outcome(
        NAME,
        "SD-Policy on real jobs that share nodes",
        f"{len(records)} runs, {jobs} jobs: {results}; {shared} jobs started on nodes of others."
        f"{f' {counted(words)}.' if plan.jobs >= _ENOUGH else ''}",
        (
            f"Emulated: {where}.",
            _NOTE,
            f"Cores: {met.said()}",
            _STARTS,
            _STATIC,
            _ENERGY,
            *([late] if lag_s > LAG_LIMIT_S else []),
            *wrong,
        ),
        (findings.merit_table(found), claims, findings.jobs_table(records), honesty_table(records)),
        {
            "changes": draw_changes(found, len(records)),
            "nodes": Picture(
                draw(drawn, finding=_finding(drawn)), f"One batch under both policies, seed {seed}.", describe(drawn)
            ),
        },
        passed=not wrong and shared > 0,
        provenance=of_runs(records),
    )


def _finding(records: Sequence[RunRecord]) -> str:
    """What sharing does to the waits of a batch."""
    waits = {record.policy: seconds(metrics(record).mean_wait_s) for record in records}
    return "Mean wait: " + ", ".join(
        f"{wait} under {policy}{', where jobs share nodes' if policy == SHARED else ''}"
        for policy, wait in waits.items()
    )
