"""Checks a scheduling policy of one's own, and compares it with others."""

from __future__ import annotations

import random

from shortest_first import shortest_first

from scheduler_bridge import policies
from scheduler_bridge.model import JobClass
from scheduler_bridge.sim import Dynamics, Simulated, check_policy, random_scenario, simulate
from scheduler_bridge.workloads import TraceJob


def workload(count: int) -> list[Simulated]:
    """Jobs of very different lengths, half of them malleable, a little more than 16 nodes can take."""
    rng = random.Random(42)
    jobs = []
    for job_id in range(count):
        nodes, runtime_s = rng.choice([1, 2, 4, 8]), rng.choice([60.0, 600.0, 3600.0])
        low, high = (1, 2 * nodes) if job_id % 2 else (nodes, nodes)
        job_class: JobClass = "malleable" if job_id % 2 else "rigid"
        submit_s = rng.uniform(0, 300.0 * count)
        job = TraceJob(job_id, submit_s, runtime_s, 2.0 * runtime_s, nodes, low, high, job_class)
        jobs.append((job, Dynamics(grow_s=5.0, shrink_s=5.0)))
    return jobs


def mean_wait_s(policy: str) -> float:
    """The mean wait of 200 jobs on 16 nodes."""
    records = simulate(16, policies.get(policy), workload(200)).records.values()
    return sum(record.wait_s or 0.0 for record in records) / len(records)


def main() -> None:
    """Check the policy, then compare it."""
    for seed in range(100):
        check_policy(shortest_first, random_scenario(seed))
    print("100 scenarios: nothing wrong")
    for policy in ("easy", "min", "shortest-first"):
        print(f"{policy}: mean wait {mean_wait_s(policy):.0f} s")


if __name__ == "__main__":
    main()
