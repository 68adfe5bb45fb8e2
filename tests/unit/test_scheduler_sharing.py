"""How the core lets jobs share nodes: orders before the start, cores given back, mates that fail or end; its book."""

from __future__ import annotations

import pytest

from scheduler_bridge import policies
from scheduler_bridge.core import InfeasibleDecisionError, InvariantError, JobState, SchedulerCore, Settings
from scheduler_bridge.core.events import (
    CancelJob,
    EvolvingRequest,
    JobEnded,
    JobMoved,
    JobStarted,
    JobSubmitted,
    KillJob,
    MalleableReady,
    NodeDown,
    NodesLost,
    ResizeFailed,
    SendOrder,
    StartJob,
    WakeAt,
    WakeUp,
    WorkersChanged,
)
from scheduler_bridge.core.history import Claim, counts_on
from scheduler_bridge.model import EVERY_NODE, ClusterView, JobSpec, NodeFilter, Reservation
from scheduler_bridge.policies import Decision, Share, Start
from scheduler_bridge.policies.plan import endings

ENDINGS = endings(None, False)


def malleable(job_id: int, nodes: int, walltime_s: float = 1000.0) -> JobSpec:
    return JobSpec(job_id, "m", "u", "malleable", nodes, nodes, nodes, walltime_s, 0.0)


class Scripted:
    """Starts the first waiting job on free nodes, else shares it as the script says."""

    name = "scripted"

    def __init__(self, shares: list[Share], jobs_per_node: int = 2) -> None:
        self.shares = shares
        self.jobs_per_node = jobs_per_node
        self.shared_nodes = EVERY_NODE
        self.seen: list[ClusterView] = []

    def decide(self, view: ClusterView, now: float) -> list[Decision]:
        self.seen.append(view.snapshot())
        for spec in view.queue:
            if spec.nodes <= view.free_nodes:
                return [Start(spec.job_id, spec.nodes, "it fits")]
            for share in self.shares:
                able = {job.spec.job_id for job in view.running if job.takes_orders(now)}
                if share.job_id == spec.job_id and able.issuperset(share.mates):
                    return [share]
        return []

    def why_waiting(self, view: ClusterView, job: JobSpec, reservation: Reservation | None) -> str:
        return "scripted"


def make(*sizes: int, shares: list[Share], jobs_per_node: int = 2) -> tuple[SchedulerCore, Scripted]:
    """Running malleable jobs 0, 1, ... of these sizes on nodes of four cores, that are all theirs."""
    policy = Scripted(shares, jobs_per_node)
    nodes = "abcdef"[: sum(sizes)]
    core = SchedulerCore(list(nodes), policy, Settings(cores_per_node=4, failure_backoff_s=30.0))
    for job_id, size in enumerate(sizes):
        core.handle(JobSubmitted(malleable(job_id, size)), 0.0)
        core.handle_batch([JobStarted(job_id), MalleableReady(job_id)], 0.0)
        policy.decide(ClusterView(0, 0, (), ()), 0.0)
    core.check()
    return core, policy


def both(job_id: int = 9, cores: int = 2) -> Share:
    return Share(job_id, 3, (0, 1), cores, 0, "they share")


def state_of(core: SchedulerCore, job_id: int) -> JobState:
    return core.explanation(job_id).state


def test_the_newcomer_starts_when_all_mates_have_made_room() -> None:
    core, _ = make(2, 1, shares=[both()])
    assert core.handle(JobSubmitted(malleable(9, 3)), 10.0) == [
        SendOrder(0, 1, "workers", ("a", "b"), 2, (3, 3)),
        SendOrder(1, 2, "workers", ("c",), 2, (3,)),
    ]
    assert state_of(core, 9) is JobState.CLAIMING
    assert core.handle(WorkersChanged(1, 2), 11.0) == []
    assert core.handle(WorkersChanged(0, 1), 12.0) == [StartJob(9, ("a", "b", "c"), (12, 12, 12))]
    core.check()
    assert (
        core.explain(9) == "job 9 is starting: started on 3 nodes with job 0 and job 1 (cores 2-3 of each): they share"
    )


@pytest.mark.parametrize(("moved", "ahead_of", "waiting"), [(11, 10, [11, 10, 9]), (9, 10, [9, 10, 11])])
def test_a_newcomer_that_waits_again_is_where_it_was_and_so_are_those_that_were_moved(
    moved: int, ahead_of: int, waiting: list[int]
) -> None:
    core, policy = make(2, 1, shares=[])
    for job_id in (10, 9, 11):
        core.handle(JobSubmitted(malleable(job_id, 3)), 10.0)
    core.handle(JobMoved(moved, ahead_of), 11.0)
    policy.shares.append(both())
    core.handle(JobSubmitted(malleable(12, 3)), 12.0)
    assert state_of(core, 9) is JobState.CLAIMING
    policy.shares.clear()
    core.handle(ResizeFailed(0, 1, "no"), 13.0)
    assert list(core.waiting) == [*waiting, 12]
    core.check()


def test_a_newcomer_that_starts_smaller_than_it_asked_for_is_expected_to_take_longer() -> None:
    policy = Scripted([both()])
    core = SchedulerCore(list("abc"), policy, Settings(cores_per_node=4, walltime="scaled"))
    for job_id, size in enumerate((2, 1)):
        core.handle(JobSubmitted(malleable(job_id, size)), 0.0)
        core.handle_batch([JobStarted(job_id), MalleableReady(job_id)], 0.0)
    core.handle(JobSubmitted(JobSpec(9, "m", "u", "malleable", 6, 3, 6, 100.0, 0.0)), 0.0)
    core.handle_batch([WorkersChanged(0, 1), WorkersChanged(1, 2)], 0.0)
    core.handle(JobStarted(9), 0.0)
    core.handle(WakeUp(), 100.0)
    row = next(row for row in core.snapshot().jobs if row.job == 9)
    # Half of the nodes, and half of the cores of each: four times as long.
    assert (row.state, row.expected_end_s) == ("running", 400.0)
    assert not any(isinstance(effect, KillJob) for effect in core.handle(WakeUp(), 450.0))
    core.check()


def test_nobody_counts_on_nodes_on_which_others_stay() -> None:
    core, _ = make(2, 1, shares=[both()])
    core.handle(JobSubmitted(malleable(9, 3, 100.0)), 10.0)
    core.handle_batch([WorkersChanged(0, 1), WorkersChanged(1, 2)], 10.0)
    core.handle(JobStarted(9), 10.0)
    core.handle(WakeUp(), 11.0)  # its end is predicted
    found = counts_on(core._state, Reservation(10, 5000.0, 3, 0))
    assert found == (Claim(0, 2, 1100.0), Claim(1, 1, 1100.0))


def test_the_mates_get_their_cores_back_at_the_end_and_the_nodes_stay_theirs() -> None:
    core, policy = make(2, 1, shares=[both()])
    core.handle(JobSubmitted(malleable(9, 3, 100.0)), 10.0)
    core.handle_batch([WorkersChanged(0, 1), WorkersChanged(1, 2)], 10.0)
    core.handle(JobStarted(9), 10.0)
    effects = core.handle(JobEnded(9, "completed"), 60.0)
    assert effects[:2] == [
        SendOrder(0, 3, "workers", ("a", "b"), 4, (15, 15)),
        SendOrder(1, 4, "workers", ("c",), 4, (15,)),
    ]
    assert policy.seen[-1].free_nodes == 0
    core.handle_batch([WorkersChanged(0, 3), WorkersChanged(1, 4)], 60.0)
    core.check()
    jobs = {job.spec.job_id: job for job in policy.seen[-1].running}
    assert (jobs[0].cores, jobs[0].neighbours, jobs[0].shares) == (None, 0, False)
    # Half as fast for 50 s: 25 s more.
    assert jobs[0].expected_end_s == 1025.0


def test_what_a_policy_sees_of_jobs_that_share() -> None:
    core, policy = make(2, 1, shares=[both()])
    core.handle(JobSubmitted(malleable(9, 3, 100.0)), 10.0)
    core.handle_batch([WorkersChanged(0, 1), WorkersChanged(1, 2)], 10.0)
    core.handle_batch([JobStarted(9), MalleableReady(9)], 10.0)
    jobs = {job.spec.job_id: job for job in policy.seen[-1].running}
    # The newcomer takes 200 s, until 210 s; the mates lose 100 s until then.
    assert (jobs[9].cores, jobs[9].neighbours, jobs[9].is_host, jobs[9].kept_nodes) == (2, 1, False, 3)
    assert jobs[9].expected_end_s == 210.0
    assert (jobs[0].cores, jobs[0].neighbours, jobs[0].is_host, jobs[0].kept_nodes) == (2, 1, True, 0)
    assert jobs[0].expected_end_s == 1100.0
    assert policy.seen[-1].cores_per_node == 4
    assert not jobs[0].resizable(10.0)
    assert jobs[0].takes_orders(10.0)
    assert jobs[0].reclaimable_nodes(0) == 0


def test_a_newcomer_takes_the_cores_of_a_mate_that_ends_and_then_has_the_node_for_itself() -> None:
    core, policy = make(2, 1, shares=[both()])
    core.handle(JobSubmitted(malleable(9, 3)), 10.0)
    core.handle_batch([WorkersChanged(0, 1), WorkersChanged(1, 2)], 10.0)
    core.handle_batch([JobStarted(9), MalleableReady(9)], 10.0)
    effects = core.handle(JobEnded(0, "completed"), 20.0)
    assert effects[0] == SendOrder(9, 3, "workers", ("a", "b", "c"), 2, (15, 15, 12))
    assert policy.seen[-1].free_nodes == 0
    core.handle(WorkersChanged(9, 3), 20.0)
    core.check()
    core.handle(JobEnded(1, "completed"), 30.0)
    core.handle(WorkersChanged(9, 4), 30.0)
    core.check()
    newcomer = policy.seen[-1].running[0]
    assert (newcomer.cores, newcomer.is_host, newcomer.neighbours) == (None, True, 0)
    core.handle(JobEnded(9, "completed"), 40.0)
    core.check()
    assert policy.seen[-1].free_nodes == 3


def test_a_mate_that_makes_no_room_sends_the_newcomer_back_to_its_place() -> None:
    core, _ = make(2, 1, shares=[both(), both(8)])
    core._state.view().index(ENDINGS)  # it follows from now on
    core.handle(JobSubmitted(malleable(9, 3)), 10.0)
    core.handle_batch([JobSubmitted(malleable(10, 3)), JobSubmitted(malleable(11, 3))], 10.0)
    core.handle(WorkersChanged(0, 1), 11.0)
    effects = core.handle(ResizeFailed(1, 2, "no"), 12.0)
    assert effects[0] == SendOrder(0, 3, "workers", ("a", "b"), 4, (15, 15))
    core.check()
    assert state_of(core, 9) is JobState.QUEUED
    assert list(core._state.queue) == [9, 10, 11]
    assert sorted(core._state.view().index(ENDINGS).nodes) == [1, 2]
    assert core.handle(WorkersChanged(0, 3), 13.0) == []
    # Job 1 takes orders again 30 s after the refusal, and the newcomer has another try.
    assert [effect for effect in core.handle(WakeUp(), 42.0) if isinstance(effect, SendOrder)] == [
        SendOrder(0, 4, "workers", ("a", "b"), 2, (3, 3)),
        SendOrder(1, 5, "workers", ("c",), 2, (3,)),
    ]


def test_a_mate_that_ends_first_sends_the_newcomer_back() -> None:
    core, _ = make(2, 1, shares=[both()])
    core.handle(JobSubmitted(malleable(9, 3)), 10.0)
    core.handle(JobEnded(1, "completed"), 11.0)
    core.check()
    assert state_of(core, 9) is JobState.QUEUED
    # The other one carries the order out, for which there is no reason any more, and gets its cores back.
    effects = core.handle(WorkersChanged(0, 1), 12.0)
    assert effects[0] == SendOrder(0, 3, "workers", ("a", "b"), 4, (15, 15))
    core.handle(WorkersChanged(0, 3), 12.0)
    core.check()


def test_a_newcomer_that_is_cancelled_meanwhile_leaves_nothing_behind() -> None:
    core, _ = make(2, 1, shares=[both()])
    core.handle(JobSubmitted(malleable(9, 3)), 10.0)
    assert core.handle(CancelJob(9), 11.0) == []
    core.check()
    assert state_of(core, 9) is JobState.ENDED
    core.handle_batch([WorkersChanged(0, 1), WorkersChanged(1, 2)], 12.0)
    core.handle_batch([WorkersChanged(0, 3), WorkersChanged(1, 4)], 12.0)
    core.check()
    assert core.anomalies == ()


def test_all_jobs_of_a_node_that_fails_are_ended() -> None:
    core, _ = make(2, 1, shares=[both()])
    core.handle(JobSubmitted(malleable(9, 3)), 10.0)
    core.handle(NodeDown("c"), 11.0)
    assert state_of(core, 9) is JobState.QUEUED, "it had not started"
    core, _ = make(2, 1, shares=[both()])
    core.handle(JobSubmitted(malleable(9, 3)), 10.0)
    core.handle_batch([WorkersChanged(0, 1), WorkersChanged(1, 2)], 10.0)
    kills = [effect.job_id for effect in core.handle(NodeDown("c"), 11.0) if isinstance(effect, KillJob)]
    assert kills == [1, 9]
    core.check()


def test_a_job_that_shares_may_lose_nodes() -> None:
    core, policy = make(2, 1, shares=[both()])
    core.handle(JobSubmitted(malleable(9, 3)), 10.0)
    core.handle_batch([WorkersChanged(0, 1), WorkersChanged(1, 2)], 10.0)
    core.handle_batch([JobStarted(9), MalleableReady(9)], 10.0)
    core.handle(NodesLost(0, ("b",), "its place died"), 11.0)
    core.check()
    effects = core.handle(WakeUp(), 12.0)
    assert not [effect for effect in effects if not isinstance(effect, WakeAt)]
    # Node b has only the newcomer now, which is ordered to use all of it.
    assert core._state.jobs[9].order is not None
    assert core._state.jobs[9].order.count == 2
    core.handle(JobEnded(9, "completed"), 13.0)
    core.check()
    assert policy.seen[-1].free_nodes == 1


def test_a_job_may_lose_nodes_while_it_makes_room() -> None:
    core, _ = make(2, 1, shares=[both()])
    core.handle(JobSubmitted(malleable(9, 3)), 10.0)
    core.handle(NodesLost(0, ("b",), "its place died"), 11.0)
    core.check()
    assert state_of(core, 9) is JobState.QUEUED
    # It makes room on the node that it has left, for which there is no reason any more, and gets the cores back.
    effects = core.handle(WorkersChanged(0, 1), 12.0)
    assert SendOrder(0, 3, "workers", ("a",), 4, (15,)) in effects
    core.check()


def test_a_sharing_job_is_not_resized() -> None:
    core, _ = make(2, 1, shares=[both()])
    core.handle(JobSubmitted(malleable(9, 3)), 10.0)
    core.handle_batch([WorkersChanged(0, 1), WorkersChanged(1, 2)], 10.0)
    (refused,) = core.handle(EvolvingRequest(0, 1), 11.0)
    assert "takes no order now" in getattr(refused, "reason", "")


@pytest.mark.parametrize(
    ("share", "story"),
    [
        (Share(9, 3, (0, 1), 4, 0, "x"), "cannot give that number of cores"),
        (Share(9, 3, (0, 1), 0, 0, "x"), "no cores"),
        (Share(9, 3, (0, 0), 2, 0, "x"), "no mates"),
        (Share(9, 3, (), 2, 3, "x"), "no mates"),
        (Share(9, 3, (0,), 2, 1, "x"), "0 nodes are free"),
        (Share(9, 3, (0,), 2, 0, "x"), "the mates and the free nodes are 2"),
    ],
)
def test_what_cannot_be_shared_is_refused(share: Share, story: str) -> None:
    core, _ = make(2, 1, shares=[share])
    with pytest.raises(InfeasibleDecisionError, match=story):
        core.handle(JobSubmitted(malleable(9, 3)), 10.0)


def test_a_node_is_shared_only_where_the_policy_declares_it() -> None:
    core, _ = make(2, 1, shares=[both()], jobs_per_node=1)
    with pytest.raises(InfeasibleDecisionError, match="1 jobs may share a node"):
        core.handle(JobSubmitted(malleable(9, 3)), 10.0)


def test_three_jobs_share_a_node_where_that_is_declared() -> None:
    core, policy = make(2, 1, shares=[both(), both(8, cores=1)], jobs_per_node=3)
    core.handle(JobSubmitted(malleable(9, 3)), 10.0)
    core.handle_batch([WorkersChanged(0, 1), WorkersChanged(1, 2)], 10.0)
    core.handle_batch([JobStarted(9), MalleableReady(9)], 10.0)
    core.handle(JobSubmitted(malleable(8, 3)), 11.0)
    core.handle_batch([WorkersChanged(0, 3), WorkersChanged(1, 4)], 11.0)
    core.check()
    assert [sorted(stack.cores.items()) for stack in core._state.sharing] == [
        [(0, 0b0001), (8, 0b0010), (9, 0b1100)],
        [(1, 0b0001), (8, 0b0010), (9, 0b1100)],
    ]
    core.handle(JobEnded(9, "completed"), 12.0)
    core.check()
    assert {job.spec.job_id: job.neighbours for job in policy.seen[-1].running} == {0: 1, 1: 1, 8: 1}


def test_a_core_in_two_allocations_is_noticed() -> None:
    core, _ = make(2, 1, shares=[both()])
    core.handle(JobSubmitted(malleable(9, 3)), 10.0)
    core.handle_batch([WorkersChanged(0, 1), WorkersChanged(1, 2)], 10.0)
    next(iter(core._state.sharing)).cores[0] = 0b0111
    with pytest.raises(InvariantError, match="a core is in two allocations"):
        core.check()


def test_another_policy_goes_on_with_nodes_that_are_shared() -> None:
    core, _ = make(2, 1, shares=[both()])
    core.handle(JobSubmitted(malleable(9, 3)), 10.0)
    core.handle_batch([WorkersChanged(0, 1), WorkersChanged(1, 2)], 10.0)
    core.use(policies.get("easy"), Settings())
    core.handle(JobEnded(9, "completed"), 20.0)
    core.handle_batch([WorkersChanged(0, 3), WorkersChanged(1, 4)], 20.0)
    core.check()
    core.use(policies.get("easy"), Settings())
    assert core._state.sharing.jobs_per_node == 1


def test_the_policy_of_the_paper_declares_how_many_jobs_share_a_node() -> None:
    core = SchedulerCore(["a"], policies.get("sd-policy", jobs_per_node=3), Settings(cores_per_node=2))
    assert core._state.sharing.jobs_per_node == 3
    assert SchedulerCore(["a"], policies.get("easy"))._state.sharing.jobs_per_node == 1


def test_nodes_outside_the_policys_filter_are_not_shared() -> None:
    # Job 0 has a and b, job 1 has c. Only a and c may be shared: a decision that needs b, too, is not carried out.
    policy = Scripted([both()])
    policy.shared_nodes = NodeFilter.parse("a,c")
    core = SchedulerCore(list("abc"), policy, Settings(cores_per_node=4))
    for job_id, size in enumerate((2, 1)):
        core.handle(JobSubmitted(malleable(job_id, size)), 0.0)
        core.handle_batch([JobStarted(job_id), MalleableReady(job_id)], 0.0)
    assert [job.may_share for job in core._state.view().running] == [False, True]
    with pytest.raises(InfeasibleDecisionError, match="jobs may share a, c; job 0 has others"):
        core.handle(JobSubmitted(malleable(9, 3, 100.0)), 10.0)


def test_another_policy_brings_another_filter() -> None:
    core = SchedulerCore(list("abc"), policies.get("sd-policy"), Settings(cores_per_node=4))
    core.handle(JobSubmitted(malleable(0, 2)), 0.0)
    core.handle_batch([JobStarted(0), MalleableReady(0)], 0.0)
    for nodes, may_share in (("*", True), ("[bc]", False), ("?", True)):
        core.use(policies.get("sd-policy", nodes=nodes), Settings())
        assert core._state.view().running[0].may_share is may_share


def expected_end_s(core: SchedulerCore, job_id: int) -> float | None:
    return next(row.expected_end_s for row in core.snapshot().jobs if row.job == job_id)


@pytest.mark.parametrize(("walltime_s", "guest_s", "host_s"), [(100.0, 210.0, 1100.0), (5000.0, 10_010.0, 1990.0)])
def test_a_host_goes_on_faster_when_its_guest_has_ended_unless_it_ends_before(
    walltime_s: float, guest_s: float, host_s: float
) -> None:
    core, _ = make(1, shares=[Share(9, 1, (0,), 2, 0, "they share")])
    core.handle(JobSubmitted(malleable(9, 1, walltime_s)), 10.0)
    core.handle(WorkersChanged(0, 1), 10.0)
    core.handle(JobStarted(9), 10.0)
    core.handle(WakeUp(), 11.0)
    # Both have two of the four cores from 10 s on: the host has 990 s of its walltime left, the guest all of its own.
    assert (expected_end_s(core, 9), expected_end_s(core, 0)) == (guest_s, host_s)


def test_a_policy_sees_at_once_whose_nodes_will_be_shared() -> None:
    core, policy = make(2, 1, shares=[both()])
    core.handle(JobSubmitted(malleable(9, 3)), 10.0)
    core.handle(JobSubmitted(malleable(10, 3)), 11.0)
    seen = {job.spec.job_id: (job.neighbours, job.is_host, job.kept_nodes) for job in policy.seen[-1].running}
    assert seen == {0: (1, True, 2), 1: (1, True, 1), 9: (1, False, 0)}
