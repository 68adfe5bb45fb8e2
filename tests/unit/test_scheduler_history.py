"""What the core remembers of a job: a hand-computed history, when a wait counts as another one, and its limits."""

from __future__ import annotations

import pytest
from support.simulated import simulated

from scheduler_bridge import policies
from scheduler_bridge.cli import results
from scheduler_bridge.cli.common import print_pieces
from scheduler_bridge.core import Claim, Explanation, JobState, Moment, SchedulerCore, history
from scheduler_bridge.core.events import JobEnded, JobStarted, JobSubmitted, MalleableReady
from scheduler_bridge.model import JobSpec
from scheduler_bridge.sim import Engine, Simulated


def rigid(job_id: int, nodes: int, walltime_s: float, submit_s: float = 0.0) -> Simulated:
    return simulated(JobSpec(job_id, "r", "u", "rigid", nodes, nodes, nodes, walltime_s, submit_s), walltime_s)


def batch() -> list[Simulated]:
    """Four nodes. Job 0 (1 to 4 nodes, 60 s at 1) starts on all, shrinks within 1 s and grows within 2 s."""
    tree = JobSpec(0, "tree", "u", "malleable", 1, 1, 4, 1000.0, 0.0)
    return [simulated(tree, 60.0, grow_s=2.0, shrink_s=1.0), rigid(1, 3, 10, 5), rigid(2, 4, 20, 6), rigid(3, 1, 5, 7)]


def explained(job_id: int) -> Explanation:
    engine = Engine(4, policies.get("malleable"), remember=frozenset({job_id}))
    return engine.run(batch()).explanations[job_id]


def test_the_history_of_a_job_that_is_resized_for_others() -> None:
    # 5 s: job 1 (3 nodes) arrives; job 0 gives 3 until 6 s. 16 s: job 1 ends; job 3 (1 node) overtakes job 2 (4 nodes),
    # and job 0 gets the other 2 until 18 s. 21 s: job 3 ends, job 0 gets its node until 23 s. By then it has done
    # 20 + 11 + 2 + 9 + 6 = 48 of 60, and 12 are done by 4 nodes at 26 s.
    found = explained(0)
    assert [(moment.time_s, moment.nodes, moment.text) for moment in found.moments] == [
        (0.0, 0, "submitted"),
        (0.0, 4, "started on 4 nodes: first in the queue; larger because nodes are idle"),
        (5.0, 4, "ordered to shrink by 3 nodes: so that job 1 can start on 3 nodes"),
        (6.0, 1, "shrank by 3 to 1 node"),
        (16.0, 3, "ordered to grow by 2 nodes: idle nodes go to the smallest malleable job"),
        (18.0, 3, "grew by 2 to 3 nodes"),
        (21.0, 4, "ordered to grow by 1 node: idle nodes go to the smallest malleable job"),
        (23.0, 4, "grew by 1 to 4 nodes"),
        (26.0, 0, "completed"),
    ]
    assert (found.state, found.text, found.nodes, found.counts_on) == (JobState.ENDED, "completed", (), ())


def test_the_history_of_jobs_that_wait_says_for_which_nodes_and_until_when() -> None:
    # Job 1 waits for 3 nodes that job 0 is releasing. Job 3 (1 node) waits for the first in the queue, job 2 (4 nodes),
    # for which job 1's end (16 s) and, for want of a better walltime, job 0's (1000 s) are counted on.
    assert explained(1).moments[1] == Moment(
        5.0, 0, "waits: it needs 3 nodes, 0 are free; 3 nodes are reserved for job 1 at 5 s", (Claim(0, 3, None),)
    )
    assert explained(3).moments == (
        Moment(7.0, 0, "submitted"),
        Moment(
            7.0,
            0,
            "waits: it needs 1 node, 0 are free; 4 nodes are reserved for job 2 at 1000 s",
            (Claim(1, 3, 16.0), Claim(0, 1, 1000.0)),
        ),
        Moment(16.0, 1, "started on 1 node: backfilled: 4 nodes are reserved for job 2 at 1000 s and stay so"),
        Moment(21.0, 0, "completed"),
    )


def core_with_a_queue() -> SchedulerCore:
    """Six nodes under easy: job 0 holds 3 until 100 s, job 1 holds 1 until 50 s, jobs 2 (5 nodes) and 3 (4) wait."""
    core = SchedulerCore([f"n{i}" for i in range(6)], policies.get("easy"), remember="all")
    for sim in (rigid(0, 3, 100), rigid(1, 1, 50), rigid(2, 5, 10), rigid(3, 4, 10)):
        core.handle(JobSubmitted(sim[0].spec()), 0.0)
    core.handle_batch([JobStarted(0), JobStarted(1)], 0.0)
    return core


def test_why_a_job_waits_now() -> None:
    found = core_with_a_queue().explanation(2)
    assert found.text == "it needs 5 nodes, 2 are free; 5 nodes are reserved for job 2 at 100 s"
    assert (found.expected_start_s, found.counts_on) == (100.0, (Claim(1, 1, 50.0), Claim(0, 3, 100.0)))
    waits_for_another = core_with_a_queue().explanation(3)
    assert (waits_for_another.expected_start_s, waits_for_another.counts_on) == (None, found.counts_on)


def test_the_same_wait_is_recorded_once() -> None:
    # 10 s: job 1 ends, 3 nodes are free instead of 2; the reservation at 100 s stands as before. 20 s: a job with lower
    # priority is submitted. 30 s: job 0 ends early, and both start.
    core = core_with_a_queue()
    before = core.explanation(2).moments
    assert len(before) == 2
    core.handle(JobEnded(1, "completed"), 10.0)
    core.handle(JobSubmitted(rigid(4, 6, 10, 20)[0].spec()), 20.0)
    assert core.explanation(2).moments == before
    core.handle(JobEnded(0, "completed"), 30.0)
    assert core.explanation(2).moments[2:] == (Moment(30.0, 5, "started on 5 nodes: first in the queue"),)
    # Job 3 waits for job 2 now, whose 5 nodes are not free before 40 s.
    assert core.explanation(3).moments[2:] == (
        Moment(
            30.0,
            0,
            "waits: it needs 4 nodes, 1 is free; 4 nodes are reserved for job 3 at 40 s",
            (Claim(2, 5, 40.0),),
        ),
    )


def test_two_changes_of_one_instant_are_both_recorded() -> None:
    # The job becomes ready and is ordered to grow in the same batch that ends its neighbour.
    core = SchedulerCore(["a", "b"], policies.get("malleable"), remember="all")
    core.handle(JobSubmitted(rigid(0, 1, 100)[0].spec()), 0.0)
    core.handle(JobSubmitted(JobSpec(1, "m", "u", "malleable", 1, 1, 2, 100.0, 0.0)), 0.0)
    core.handle_batch([JobStarted(0), JobStarted(1), MalleableReady(1)], 1.0)
    core.handle(JobEnded(0, "failed", "exit 3"), 2.0)
    assert [moment.text for moment in core.explanation(0).moments][-1] == "failed: exit 3"
    grown = "ordered to grow by 1 node: idle nodes go to the smallest malleable job"
    assert core.explanation(1).moments[-1] == Moment(2.0, 2, grown)


def test_only_what_is_asked_for_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "_MOMENTS", 3)
    engine = Engine(4, policies.get("malleable"), remember=frozenset({0}))
    assert list(engine.run(batch()).explanations) == [0]
    core = engine.core
    assert [moment.time_s for moment in core.explanation(0).moments] == [21.0, 23.0, 26.0]
    assert core.explanation(1).moments == ()
    assert core.explanation(1).text == "completed"
    with pytest.raises(KeyError):
        core.explanation(9)


def test_it_is_printed_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    core = core_with_a_queue()
    print_pieces(results.explained(core.explanation(2)))
    why = "it needs 5 nodes, 2 are free; 5 nodes are reserved for job 2 at 100 s"
    come_free = "1 node of job 1 by 50.0 s, 3 nodes of job 0 by 100.0 s"
    assert capsys.readouterr().out.splitlines() == [
        f"job 2 (r) waits: {why}",
        "it starts at 100.0 s at the latest, 100.0 s from now",
        f"until then come free: {come_free}",
        "",
        "AT s  NODES  WHAT, AND WHY",
        " 0.0      0  submitted",
        f" 0.0      0  waits: {why} (come free until then: {come_free})",
    ]
    print_pieces(results.explained(core.explanation(0)))
    assert capsys.readouterr().out.splitlines()[:2] == [
        "job 0 (r) is running: started on 3 nodes: first in the queue",
        "it holds n0, n1, n2",
    ]


def test_a_wait_is_another_one_when_there_are_nodes_enough_no_longer() -> None:
    core = SchedulerCore([f"n{i}" for i in range(6)], policies.get("easy"), remember="all")
    for sim in (rigid(0, 4, 100), rigid(1, 5, 10), rigid(2, 2, 500)):
        core.handle(JobSubmitted(sim[0].spec()), 0.0)
    core.handle(JobSubmitted(rigid(3, 1, 50)[0].spec()), 5.0)
    assert [(moment.time_s, moment.text) for moment in core.explanation(2).moments] == [
        (0.0, "submitted"),
        (0.0, "waits: it would delay job 1: 5 nodes are reserved for job 1 at 100 s, 1 is spare"),
        (5.0, "waits: it needs 2 nodes, 1 is free; 5 nodes are reserved for job 1 at 100 s"),
    ]
