"""FCFS, EASY and conservative against naive second implementations that share no code: the same starts, job by job."""

from __future__ import annotations

import csv
import gzip
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.simulated import simulated

from scheduler_bridge import policies
from scheduler_bridge.model import JobSpec
from scheduler_bridge.sim import simulate


@dataclass
class Job:
    submit: float
    nodes: int
    runtime: float
    walltime: float


def naive_starts(jobs: list[Job], nodes: int, *, easy: bool) -> list[float]:
    """Start times by the textbook: at every instant, look at all that runs and waits anew."""
    start: dict[int, float] = {}
    arriving = sorted(range(len(jobs)), key=lambda i: (jobs[i].submit, i), reverse=True)
    queue: list[int] = []
    busy: list[int] = []
    while arriving or busy:
        now = min([jobs[i].submit for i in arriving[-1:]] + [start[i] + jobs[i].runtime for i in busy])
        busy = [i for i in busy if start[i] + jobs[i].runtime > now]
        while arriving and jobs[arriving[-1]].submit == now:
            queue.append(arriving.pop())
        free = nodes - sum(jobs[i].nodes for i in busy)
        shadow = spare = None
        for i in list(queue):
            job = jobs[i]
            if free == 0 and shadow is not None:
                break
            if job.nodes > free:
                if shadow is not None:
                    continue
                if not easy:
                    break
                for time in sorted({start[j] + jobs[j].walltime for j in busy}):
                    then = free + sum(jobs[j].nodes for j in busy if start[j] + jobs[j].walltime <= time)
                    if then >= job.nodes:
                        shadow, spare = time, then - job.nodes
                        break
                continue
            if shadow is not None and spare is not None and now + job.walltime > shadow:
                if job.nodes > spare:
                    continue
                spare -= job.nodes
            start[i] = now
            busy.append(i)
            queue.remove(i)
            free -= job.nodes
    return [start[i] for i in range(len(jobs))]


def naive_conservative_starts(jobs: list[Job], nodes: int) -> list[float]:
    """Start times if everybody holds a reservation that moves only forward; spans are looked through one by one."""
    start: dict[int, float] = {}
    promised: dict[int, float] = {}
    instants = {job.submit for job in jobs}
    now = -1.0
    while instants:
        now = min(instants)
        instants.remove(now)
        spans = {i: (start[i], start[i] + jobs[i].walltime) for i in start if start[i] + jobs[i].runtime > now}
        waiting = sorted((job.submit, i) for i, job in enumerate(jobs) if job.submit <= now and i not in start)
        for _, i in waiting:
            others = {j: (time, time + jobs[j].walltime) for j, time in promised.items() if j != i} | spans
            for time in sorted({now} | {end for _, end in others.values() if end > now}):
                until = time + jobs[i].walltime
                moments = [time] + [begin for begin, _ in others.values() if time < begin < until]
                busy = [sum(jobs[j].nodes for j, (a, b) in others.items() if a <= moment < b) for moment in moments]
                if max(busy) + jobs[i].nodes <= nodes:
                    promised[i] = time
                    break
            if promised[i] == now:
                start[i] = now
                spans[i] = (now, now + jobs[i].walltime)
                del promised[i]
                instants.add(now + jobs[i].runtime)
    return [start[i] for i in range(len(jobs))]


def core_starts(jobs: list[Job], nodes: int, policy: str) -> list[float]:
    sims = [
        simulated(JobSpec(i, "j", "u", "rigid", job.nodes, job.nodes, job.nodes, job.walltime, job.submit), job.runtime)
        for i, job in enumerate(jobs)
    ]
    records = simulate(nodes, policies.get(policy), sims).records
    starts = [records[i].start_s for i in range(len(jobs))]
    return [start for start in starts if start is not None]


def random_jobs(rng: random.Random, nodes: int) -> list[Job]:
    """Whole seconds, so that ends, submissions and reservations often fall together.

    No job runs over its walltime: the order to end and the end are two events, for which this oracle has no notion.
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


def test_same_starts_as_the_naive_conservative_scheduler_on_random_workloads() -> None:
    differ = 0
    for seed in range(60):
        rng = random.Random(seed)
        nodes = rng.randint(1, 16)
        jobs = random_jobs(rng, nodes)
        expected = naive_conservative_starts(jobs, nodes)
        assert core_starts(jobs, nodes, "conservative") == expected, f"seed {seed}"
        differ += expected != naive_starts(jobs, nodes, easy=True)
    assert differ > 20  # otherwise the comparison would prove little


def test_backfilling_matters_in_the_random_workloads() -> None:
    """Guards the comparison above: a workload on which both policies agree anyway would prove little."""
    differ = 0
    for seed in range(50):
        rng = random.Random(seed)
        nodes = rng.randint(1, 16)
        jobs = random_jobs(rng, nodes)
        differ += naive_starts(jobs, nodes, easy=True) != naive_starts(jobs, nodes, easy=False)
    assert differ > 20


@dataclass(frozen=True)
class Trace:
    """A trace and its machine; ``cores`` of the trace's processors make a node."""

    file: str
    nodes: int
    cores: int = 1

    def jobs(self, folder: Path, count: int) -> list[Job]:
        """The first ``count`` jobs that ran and fit the machine; no job runs over its walltime."""
        found: list[Job] = []
        path = folder / "traces" / self.file
        for submit, runtime, processors, walltime in _lumos(path) if ".csv" in path.name else _swf(path):
            nodes = -(-processors // self.cores)
            if runtime > 0 and 0 < nodes <= self.nodes:
                found.append(Job(submit, nodes, runtime, max(runtime, walltime)))
                if len(found) == count:
                    break
        return found


def _swf(path: Path) -> Iterator[tuple[float, float, int, float]]:
    with gzip.open(path, "rt", encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if fields := [] if line.startswith(";") else line.split():
                yield float(fields[1]), float(fields[3]), max(int(fields[7]), int(fields[4])), float(fields[8])


def _lumos(path: Path) -> Iterator[tuple[float, float, int, float]]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for row in csv.DictReader(lines):
            yield (
                float(row["submit_time"]),
                float(row["run_time"]),
                int(float(row["node_num"])),
                float(row["wall_time"]),
            )


TRACES = [
    Trace("theta_2023_feb_dec_dras.swf.gz", 4360),
    Trace("lumos_data_theta.csv.gz", 4360),
    Trace("LLNL-Atlas-2006-2.1-cln.swf.gz", 1152, cores=8),
    Trace("CEA-Curie-sample-unfiltered.swf.gz", 5832, cores=16),
]


@pytest.mark.parametrize("policy", ["fcfs", "easy"])
@pytest.mark.parametrize("trace", TRACES, ids=lambda trace: trace.file.split(".")[0])
def test_same_starts_as_the_naive_scheduler_on_10000_jobs_of_each_trace(
    trace: Trace, policy: str, data_folder: Path
) -> None:
    jobs = trace.jobs(data_folder, 10_000)
    assert len(jobs) == 10_000
    assert core_starts(jobs, trace.nodes, policy) == naive_starts(jobs, trace.nodes, easy=policy == "easy")
