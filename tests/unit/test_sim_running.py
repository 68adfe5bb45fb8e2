"""How simulated jobs run: costs of resizes, scheduling points, ticks, evolving jobs, reserved time; by hand."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import pytest
from support.simulated import simulated

from scheduler_bridge import policies
from scheduler_bridge.core.events import Effect, Event, EvolvingRequest, NodeDown, NodeUp, ResizeDeferred
from scheduler_bridge.model import JobSpec
from scheduler_bridge.sim import Engine, SimRecord, Simulated, parse_cost, random_failures, simulate
from scheduler_bridge.sim.scaling import amdahl


def rigid(job_id: int, nodes: int, submit_s: float = 0.0, walltime_s: float = 1000.0) -> JobSpec:
    return JobSpec(job_id, "r", "u", "rigid", nodes, nodes, nodes, walltime_s, submit_s)


def malleable(job_id: int, low: int, high: int, submit_s: float = 0.0) -> JobSpec:
    return JobSpec(job_id, "m", "u", "malleable", low, low, high, 1000.0, submit_s)


def run(nodes: int, *jobs: Simulated) -> dict[int, SimRecord]:
    return simulate(nodes, policies.get("malleable"), jobs).records


def test_a_resize_that_stops_the_job_costs_its_time() -> None:
    # 4 nodes. Job 0 starts on 2 beside job 1, which ends at 10 s: grow to 4, 5 s of standstill, until 15 s. Of 100
    # node-seconds 20 are done; the other 80 take 20 s on 4 nodes.
    records = run(4, simulated(malleable(0, 1, 4), 100.0, cost=parse_cost("constant:5")), simulated(rigid(1, 2), 10.0))
    assert records[0].sizes == [(0.0, 2), (15.0, 4)]
    assert records[0].end_s == 35.0


def test_a_resize_costs_a_job_its_own_overhead() -> None:
    # As above, but 10 x ((0.05 + 0.0275) x 2 + 0.03 / 6) = 1.6 s of standstill.
    spec = JobSpec(0, "m", "u", "malleable", 1, 1, 4, 1000.0, 0.0, overhead=(0.05, 0.03))
    records = run(4, simulated(spec, 100.0, cost=parse_cost("mebf")), simulated(rigid(1, 2), 10.0))
    assert records[0].sizes == [(0.0, 2), (pytest.approx(11.6), 4)]
    assert records[0].end_s == pytest.approx(31.6)


def test_nodes_that_wait_for_a_grow_are_reserved_time() -> None:
    jobs = (simulated(malleable(0, 1, 4), 100.0, cost=parse_cost("constant:5")), simulated(rigid(1, 2), 10.0))
    assert run(4, *jobs)[0].reserved == ((10.0, 15.0, 2),)


def test_nodes_that_wait_for_a_start_are_reserved_time() -> None:
    record = run(4, simulated(rigid(0, 3), 10.0, start_delay_s=2.0))[0]
    assert record.reserved == ((0.0, 2.0, 3),)
    assert list(record.spans()) == [(2.0, 12.0, 3)]


def test_an_order_waits_for_the_end_of_a_step() -> None:
    # 4 nodes. Job 0: 100 s on its one node, in 4 steps of 25 s; it starts on 2 of them, beside job 1, so a step takes
    # 12.5 s. Job 1 ends at 14 s; the grow is carried out at the end of the second step, 25 s. Half of the work is left.
    records = run(4, simulated(malleable(0, 1, 4), 100.0, steps=4), simulated(rigid(1, 2), 14.0))
    assert records[0].sizes == [(0.0, 2), (25.0, 4)]
    assert records[0].end_s == 25.0 + 50.0 / 4


def test_an_order_at_the_very_end_of_a_step_is_carried_out_at_once() -> None:
    records = run(4, simulated(malleable(0, 1, 4), 100.0, steps=4), simulated(rigid(1, 2), 12.5))
    assert records[0].sizes == [(0.0, 2), (12.5, 4)]


def test_a_job_that_ends_before_the_next_step_is_not_resized() -> None:
    records = run(4, simulated(malleable(0, 1, 4), 100.0, steps=1), simulated(rigid(1, 2), 14.0))
    assert records[0].sizes == [(0.0, 2)]
    assert (records[0].end_s, records[0].grows) == (50.0, 0)
    assert records[0].reserved == ((14.0, 50.0, 2),)


def test_a_shrink_at_a_step_lets_the_job_run_on_until_then() -> None:
    # 4 nodes, job 0 on all of them: 80 s on its one node in 2 steps, each 10 s. Job 1 wants 2 nodes at 3 s: they are
    # released at 10 s; the other 40 node-seconds take 20 s on 2 nodes.
    records = run(4, simulated(malleable(0, 1, 4), 80.0, steps=2), simulated(rigid(1, 2, 3.0), 50.0))
    assert (records[1].start_s, records[0].end_s) == (10.0, 30.0)


def test_nothing_of_the_work_is_done_while_a_job_starts() -> None:
    # 4 nodes. Job 0 starts on all of them, with 4 s of start-up, and is ordered to shrink to 1 at once, for job 1.
    # It does so when it computes; all of its 100 node-seconds are before it.
    jobs = (simulated(malleable(0, 1, 4), 100.0, startup=float), simulated(rigid(1, 3, 1.0), 200.0))
    records = run(4, *jobs)
    assert records[0].sizes == [(0.0, 4), (4.0, 1)]
    assert (records[0].end_s, records[1].start_s) == (104.0, 4.0)


def test_the_scheduler_hears_that_an_order_waits_for_the_computation() -> None:
    deferred: list[tuple[float, Event]] = []

    def note(now: float, events: Sequence[Event], _: Sequence[Effect]) -> None:
        deferred.extend((now, event) for event in events if isinstance(event, ResizeDeferred))

    def wait(startup_s: float) -> list[float]:
        deferred.clear()
        long = simulated(malleable(0, 1, 4), 100.0, startup=lambda _: startup_s)
        Engine(4, policies.get("malleable"), observer=note).run([long, simulated(rigid(1, 3, 1.0), 9.0)])
        return [now for now, _ in deferred]

    assert wait(4.0) == [2.0]  # a second after the order
    assert wait(1.5) == []


def test_an_evolving_job_asks_when_it_is_there() -> None:
    # 4 nodes under a policy that never resizes. Job 0 starts on its maximum of 4, offers 2 after a quarter of its 100
    # node-seconds, at 6.25 s, and asks for them again after half of them: 25 more on 2 nodes, at 18.75 s.
    sim = simulated(malleable(0, 1, 4), 100.0, wishes=((0.25, -2), (0.5, 2)))
    record = simulate(4, policies.get("easy"), [sim]).records[0]
    assert record.sizes == [(0.0, 4), (6.25, 2), (18.75, 4)]
    assert record.end_s == 18.75 + 50 / 4


def test_a_job_that_sizes_itself_comes_to_the_size_that_it_uses() -> None:
    # serial for 3 %: 90 % of 4 nodes work, 89 % of 5; it starts on its maximum of 32
    job = malleable(0, 1, 32)
    sim = simulated(job, 4000.0, speedup=amdahl(0.97), target_efficiency=0.9)
    record = simulate(32, policies.get("easy"), [sim]).records[0]
    sizes = [nodes for _, nodes in record.sizes]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] in (4, 5)


def test_a_job_that_sizes_itself_is_refused_what_others_wait_for_and_asks_again() -> None:
    # under a policy that never resizes: job 0 has 6 of 8 nodes until it ends at 40 s; then job 1 gets them
    waits = simulated(rigid(0, 6), 40.0)
    asks = simulated(malleable(1, 2, 8), 2000.0, target_efficiency=0.9)
    asked: list[float] = []

    def note(now: float, events: Sequence[Event], _: Sequence[Effect]) -> None:
        asked.extend(now for event in events if isinstance(event, EvolvingRequest))

    record = Engine(8, policies.get("easy"), observer=note).run([waits, asks]).records[1]
    assert [nodes for _, nodes in record.sizes] == [2, 4, 8]
    assert record.sizes[1][0] > 40.0
    assert 2 < len(asked) < 30


def test_the_scheduler_sees_and_decides_at_ticks_only() -> None:
    # 1 node. Job 0, at 1 s, starts at 10 s and ends at 13 s, which is seen at 20 s; job 1 starts then.
    engine = Engine(1, policies.get("fcfs"), tick_s=10.0)
    records = engine.run([simulated(rigid(0, 1, 1.0), 3.0), simulated(rigid(1, 1, 2.0), 3.0)]).records
    assert [(record.start_s, record.end_s) for record in records.values()] == [(10.0, 13.0), (20.0, 23.0)]


def test_what_happens_just_after_a_tick_by_rounding_is_seen() -> None:
    # 9 ticks of 0.1 s are 0.9 s, and so are, rounded, the 0.9000000000000001 s at which the job comes.
    submit_s = math.nextafter(9 * 0.1, 1.0)
    record = Engine(1, policies.get("fcfs"), tick_s=0.1).run([simulated(rigid(0, 1, submit_s), 3.0)]).records[0]
    assert record.start_s == submit_s


def test_a_resize_between_ticks_takes_effect_when_it_is_done() -> None:
    # 4 nodes, ticks of 10 s. Job 1 ends at 4 s, seen at 10 s: job 0 grows from 2 to 4 nodes, in 1 s, the job going on
    # at 2. Of 100 node-seconds 22 are done at 11 s; 78 take 19.5 s.
    engine = Engine(4, policies.get("malleable"), tick_s=10.0)
    jobs = [simulated(malleable(0, 1, 4), 100.0, grow_s=1.0), simulated(rigid(1, 2), 4.0)]
    assert engine.run(jobs).records[0].end_s == 30.5


def test_the_order_of_the_input_does_not_matter() -> None:
    rng = random.Random(3)
    jobs = [
        simulated(malleable(number, 1, rng.randint(1, 8), float(rng.randint(0, 3))), float(rng.randint(1, 40)))
        for number in range(40)
    ]
    expected = simulate(8, policies.get("avg"), jobs).records
    for _ in range(5):
        rng.shuffle(jobs)
        assert simulate(8, policies.get("avg"), jobs).records == expected


def test_failures_come_back_and_are_the_same_for_the_same_seed() -> None:
    names = ["a", "b"]
    found = random_failures(names, mtbf_s=100.0, repair_s=10.0, until_s=1000.0, seed=1)
    assert found == random_failures(names, mtbf_s=100.0, repair_s=10.0, until_s=1000.0, seed=1)
    assert found != random_failures(names, mtbf_s=100.0, repair_s=10.0, until_s=1000.0, seed=2)
    down: set[str] = set()
    for _, event in found:
        assert isinstance(event, NodeDown | NodeUp)
        assert (event.node in down) == isinstance(event, NodeUp)
        down ^= {event.node}
    assert not down
    assert [time_s for time_s, _ in found] == sorted(time_s for time_s, _ in found)
    assert 10 <= len(found) / 2 <= 30  # 2 nodes x 1000 s / 110 s
    with pytest.raises(ValueError, match="must be positive"):
        random_failures(names, mtbf_s=0.0, repair_s=1.0, until_s=1.0, seed=1)


def test_a_resize_that_ends_after_the_kill_does_not_save_the_job() -> None:
    # 4 nodes. Job 0 starts on 2 beside job 1; ordered at 10 s to grow, which takes until 21 s; ordered to end at 20 s,
    # it is gone at 25 s.
    spec = JobSpec(0, "m", "u", "malleable", 1, 1, 4, 20.0, 0.0)
    record = run(4, simulated(spec, 100.0, grow_s=11.0, kill_delay_s=5.0), simulated(rigid(1, 2), 10.0))[0]
    assert (record.end_s, record.outcome) == (25.0, "timeout")


def test_wrong_steps_and_wishes_are_refused() -> None:
    for wrong in ({"steps": -1}, {"wishes": ((1.0, 1),)}, {"wishes": ((0.5, 1), (0.2, 1))}):
        with pytest.raises(ValueError, match="job 7"):
            simulated(rigid(7, 1), 1.0, **wrong)
    with pytest.raises(ValueError, match="tick_s"):
        Engine(1, policies.get("fcfs"), tick_s=-1.0)
