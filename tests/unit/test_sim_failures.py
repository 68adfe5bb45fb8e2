"""Jobs that lose nodes: run again, from checkpoints, or going on without; by hand, and what must always hold."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs
from support.simulated import simulated

from scheduler_bridge import policies
from scheduler_bridge.core import Settings, settings_for
from scheduler_bridge.core.events import CancelJob, Event, NodeDown, NodeUp
from scheduler_bridge.model import JobSpec
from scheduler_bridge.policies.base import jobs_per_node
from scheduler_bridge.sim import (
    Auditor,
    Behaviour,
    CheckpointPlan,
    Engine,
    FaultTolerance,
    Losses,
    Measures,
    ReplayOptions,
    SimRecord,
    SimResult,
    Simulated,
    daly_s,
    earliest_end_s,
    measure,
    node_names,
    parse_cost,
    random_failures,
    replay,
    simulate,
    young_s,
)
from scheduler_bridge.sim.failures import Rhythm, node_s
from scheduler_bridge.workloads import convert
from scheduler_bridge.workloads.generate import generate

AGAIN = FaultTolerance()


def rigid(job_id: int, nodes: int, runtime_s: float, tolerance: FaultTolerance | None = AGAIN) -> Simulated:
    return simulated(JobSpec(job_id, "r", "u", "rigid", nodes, nodes, nodes, 1e6, 0.0), runtime_s, tolerance=tolerance)


def malleable(job_id: int, high: int, runtime_s: float, tolerance: FaultTolerance) -> Simulated:
    spec = JobSpec(job_id, "m", "u", "malleable", 1, 1, high, 1e6, 0.0)
    return simulated(spec, runtime_s, tolerance=tolerance)


def down(time_s: float, node: int, until_s: float = 1000.0) -> list[tuple[float, Event]]:
    return [(time_s, NodeDown(f"n{node:04d}")), (until_s, NodeUp(f"n{node:04d}"))]


def ran(
    nodes: int, jobs: Iterable[Simulated], events: Iterable[tuple[float, Event]], policy: str = "easy"
) -> SimResult:
    engine = Engine(nodes, policies.get(policy), observer=Auditor(node_names(nodes)), check=True)
    result = engine.run(jobs, events)
    assert not engine.core.anomalies
    return result


def losses_of(record: SimRecord) -> Losses:
    assert record.losses is not None
    return record.losses


def test_a_lost_job_is_run_again_behind_those_that_wait() -> None:
    # Two nodes. Job 0 has both, and is lost at 30 s; one is left, on which job 1 runs to 70 s. The other one is back at
    # 50 s; job 0 begins again at 70 s.
    found = ran(2, [rigid(0, 2, 100.0), rigid(1, 1, 40.0)], down(30.0, 0, 50.0)).records
    assert (found[1].start_s, found[1].end_s) == (30.0, 70.0)
    record = found[0]
    assert (record.start_s, record.end_s, record.outcome) == (0.0, 170.0, "completed")
    assert (record.wait_s, record.runtime_s, record.useful_s) == (40.0, 130.0, 100.0)
    assert record.sizes == [(0.0, 2), (30.0, 0), (70.0, 2)]
    assert (losses_of(record).restarts, losses_of(record).lost) == (1, [(0.0, 30.0, 2.0)])


def test_turnaround_counts_from_the_first_submission_and_lost_work_is_apart() -> None:
    result = ran(2, [rigid(0, 2, 100.0)], down(30.0, 0, 50.0))
    found = measure(result.records.values(), 2, node_failures=result.failures)
    assert (found.every.mean_turnaround_s, found.every.mean_wait_s, found.every.mean_runtime_s) == (150.0, 20.0, 130.0)
    assert (found.every.mean_slowdown, found.every.killed) == (1.5, 0)
    assert (found.utilization, found.useful, found.lost) == pytest.approx((260 / 300, 200 / 300, 60 / 300))
    assert found.faults is not None
    assert (found.faults.node_failures, found.faults.job_failures, found.faults.restarts) == (1, 1, 1)
    assert found.faults.lost_node_s == 60.0


def test_a_job_that_is_lost_for_good_is_in_no_mean_and_all_its_work_is_lost() -> None:
    fails = FaultTolerance(requeue=False)
    result = ran(2, [rigid(0, 1, 100.0, fails), rigid(1, 1, 40.0, fails)], down(30.0, 0))
    assert (result.records[0].outcome, result.records[0].end_s) == ("lost", 30.0)
    found = measure(result.records.values(), 2)
    assert (found.every.jobs, found.every.mean_turnaround_s) == (1, 40.0)
    assert (found.useful, found.lost) == pytest.approx((0.5, 30 / 80))
    assert found.faults is not None
    assert (found.faults.lost_jobs, found.faults.lost_jobs_share) == (1, 0.5)


def test_without_a_word_about_it_a_job_is_lost_for_good() -> None:
    assert ran(1, [rigid(0, 1, 9.0, None)], down(5.0, 0)).records[0].outcome == "lost"


def test_a_job_is_run_as_often_as_it_may() -> None:
    events = [event for time_s in (10.0, 20.0, 30.0) for event in down(time_s, 0, time_s + 1.0)]
    twice = ran(1, [rigid(0, 1, 50.0, FaultTolerance(attempts=2))], events).records[0]
    assert (twice.outcome, twice.end_s, losses_of(twice).restarts) == ("lost", 20.0, 1)
    thrice = ran(1, [rigid(0, 1, 50.0, FaultTolerance(attempts=4))], events).records[0]
    assert (thrice.outcome, thrice.end_s, losses_of(thrice).restarts) == ("completed", 81.0, 3)


def test_a_job_goes_on_from_its_last_checkpoint() -> None:
    # 35 s of work, a checkpoint of 2 s after each 10 s: 10, 2, 10, 2, and 6 s more until it is lost at 30 s. 15 s are
    # left. It begins again at 50 s, restarts for 3 s, computes 10 s, writes for 2 s, and computes 5 s.
    tolerance = FaultTolerance(checkpoints=CheckpointPlan(2.0, every_s=10.0), restart_s=3.0)
    record = ran(1, [rigid(0, 1, 35.0, tolerance)], down(30.0, 0, 50.0)).records[0]
    assert record.end_s == pytest.approx(70.0)
    losses = losses_of(record)
    assert losses.checkpoints == 3
    assert losses.lost == [(24.0, 30.0, 1.0)]
    assert losses.restarting == [(50.0, 53.0, 1.0)]
    assert node_s(losses.checkpointing) == pytest.approx(6.0)
    assert record.useful_s == pytest.approx(35.0)


def test_checkpoints_take_time_where_nothing_fails() -> None:
    tolerance = FaultTolerance(checkpoints=CheckpointPlan(2.0, every_s=10.0))
    ends = [ran(1, [rigid(0, 1, work_s, tolerance)], ()).records[0].end_s for work_s in (10.0, 10.5, 30.0, 31.0)]
    assert ends == [10.0, 12.5, 34.0, 37.0]


def test_a_checkpoint_that_is_cut_short_keeps_nothing() -> None:
    tolerance = FaultTolerance(checkpoints=CheckpointPlan(4.0, every_s=10.0))
    record = ran(1, [rigid(0, 1, 20.0, tolerance)], down(12.0, 0, 20.0)).records[0]
    assert record.end_s == 20.0 + 10.0 + 4.0 + 10.0
    assert (node_s(losses_of(record).lost), node_s(losses_of(record).checkpointing)) == pytest.approx((10.0, 6.0))


def test_a_resilient_job_goes_on_without_the_node() -> None:
    # 4 nodes, 100 node-seconds. At 10 s one is lost, with a quarter of the 40 that are done: 70 are left for 3 nodes.
    tolerance = FaultTolerance(resilient=True)
    record = ran(4, [malleable(0, 4, 100.0, tolerance)], down(10.0, 2)).records[0]
    assert record.sizes == [(0.0, 4), (10.0, 3)]
    assert record.end_s == pytest.approx(10.0 + 70.0 / 3)
    assert node_s(losses_of(record).lost) == pytest.approx(10.0)
    assert (losses_of(record).restarts, losses_of(record).failures) == (0, 1)


def test_a_resilient_job_pauses_and_does_without_its_first_node_never() -> None:
    tolerance = FaultTolerance(resilient=True, restart_s=6.0)
    record = ran(4, [malleable(0, 4, 100.0, tolerance)], down(10.0, 2)).records[0]
    assert record.end_s == pytest.approx(16.0 + 70.0 / 3)
    assert losses_of(record).restarting == [(10.0, 16.0, 3.0)]
    first = ran(4, [malleable(0, 4, 100.0, tolerance)], down(10.0, 0)).records[0]
    assert losses_of(first).restarts == 1


def test_of_what_a_checkpoint_keeps_a_resilient_job_loses_nothing() -> None:
    # as above, but 8 of the 10 s are kept: a quarter of 8 node-seconds is done again
    tolerance = FaultTolerance(resilient=True, checkpoints=CheckpointPlan(0.0, every_s=8.0))
    record = ran(4, [malleable(0, 4, 100.0, tolerance)], down(10.0, 2)).records[0]
    assert node_s(losses_of(record).lost) == pytest.approx(2.0)
    assert record.end_s == pytest.approx(10.0 + 62.0 / 3)


def test_a_grow_goes_without_a_node_that_is_lost_meanwhile() -> None:
    # Job 0 starts on 2 nodes beside job 1, which ends at 10 s: it grows to 4 in 5 s, and loses a node on its way to it.
    tolerance = FaultTolerance(resilient=True)
    grower = simulated(JobSpec(0, "m", "u", "malleable", 1, 1, 4, 1e6, 0.0), 100.0, grow_s=5.0, tolerance=tolerance)
    other = rigid(1, 2, 10.0)
    record = ran(4, [grower, other], down(12.0, 3), "malleable").records[0]
    assert record.sizes == [(0.0, 2), (15.0, 3)]
    assert record.end_s == pytest.approx(15.0 + 70.0 / 3)
    assert losses_of(record).failures == 0


def test_one_that_is_cancelled_while_it_waits_to_be_run_again_ends_then() -> None:
    record = ran(1, [rigid(0, 1, 50.0)], [*down(10.0, 0), (40.0, CancelJob(0))]).records[0]
    assert (record.outcome, record.end_s, record.wait_s, record.runtime_s) == ("cancelled", 40.0, 30.0, 10.0)


def test_a_rerun_does_not_ask_again_for_what_it_asked_before_its_checkpoint() -> None:
    tolerance = FaultTolerance(checkpoints=CheckpointPlan(0.0, every_s=10.0))
    spec = JobSpec(0, "m", "u", "malleable", 4, 1, 4, 1e6, 0.0)
    sim = simulated(spec, 100.0, wishes=((0.25, -2), (0.5, 2)), tolerance=tolerance)
    # it offers 2 of its 4 nodes at 25 s, and is lost at 42 s, at 0.335 of its work; at 0.3 it goes on with 4 nodes
    record = ran(4, [sim], down(42.0, 3, 50.0)).records[0]
    assert record.shrinks == 1
    assert record.outcome == "completed"


@pytest.mark.parametrize("seed", range(40))
def test_all_node_seconds_are_useful_lost_or_overhead(seed: int) -> None:
    rng = random.Random(f"{seed} failures")
    nodes = rng.randint(2, 12)
    plan = CheckpointPlan(rng.choice([0.0, 1.0, 7.0]), every_s=rng.choice([3.0, 20.0])) if rng.random() < 0.7 else None
    tolerance = FaultTolerance(
        resilient=rng.random() < 0.5, checkpoints=plan, restart_s=rng.choice([0.0, 5.0]),
        attempts=rng.choice([None, None, 3]),
    )  # fmt: skip
    jobs = []
    for number in range(30):
        low = rng.randint(1, nodes)
        if rng.random() < 0.5:
            jobs.append(rigid(number, low, rng.uniform(1.0, 80.0), tolerance))
            continue
        high = rng.randint(low, nodes)
        spec = JobSpec(number, "m", "u", "malleable", low, rng.randint(1, low), high, 1e6, rng.uniform(0.0, 300.0))
        cost = parse_cost(rng.choice(["none", "constant:2", "measured"]))
        grow_s, shrink_s = rng.choice([0.0, 3.0]), rng.choice([0.0, 2.0])
        delay_s = rng.choice([0.0, 1.0])
        jobs.append(
            simulated(
                spec, rng.uniform(1.0, 80.0), cost=cost, grow_s=grow_s, shrink_s=shrink_s, start_delay_s=delay_s,
                steps=rng.choice([0, 4]), tolerance=tolerance,
            )
        )  # fmt: skip
    failures = random_failures(node_names(nodes), mtbf_s=300.0, repair_s=20.0, until_s=2000.0, seed=seed)
    result = ran(nodes, jobs, failures, rng.choice(["easy", "malleable", "min", "avg", "best-use"]))
    are_accounted_for(jobs, result)


def are_accounted_for(jobs: Sequence[Simulated], result: SimResult, *, starts_slowly: bool = False) -> None:
    """All jobs end, and what they hold is useful, lost or overhead; while they start up, they hold it, too."""
    for job, _ in jobs:
        record = result.records[job.job_id]
        assert record.end_s is not None
        spent_node_s = record.losses.spent_node_s() if record.losses is not None else 0.0
        busy_node_s = node_s(record.spans())
        assert spent_node_s <= busy_node_s + 1e-6
        if record.outcome == "completed" and not job.is_malleable and not starts_slowly:
            assert busy_node_s - spent_node_s == pytest.approx(job.nodes * job.runtime_s)
        elif record.outcome == "completed":  # linear, so the work is what it is on any number of nodes
            assert busy_node_s - spent_node_s >= job.nodes * job.runtime_s - 1e-6
        if record.wait_s is not None:
            assert record.wait_s >= 0
            assert record.runtime_s == pytest.approx(sum(to_s - from_s for from_s, to_s, n in record.spans() if n))


@pytest.mark.parametrize("name", policies.names())
def test_they_are_in_company_too(name: str) -> None:
    """With ticks, starts that take time, shared nodes, limits, jobs that come after others, and cancelled ones."""
    for seed in range(8):
        rng = random.Random(f"{seed} {name} in company")
        nodes = rng.randint(2, 10)
        plan = CheckpointPlan(rng.choice([0.0, 2.0]), every_s=rng.choice([3.0, 20.0])) if rng.random() < 0.6 else None
        tolerance = FaultTolerance(
            requeue=rng.random() < 0.9,
            checkpoints=plan,
            restart_s=rng.choice([0.0, 5.0]),
            attempts=rng.choice([None, 3]),
        )
        startup = rng.choice([None, lambda count: 1.5 + 0.1 * count])
        jobs = []
        for number in range(25):
            low, before = rng.randint(1, nodes), rng.sample(range(number), min(number, 2))
            kind, bounds = ("malleable", (rng.randint(1, low), nodes)) if rng.random() < 0.6 else ("rigid", (low, low))
            spec = JobSpec(
                number, "j", f"u{number % 3}", "malleable" if kind == "malleable" else "rigid", low, *bounds,
                rng.choice([1e6, 60.0]), rng.choice([0.0, float(rng.randint(0, 200))]),
            )  # fmt: skip
            after: dict[str, Any] = rng.choice(
                [{}, {}, {"after_ok": tuple(before)}, {"after_any": tuple(before), "think_s": 4.0}]
            )
            jobs.append(
                simulated(
                    spec, rng.uniform(1.0, 80.0), **after, startup=startup, steps=rng.choice([0, 4]),
                    grow_s=rng.choice([0.0, 3.0]), shrink_s=rng.choice([0.0, 2.0]), workers_s=rng.choice([0.0, 1.0]),
                    tolerance=tolerance,
                )
            )  # fmt: skip
        events = random_failures(node_names(nodes), mtbf_s=300.0, repair_s=20.0, until_s=2000.0, seed=seed)
        events += [(float(rng.randint(0, 300)), CancelJob(rng.randrange(25))) for _ in range(4)]
        policy, limit = policies.get(name), rng.choice([None, nodes])
        settings = replace(
            settings_for(name), cores_per_node=4, pass_interval_s=rng.choice([None, 5.0]), user_nodes=limit
        )
        auditor = Auditor(node_names(nodes), cores_per_node=4, jobs_per_node=jobs_per_node(policy))
        tick_s = 0.0 if jobs_per_node(policy) > 1 else rng.choice([0.0, 3.0])
        forgets = rng.random() < 0.5
        engine = Engine(nodes, policy, settings, observer=auditor, check=True, tick_s=tick_s, forgets=forgets)
        are_accounted_for(jobs, engine.run(jobs, events), starts_slowly=startup is not None)


def test_a_job_that_is_at_the_end_of_a_step_when_it_writes_a_checkpoint_is_resized_at_once() -> None:
    # steps and checkpoints of 10 s; job 1 comes while job 0 writes the first one, and gets the nodes that it gives
    tolerance = FaultTolerance(checkpoints=CheckpointPlan(4.0, every_s=10.0))
    spec = JobSpec(0, "m", "u", "malleable", 4, 1, 4, 1e6, 0.0)
    giver = simulated(spec, 40.0, steps=4, tolerance=tolerance)
    late, dynamics = rigid(1, 2, 5.0)
    late = structs.replace(late, submit_s=12.0)
    found = ran(4, [giver, (late, dynamics)], (), "min").records
    assert found[0].sizes[:2] == [(0.0, 4), (12.0, 2)]
    assert found[1].start_s == 12.0


def test_with_a_tick_a_job_is_lost_when_it_ends_and_not_when_that_is_seen() -> None:
    job, dynamics = rigid(0, 1, 50.0)
    sim = (job, structs.replace(dynamics, kill_delay_s=2.0))
    engine = Engine(1, policies.get("fcfs"), tick_s=5.0, observer=Auditor(node_names(1)), check=True)
    record = engine.run([sim], down(9.0, 0, 18.0)).records[0]  # seen at 10 s, killed, over at 12 s; back at 20 s
    assert record.sizes == [(0.0, 1), (12.0, 0), (20.0, 1)]
    assert losses_of(record).lost == [(0.0, 12.0, 1.0)]
    assert (record.wait_s, record.end_s) == (8.0, 70.0)


@pytest.mark.parametrize(("policy", "share"), [("fcfs", 0.0), ("easy", 0.0), ("avg", 0.6)])
def test_failures_make_turnarounds_worse(policy: str, share: float) -> None:
    means: dict[float, list[float]] = {}
    for seed in range(10):
        workload = generate("lublin", seed=seed, jobs=400, load=0.8)
        workload = convert(workload, share, seed=seed) if share else workload
        until_s = earliest_end_s(((job.submit_s, job.runtime_s, job.nodes) for job in workload.jobs), workload.nodes)
        for mtbf_h in (math.inf, 200.0, 50.0):
            failures = random_failures(
                node_names(workload.nodes),
                mtbf_s=min(mtbf_h, 1e9) * 3600,
                repair_s=4 * 3600,
                until_s=until_s,
                seed=seed,
            )
            options = ReplayOptions(settings=Settings(walltime="scaled"))
            done = replay(workload, policies.get(policy), None, options, disturbances=failures)
            assert done.measures.every.jobs == 400
            means.setdefault(mtbf_h, []).append(done.measures.every.mean_turnaround_s or 0.0)
    never, seldom, often = (statistics.mean(values) for values in means.values())
    assert 1.1 * never < 1.1 * seldom < often


def test_checkpoints_lose_less_than_none() -> None:
    workload = generate("lublin", seed=1, jobs=400, load=0.8)
    failures = random_failures(
        node_names(workload.nodes), mtbf_s=100 * 3600, repair_s=3600, until_s=workload.jobs[-1].submit_s, seed=1
    )

    def of(tolerance: FaultTolerance) -> Measures:
        options = ReplayOptions(Behaviour(tolerance=tolerance))
        return replay(workload, policies.get("easy"), None, options, disturbances=failures).measures

    plain = of(AGAIN)
    daly = of(FaultTolerance(checkpoints=CheckpointPlan(60.0, "daly", mtbf_s=100 * 3600)))
    assert daly.lost < 0.5 * plain.lost
    assert daly.overhead > plain.overhead == 0
    assert daly.every.killed == 0  # walltimes are longer by the checkpoints


def test_the_best_interval_is_as_published() -> None:
    assert young_s(60.0, 3600.0) == pytest.approx(657.27, abs=0.01)
    # sqrt(2 x 60 x 3600) (1 + sqrt(60 / 7200) / 3 + 60 / 7200 / 9) - 60, from Daly's equation 37
    assert daly_s(60.0, 3600.0) == pytest.approx(617.88, abs=0.01)
    assert daly_s(7200.0, 3600.0) == 3600.0
    assert CheckpointPlan(60.0, "daly", mtbf_s=36000.0).interval_s(10) == daly_s(60.0, 3600.0)


@pytest.mark.parametrize("factor", [0.4, 1.0, 3.0])
def test_a_job_with_checkpoints_takes_as_long_as_the_theory_says(factor: float) -> None:
    # Daly's equation 20: M exp(R / M) (exp((tau + delta) / M) - 1) T / tau; a node is there at once for a new start.
    mtbf_s, cost_s, restart_s, work_s = 2000.0, 20.0, 30.0, 100_000.0
    interval_s = factor * daly_s(cost_s, mtbf_s)
    tolerance = FaultTolerance(checkpoints=CheckpointPlan(cost_s, every_s=interval_s), restart_s=restart_s)
    took = []
    for seed in range(8):
        failures = random_failures(node_names(8), mtbf_s=mtbf_s, repair_s=1.0, until_s=1e6, seed=seed)
        spec = JobSpec(0, "r", "u", "rigid", 1, 1, 1, 1e7, 0.0)
        took.append(simulate(8, policies.get("fcfs"), [simulated(spec, work_s, tolerance=tolerance)], failures))
    mean_s = statistics.mean(result.records[0].end_s or 0.0 for result in took)
    theory_s = mtbf_s * math.exp(restart_s / mtbf_s) * (math.exp((interval_s + cost_s) / mtbf_s) - 1)
    assert mean_s == pytest.approx(theory_s * work_s / interval_s, rel=0.04)


def test_computing_and_elapsed_time_fit_each_other() -> None:
    rng = random.Random(5)
    for _ in range(300):
        rhythm = Rhythm(CheckpointPlan(rng.choice([0.0, 0.5, 4.0]), every_s=rng.choice([0.7, 3.0])))
        for _ in range(5):
            elapsed_s = rng.uniform(0.0, 12.0)
            computing_s = rhythm.computing_s(elapsed_s, 1)
            assert 0 <= computing_s <= elapsed_s + 1e-9
            assert rhythm.elapsed_s(computing_s, 1) <= elapsed_s + 1e-9
            rhythm.advance(elapsed_s, 1)


def test_failures_go_on_as_long_as_the_jobs_must_take() -> None:
    assert earliest_end_s([(0.0, 100.0, 1)], 10) == 100.0
    assert earliest_end_s([(5.0, 100.0, 8), (5.0, 100.0, 8)], 8) == 205.0  # all submitted at once
    assert earliest_end_s([], 8) == 0.0


def test_wrong_plans_are_refused() -> None:
    for wrong in ({"every_s": 0.0}, {"rule": "daly", "mtbf_s": 0.0}, {"every_s": math.inf}):
        with pytest.raises(ValueError, match=r"checkpoints"):
            CheckpointPlan(60.0, **wrong)
    with pytest.raises(ValueError, match="a checkpoint takes"):
        CheckpointPlan(-1.0, every_s=1.0)
    with pytest.raises(ValueError, match="attempts"):
        FaultTolerance(attempts=0)
    with pytest.raises(ValueError, match="restart"):
        FaultTolerance(restart_s=-1.0)
