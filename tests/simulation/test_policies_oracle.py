"""FCFS and EASY against a naive second implementation that shares no code: the same start times, job by job."""

from __future__ import annotations

import gzip
import random
from dataclasses import dataclass
from pathlib import Path

import pytest

from scheduler_bridge import policies
from scheduler_bridge.model import JobSpec
from scheduler_bridge.sim import SimJob, simulate

TRACES = Path(__file__).parents[3] / "shared" / "data" / "traces"


@dataclass
class Job:
    submit: float
    nodes: int
    runtime: float
    walltime: float


def naive_starts(jobs: list[Job], nodes: int, *, easy: bool) -> list[float]:
    """Start times by the textbook: at every instant, look at everything anew."""
    start: dict[int, float] = {}
    end: dict[int, float] = {}
    instants = {job.submit for job in jobs}
    done: set[float] = set()
    while instants - done:
        now = min(instants - done)
        done.add(now)
        queue = [i for i, job in enumerate(jobs) if job.submit <= now and i not in start]
        queue.sort(key=lambda i: (jobs[i].submit, i))
        busy = [i for i in start if end[i] > now]
        free = nodes - sum(jobs[i].nodes for i in busy)
        shadow = spare = None
        for i in queue:
            job = jobs[i]
            if shadow is None and job.nodes > free:
                if not easy:
                    break
                ends = sorted({start[j] + jobs[j].walltime for j in busy})
                for time in ends:
                    then = free + sum(jobs[j].nodes for j in busy if start[j] + jobs[j].walltime <= time)
                    if then >= job.nodes:
                        shadow, spare = time, then - job.nodes
                        break
                continue
            if job.nodes > free:
                continue
            if shadow is not None and spare is not None and now + job.walltime > shadow:
                if job.nodes > spare:
                    continue
                spare -= job.nodes
            start[i], end[i] = now, now + job.runtime
            busy.append(i)
            free -= job.nodes
            instants.add(end[i])
    return [start[i] for i in range(len(jobs))]


def core_starts(jobs: list[Job], nodes: int, policy: str) -> list[float]:
    sims = [
        SimJob(JobSpec(i, "j", "u", "rigid", job.nodes, job.nodes, job.nodes, job.walltime, job.submit), job.runtime)
        for i, job in enumerate(jobs)
    ]
    records = simulate(nodes, policies.get(policy), sims).records
    starts = [records[i].start_s for i in range(len(jobs))]
    return [start for start in starts if start is not None]


def random_jobs(rng: random.Random, nodes: int) -> list[Job]:
    """Whole seconds, so that ends, submissions and reservations often fall together.

    Nobody runs over the walltime: telling a job to end and its end are two events, for which this oracle has no notion.
    """
    jobs = []
    for _ in range(rng.randint(1, 60)):
        walltime = rng.choice([1, 2, 5, 10, rng.randint(1, 40)])
        runtime = rng.choice([walltime, rng.randint(1, walltime)])
        size = rng.choice([1, rng.randint(1, nodes), nodes])
        jobs.append(Job(float(rng.randint(0, 80)), size, float(runtime), float(walltime)))
    return jobs


@pytest.mark.parametrize("policy", ["fcfs", "easy"])
def test_same_starts_as_the_naive_scheduler_on_random_workloads(policy: str) -> None:
    for seed in range(300):
        rng = random.Random(seed)
        nodes = rng.randint(1, 16)
        jobs = random_jobs(rng, nodes)
        assert core_starts(jobs, nodes, policy) == naive_starts(jobs, nodes, easy=policy == "easy"), f"seed {seed}"


def test_backfilling_matters_in_the_random_workloads() -> None:
    """Guards the comparison above: a workload on which both policies agree anyway would prove little."""
    differ = 0
    for seed in range(50):
        rng = random.Random(seed)
        nodes = rng.randint(1, 16)
        jobs = random_jobs(rng, nodes)
        differ += naive_starts(jobs, nodes, easy=True) != naive_starts(jobs, nodes, easy=False)
    assert differ > 20


def theta_jobs(count: int) -> list[Job]:
    path = TRACES / "theta_2023_feb_dec_dras.swf.gz"
    if not path.exists():
        pytest.skip(f"needs {path.name} in ../shared/data/traces beside the project")
    jobs: list[Job] = []
    with gzip.open(path, "rt") as lines:
        for line in lines:
            fields = [] if line.startswith(";") else line.split()
            if fields and float(fields[3]) > 0 and 0 < int(fields[7]) <= 4360:
                submit, runtime, nodes, walltime = (float(fields[i]) for i in (1, 3, 7, 8))
                jobs.append(Job(submit, int(nodes), runtime, max(walltime, runtime)))
                if len(jobs) == count:
                    break
    return jobs


@pytest.mark.parametrize("policy", ["fcfs", "easy"])
def test_same_starts_as_the_naive_scheduler_on_a_real_trace(policy: str) -> None:
    jobs = theta_jobs(2000)
    assert core_starts(jobs, 4360, policy) == naive_starts(jobs, 4360, easy=policy == "easy")
