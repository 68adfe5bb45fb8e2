"""One run of the batch: real jobs under one policy, submitted on time, watched, checked, and nothing left behind."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from scheduler_bridge.daemon import DaemonConfig, DaemonThread, JobRequest, Snapshot
from scheduler_bridge.daemon.daemon import drive
from scheduler_bridge.daemon.trial import children_cpu_s, result_of
from scheduler_bridge.demo.batch import Drawn
from scheduler_bridge.demo.pace import SHARE, Pace
from scheduler_bridge.jobrunner.processes import marked_processes
from scheduler_bridge.record import JobRecord, RunRecord, makespan_s, metrics
from scheduler_bridge.report import words

HANG_S = 1800.0
"""A job is ended this long after its walltime, and an order is withdrawn after as long. The walltimes are a user's
estimates, by which the scheduler plans; jobs that were ended at them would make the demo fail on a machine that is busy
with something else.
"""


@dataclass(frozen=True)
class Setting:
    """Where and how a batch is run.

    Attributes:
        nodes: Names of the emulated nodes.
        paces: Their speed for each benchmark.
        scratch: Folder for the scheduler's state and the jobs' results.
        environment: Given to every job.
        cores: Cores of this machine.
    """

    nodes: tuple[str, ...]
    paces: Mapping[str, Pace]
    scratch: Path
    environment: Mapping[str, str]
    cores: int


def run_batch(
    batch: Sequence[Drawn], policy: str, setting: Setting, show: Callable[[Snapshot, RunRecord], None]
) -> RunRecord:
    """Run ``batch`` under ``policy`` until its last job has ended; everything has ended on return.

    Args:
        batch: The jobs, by time of submission.
        policy: Name of the policy.
        setting: Where and how.
        show: Called several times a second with the present moment.
    """
    folder = setting.scratch / policy
    config = DaemonConfig(
        nodes=setting.nodes, policy=policy, state_dir=folder, walltime_grace_s=HANG_S, resize_deadline_s=HANG_S
    )
    cpu_s = children_cpu_s()
    with DaemonThread(config) as daemon:
        due = [(drawn.spec.submit_s, request(drawn, setting, folder)) for drawn in batch]
        for job_id, drawn in zip(drive(daemon, due, show), batch, strict=True):
            result = result_of(folder / f"{drawn.spec.name}.json")
            daemon.note_result(job_id, _checked(result, setting.paces[drawn.problem.benchmark]))
        record = daemon.record()
    record.notes += [emulation_note(setting), cost_note(record, setting, children_cpu_s() - cpu_s)]
    results = (job.result or {} for job in record.jobs)
    first: Mapping[str, Any] = next((one["provenance"] for one in results if "provenance" in one), {})
    kept = {name: first[name] for name in ("cpu", "cores", "mpi", "versions", "commit") if name in first}
    record.provenance |= kept | {"node speed": ", ".join(pace.words() for pace in setting.paces.values())}
    return record


def request(drawn: Drawn, setting: Setting, folder: Path) -> JobRequest:
    """Word the job as its user would submit it; its result goes to ``folder``."""
    job, problem = drawn.spec, drawn.problem
    pace = setting.paces[problem.benchmark]
    command = (sys.executable, "-m", f"apgas.benchmarks.{problem.benchmark}", *problem.arguments)
    options = ("--workers", "1", "--rate", f"{pace.rate:.6g}", "--json", str(folder / f"{job.name}.json"))
    return JobRequest(
        name=job.name,
        # BC knows no results by heart, and a sequential run inside the job would keep its nodes idle meanwhile: its
        # result is compared with that of the calibration instead.
        command=(*command, *options, *(() if pace.compares else ("--verify",))),
        job_class=job.job_class,
        nodes=job.nodes,
        min_nodes=job.min_nodes,
        max_nodes=job.max_nodes,
        walltime_s=drawn.walltime_s(pace.slowdown),
        user=job.user,
        environment=dict(setting.environment),
        cwd=str(folder),  # python -m looks into the current folder first, whatever may be there
    )


def _checked(result: Mapping[str, Any], pace: Pace) -> dict[str, Any]:
    """Return ``result`` with its check: the job's own, or the comparison with the calibration."""
    if not pace.compares or "error" in result:
        return dict(result)
    same = result["parameters"] == pace.parameters and result["result"] == pace.reference
    return {**result, "verified": same, "verified_by": "the sequential run of the calibration"}


def emulation_note(setting: Setting) -> str:
    """Say how the nodes were emulated."""
    rates = ", ".join(pace.words() for pace in setting.paces.values())
    return (
        f"{words.plural(len(setting.nodes), 'node')} emulated on {words.plural(setting.cores, 'core')}: each is held "
        f"to one work rate, at most {words.percent(SHARE)} of a core ({rates})."
    )


def cost_note(record: RunRecord, setting: Setting, cpu_s: float) -> str:
    """Say what the emulation cost, and whether it was honest; ``cpu_s``: CPU seconds of all processes of the jobs."""
    used = cpu_s / (setting.cores * makespan_s(record)) if makespan_s(record) > 0 else 0.0
    lags = worst_lags(record)
    said = ", ".join(f"{name} {lag_s:.2f} s" for name, lag_s in lags.items()) or "not reported"
    verdict = f" A lag above {LAG_LIMIT_S} s means that the cores were the bottleneck." if lagged(record) else ""
    return (
        f"CPU used: {words.percent(used)} of {words.plural(setting.cores, 'core')}. "
        f"Worst lag behind the rate: {said}.{verdict}"
    )


# Whether a demo succeeded --------------------------------------------------------------------------------------------

LAG_LIMIT_S: Final = 0.25
"""A node that lags more than this was not equal to the others: the cores were the bottleneck."""


def problems(records: Sequence[RunRecord], *, least_resizes: int, left: Sequence[int]) -> list[str]:
    """List what went wrong; empty: all is well.

    Args:
        records: The runs, the one with resizes last.
        least_resizes: How many grows, and how many shrinks, the last run must have carried out, unless its nodes
            lagged: then jobs end in another order than in the simulation that chose the batch.
        left: Ids of processes that are still there.
    """
    found = [f"{record.policy}: {_complaint(job)}" for record in records for job in record.jobs if _complaint(job)]
    if not lagged(records[-1]):
        found += too_few_resizes(records[-1], least_resizes)
    if left:
        found.append(f"processes {', '.join(map(str, left))} are still running")
    return found


def too_few_resizes(record: RunRecord, least: int) -> list[str]:
    """List which kinds of resizes were carried out fewer than ``least`` times."""
    total = metrics(record)
    return [
        f"{record.policy}: {count} {word}s were carried out, at least {least} are due"
        for word, count in (("grow", total.grows), ("shrink", total.shrinks))
        if count < least
    ]


def worst_lags(record: RunRecord) -> dict[str, float]:
    """By node, the longest time in seconds that a place on it was behind its rate."""
    worst: dict[str, float] = {}
    for job in record.jobs:
        for place in (job.result or {}).get("places", []):
            worst[place["node"]] = max(worst.get(place["node"], 0.0), place["worst_lag_s"])
    return {node: worst[node] for node in record.nodes if node in worst}


def lagged(record: RunRecord) -> bool:
    """Whether the cores were the bottleneck: a node was not equal to the others."""
    return any(lag_s > LAG_LIMIT_S for lag_s in worst_lags(record).values())


def _complaint(job: JobRecord) -> str:
    name = f"job {job.job_id} ({job.name})"
    if job.state != "completed":
        return f"{name} {job.state}: {job.reason}" if job.reason else f"{name} {job.state}"
    if job.verified is not True:
        return f"the result of {name} is {'wrong' if job.verified is False else 'not verified'}"
    return ""


# Processes that a run has left ---------------------------------------------------------------------------------------
#
# Every process of a run carries a mark in its environment.

ENV_RUN: Final = "MALLEABLE_DEMO"


def wait_gone(mark: str, patience_s: float = 1.0) -> list[int]:
    """Return what is left of ``mark`` after at most ``patience_s``: processes may not be reaped yet."""
    until_s = time.monotonic() + patience_s
    while (left := marked_processes(mark, ENV_RUN)) and time.monotonic() < until_s:
        time.sleep(0.05)
    return left
