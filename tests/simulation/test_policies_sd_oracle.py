"""SD-Policy with one mate against a naive scheduler that shares no code with it: the same starts and ends."""

from __future__ import annotations

import random
from dataclasses import dataclass

import pytest
from support.simulated import simulated

from scheduler_bridge import policies
from scheduler_bridge.core import Settings
from scheduler_bridge.model import JobSpec
from scheduler_bridge.sim import Engine

NODES = 6
WORKLOADS = 150


@dataclass
class Job:
    """A job that needs exactly the time that it asked for. ``mate``: the one with which it shares its nodes."""

    number: int
    nodes: int
    asks_s: float
    submit_s: float
    malleable: bool
    start_s: float = -1.0
    end_s: float = -1.0
    mate: Job | None = None
    is_guest: bool = False
    takes_orders: bool = False


def free_at(time_s: float, running: list[Job], booked: list[tuple[float, float, int]]) -> int:
    held = sum(job.nodes for job in running if not job.is_guest and job.start_s <= time_s < job.end_s)
    return NODES - held - sum(nodes for from_s, to_s, nodes in booked if from_s <= time_s < to_s)


def earliest(job: Job, now: float, running: list[Job], booked: list[tuple[float, float, int]]) -> float:
    times = sorted({now, *(r.end_s for r in running), *(to_s for _, to_s, _ in booked)})
    for start_s in [time_s for time_s in times if time_s >= now]:
        changes = [start_s, *(t for booking in booked for t in booking[:2]), *(r.end_s for r in running)]
        inside = [time_s for time_s in changes if start_s <= time_s < start_s + job.asks_s]
        if all(free_at(time_s, running, booked) >= job.nodes for time_s in inside):
            return start_s
    raise AssertionError("it never fits")


def find_mate(job: Job, now: float, static_s: float, running: list[Job], limit: float) -> Job | None:
    """The host with the smallest penalty; the newcomer takes twice its time on half of the cores."""
    found: list[tuple[float, int, Job]] = []
    for host in running:
        delayed_s = host.end_s + job.asks_s
        penalty = (host.start_s - host.submit_s + delayed_s - host.start_s) / host.asks_s
        able = host.takes_orders and host.malleable and host.mate is None and host.nodes == job.nodes
        if able and penalty < limit and now + 2 * job.asks_s <= delayed_s:
            found.append((penalty, host.number, host))
    return min(found)[2] if found and now + 2 * job.asks_s < static_s + job.asks_s else None


def one_pass(now: float, waiting: list[Job], running: list[Job], limit: float) -> bool:
    """Start what can start; return whether anything does."""
    booked: list[tuple[float, float, int]] = []
    before = len(running)
    for job in list(waiting):
        start_s = earliest(job, now, running, booked)
        mate = find_mate(job, now, start_s, running, limit) if job.malleable and start_s > now else None
        if start_s == now:
            job.start_s, job.end_s = now, now + job.asks_s
        elif mate is not None:
            job.start_s, job.end_s, job.mate, job.is_guest = now, now + 2 * job.asks_s, mate, True
            mate.mate, mate.end_s, mate.takes_orders = job, mate.end_s + job.asks_s, False
        else:
            booked.append((start_s, start_s + job.asks_s, job.nodes))
            continue
        waiting.remove(job)
        running.append(job)
    return len(running) > before


def naive(jobs: list[Job], limit: float) -> None:
    """Run all jobs: at each instant pass after pass, since who has just started or lost a guest can be a mate next."""
    coming, waiting, running = sorted(jobs, key=lambda j: (j.submit_s, j.number)), list[Job](), list[Job]()
    while coming or waiting or running:
        now = min([job.end_s for job in running] + [job.submit_s for job in coming[:1]])
        for over in [job for job in running if job.end_s == now]:
            running.remove(over)
            if over.mate is not None:
                over.mate.mate, over.mate.is_guest, over.mate.takes_orders = None, False, False
        while coming and coming[0].submit_s == now:
            waiting.append(coming.pop(0))
        while one_pass(now, waiting, running, limit) or not all(job.takes_orders for job in running):
            for job in running:
                job.takes_orders = True


def drawn(seed: int) -> list[Job]:
    rng = random.Random(seed)
    return [
        Job(n, rng.randint(1, NODES), float(rng.randint(1, 60)), float(rng.randint(0, 60)), rng.random() < 0.8)
        for n in range(rng.randint(2, 14))
    ]


@pytest.mark.parametrize("limit", [2.0, 10.0])
def test_jobs_start_and_end_as_under_the_naive_scheduler(limit: float) -> None:
    guests = 0
    for seed in range(WORKLOADS):
        jobs = drawn(seed)
        sims = [
            simulated(
                JobSpec(
                    job.number, "j", "u", "malleable" if job.malleable else "rigid",
                    job.nodes, job.nodes, job.nodes, job.asks_s, job.submit_s,
                ),
                job.asks_s,
            )
            for job in jobs
        ]  # fmt: skip
        policy = policies.get("sd-policy", mates=1, max_slowdown=str(limit))
        records = Engine(NODES, policy, Settings(cores_per_node=4), sharing="worst").run(sims).records
        naive(jobs, limit)
        found = {number: (record.start_s, record.end_s) for number, record in records.items()}
        assert found == {job.number: (job.start_s, job.end_s) for job in jobs}, f"seed {seed}"
        guests += sum(1 for record in records.values() if record.shares and record.shares[0][0] == record.start_s)
    assert guests > WORKLOADS / 5
