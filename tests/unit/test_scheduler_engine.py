"""The small simulator: job models, delays, failures, and its records."""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Sequence

import pytest
from support.simulated import simulated

from scheduler_bridge import policies
from scheduler_bridge.core.events import CancelJob, Event, NodeDown, NodeUp
from scheduler_bridge.core.nodes import NodePool, NumberedNodes
from scheduler_bridge.model import JobSpec
from scheduler_bridge.sim import Engine, SimResult, simulate


def rigid(job_id: int, nodes: int, walltime_s: float = 100.0) -> JobSpec:
    return JobSpec(job_id, "r", "u", "rigid", nodes, nodes, nodes, walltime_s, 0.0)


def malleable(job_id: int, low: int, high: int) -> JobSpec:
    return JobSpec(job_id, "m", "u", "malleable", low, low, high, 1000.0, 0.0)


def test_a_start_delay_counts_as_waiting_and_not_as_walltime() -> None:
    record = simulate(2, policies.get("fcfs"), [simulated(rigid(0, 2, 10.0), 10.0, start_delay_s=3.0)]).records[0]
    assert (record.wait_s, record.end_s, record.outcome) == (3.0, 13.0, "completed")


def test_the_walltime_ends_a_job_after_its_kill_delay() -> None:
    record = simulate(2, policies.get("fcfs"), [simulated(rigid(0, 2, 10.0), 11.0, kill_delay_s=0.5)]).records[0]
    assert (record.end_s, record.outcome) == (10.5, "timeout")


def test_work_is_done_at_the_rate_of_the_present_size() -> None:
    # 8 nodes, speedup sqrt-like: 1 on 1 node, 2 on 4. Asked for 1 node and 100 s; starts on 4: 50 s.
    sim = simulated(malleable(0, 1, 4), 100.0, speedup=lambda nodes: float(nodes) ** 0.5)
    assert simulate(8, policies.get("malleable"), [sim]).records[0].end_s == 50.0


def test_a_failed_order_changes_nothing_but_the_time() -> None:
    # 4 nodes: job 1 holds 2 until 10 s, job 0 starts on 2. 10 s: grow to 4 fails; 40 s: again, works.
    # 400 node-seconds at 2 nodes until 40 s: 80 done, 320 left on 4 nodes: 120 s.
    jobs = [simulated(rigid(1, 2), 10.0), simulated(malleable(0, 1, 4), 400.0, failing_orders=frozenset({0}))]
    record = simulate(4, policies.get("malleable"), jobs).records[0]
    assert record.sizes == [(0.0, 2), (40.0, 4)]
    assert (record.end_s, record.grows) == (120.0, 1)


def test_a_deferred_order_is_carried_out_later_and_the_job_runs_at_its_old_size_until_then() -> None:
    # 4 nodes: job 0 runs on 4. 0.5 s: job 1 (2 nodes, 10 s) arrives; the shrink by 2 is put off by 5 s and takes 1 s:
    # job 1 runs from 6.5 s to 16.5 s. The grow by 2 is done at 22.5 s. Of 80 node-seconds 6.5 x 4 and 16 x 2 are done
    # then; the other 22 take 5.5 s on 4 nodes.
    jobs = [
        simulated(malleable(0, 1, 4), 80.0, defer_s=5.0, shrink_s=1.0, grow_s=1.0),
        simulated(late(1, 2, 0.5), 10.0),
    ]
    records = simulate(4, policies.get("malleable"), jobs).records
    assert records[0].sizes == [(0.0, 4), (6.5, 2), (22.5, 4)]
    assert records[0].end_s == 28.0


def late(job_id: int, nodes: int, submit_s: float) -> JobSpec:
    return JobSpec(job_id, "r", "u", "rigid", nodes, nodes, nodes, 100.0, submit_s)


def test_disturbances_happen() -> None:
    # 2 nodes. 1 s: the node of job 0 fails; 2 s: job 1 is cancelled; 3 s: the node is back and job 2 (2 nodes) starts.
    jobs = [simulated(rigid(0, 1), 50.0), simulated(rigid(1, 1), 50.0), simulated(rigid(2, 2), 5.0)]
    happens: list[tuple[float, Event]] = [(1.0, NodeDown("n0000")), (2.0, CancelJob(1)), (3.0, NodeUp("n0000"))]
    records = simulate(2, policies.get("fcfs"), jobs, happens).records
    assert [(record.end_s, record.outcome) for record in records.values()] == [
        (1.0, "lost"),
        (2.0, "cancelled"),
        (8.0, "completed"),
    ]


def test_a_refused_job_is_recorded_as_such() -> None:
    record = simulate(1, policies.get("easy"), [simulated(rigid(0, 2), 5.0)]).records[0]
    assert (record.refused, record.start_s, record.outcome) == (True, None, None)


def test_wrong_input_names_the_culprit() -> None:
    with pytest.raises(ValueError, match="job 3: runtime_s is 0"):
        simulated(rigid(3, 1), 0.0)
    with pytest.raises(ValueError, match="grow_s is -1"):
        simulated(rigid(3, 1), 1.0, grow_s=-1.0)
    with pytest.raises(ValueError, match="two jobs have the id 3"):
        simulate(1, policies.get("fcfs"), [simulated(rigid(3, 1), 1.0), simulated(rigid(3, 1), 1.0)])


def seen(delay_s: float) -> tuple[list[tuple[float, list[str]]], SimResult]:
    """What an observer sees of two jobs of which the second waits for the first, and what comes of it."""
    found: list[tuple[float, list[str]]] = []
    engine = Engine(2, policies.get("fcfs"), observer=lambda now, events, _: found.append((now, names(events))))
    jobs = [simulated(rigid(job_id, 2), 10.0, start_delay_s=delay_s) for job_id in (0, 1)]
    return found, engine.run(jobs)


def names(events: Sequence[Event]) -> list[str]:
    return [type(event).__name__ for event in events]


def test_a_start_without_a_delay_takes_no_batch_of_its_own_and_observers_see_it_all_the_same() -> None:
    found, result = seen(0.0)
    assert found == [
        (0.0, ["JobSubmitted", "JobSubmitted"]),
        (0.0, ["JobStarted"]),
        (10.0, ["JobEnded"]),
        (10.0, ["JobStarted"]),
        (20.0, ["JobEnded"]),
    ]
    assert (result.batches, result.end_s) == (3, 20.0)
    assert [(record.start_s, record.end_s) for record in result.records.values()] == [(0.0, 10.0), (10.0, 20.0)]


def test_a_start_with_a_delay_is_an_event_like_others() -> None:
    found, result = seen(1.0)
    assert [kinds for _, kinds in found].count(["JobStarted"]) == 2
    assert result.batches == len(found)


def test_an_engine_that_forgets_ended_jobs_gives_the_same_records() -> None:
    jobs = [simulated(malleable(0, 1, 4), 40.0), simulated(rigid(1, 3, 10.0), 30.0), simulated(rigid(2, 9), 5.0)]
    cancels = [(1.0, CancelJob(0))]
    keeping, forgetting = (Engine(4, policies.get("malleable"), forgets=forgets) for forgets in (False, True))
    kept, forgot = keeping.run(jobs, cancels), forgetting.run(jobs, cancels)
    assert forgot.records == kept.records
    assert [record.outcome for record in forgot.records.values()] == ["cancelled", "timeout", None]
    assert [*keeping.core.endings()][:1] == [(0, "cancelled", 1.0)]
    assert not [*forgetting.core.endings()]


def test_a_million_nodes_cost_what_the_jobs_on_them_do() -> None:
    jobs = [simulated(rigid(number, 1 + number), 10.0) for number in range(20)]
    tracemalloc.start()
    engine = Engine(1_000_000, policies.get("easy"))
    result = engine.run(jobs)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert result.end_s == 10.0
    assert most < 10e6, "bytes; a list of their names takes more than 60 million"
    assert [engine.core.pool.names[rank] for rank in (0, 12345, -1)] == ["n0000", "n12345", "n999999"]


@pytest.mark.parametrize("count", [1, 12, 10_003])
def test_numbered_nodes_are_nodes_like_others(count: int) -> None:
    names = [f"n{number:04d}" for number in range(count)]
    numbered = NumberedNodes(count)
    assert list(numbered) == names
    assert numbered[3:7] == names[3:7]
    assert all(numbered.rank(name) == rank for rank, name in enumerate(names))
    strange = ("", "n", "x", "n1", "n-001", "m0000", "n00000", "n\u0661\u0661\u0661\u0661", f"n{count:04d}")
    assert not [name for name in strange if name in numbered or name in NodePool(numbered)]
    draw, pools = random.Random(count), [NodePool(numbered), NodePool(names)]
    for _ in range(30):
        node, act = draw.choice([*names[:5], names[-1], "new"]), draw.choice(["fail", "restore", "expel", "vacated"])
        for pool in pools:
            if act == "vacated":
                pool.vacated()
            elif node in pool or act == "restore":
                getattr(pool, act)(node)
        assert list(pools[0].names) == list(pools[1].names)
        assert [(pool.all_free_ranks, pool.down_ranks, pool.leaving, len(pool)) for pool in pools[:1]] == [
            (pool.all_free_ranks, pool.down_ranks, pool.leaving, len(pool)) for pool in pools[1:]
        ]
        assert [pool.check() for pool in pools] == ["", ""]
