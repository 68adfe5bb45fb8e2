"""A scheduling policy of one's own: the shortest job first, checked and compared."""

from __future__ import annotations

import random
from collections.abc import Sequence

from scheduler_bridge import policies
from scheduler_bridge.model import ClusterView, JobClass, JobSpec
from scheduler_bridge.policies.backfill import Easy
from scheduler_bridge.policies.compose import AtMinimum, ComposedPolicy, at_minimum
from scheduler_bridge.policies.redistribution import ABOVE_MINIMUM, ByPriority
from scheduler_bridge.sim import SimJob, check_policy, random_scenario, simulate


@policies.register
def shortest_first(patience: float = 0.1) -> policies.Policy:
    """Shortest first: jobs with short walltimes come first, and who has waited for long comes before them.

    Parameters: ``patience``, by how many seconds a second of waiting shortens a job's walltime in the comparison.

    Source: shortest job first is as old as batch systems; waiting as a bonus keeps long jobs from starving.
    """

    def order(view: ClusterView, now: float) -> Sequence[JobSpec]:
        return sorted(view.queue, key=lambda spec: spec.walltime_s - patience * (now - spec.submit_s))

    return ComposedPolicy("shortest-first", order, Easy(at_minimum), AtMinimum(), ByPriority(ABOVE_MINIMUM))


def workload(count: int) -> list[SimJob]:
    """Jobs of very different lengths, half of them malleable, a little more than 16 nodes can take."""
    rng = random.Random(42)
    jobs = []
    for job_id in range(count):
        nodes, runtime_s = rng.choice([1, 2, 4, 8]), rng.choice([60.0, 600.0, 3600.0])
        low, high = (1, 2 * nodes) if job_id % 2 else (nodes, nodes)
        job_class: JobClass = "malleable" if job_id % 2 else "rigid"
        submit_s = rng.uniform(0, 300.0 * count)
        spec = JobSpec(job_id, "job", "user", job_class, nodes, low, high, 2.0 * runtime_s, submit_s)
        jobs.append(SimJob(spec, runtime_s, grow_s=5.0, shrink_s=5.0))
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
