"""The core, event by event."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable

import pytest
from support.scheduling import (
    NODES,
    make,
    malleable,
    rigid,
    run_one,
    shrinking,
    state_of,
)

from scheduler_bridge import policies
from scheduler_bridge.core import InfeasibleDecisionError, JobState, SchedulerCore, Settings
from scheduler_bridge.core.events import (
    CancelJob,
    Event,
    EvolvingRequest,
    GrowCompleted,
    InvalidTransitionError,
    JobEnded,
    JobStarted,
    JobSubmitted,
    KillJob,
    MalleableReady,
    NodeDown,
    NodeUp,
    Refuse,
    ReservationMade,
    ShrinkCompleted,
    StartJob,
    WakeAt,
    WakeUp,
)
from scheduler_bridge.core.tracked import TRANSITIONS, Step, TrackedJob
from scheduler_bridge.model import AdvanceReservation, Because, ClusterView, JobSpec, Reservation
from scheduler_bridge.policies import Decision, Grow, Reserve, Share, Shrink, Stand, Start

# starting and ending ----------------------------------------------------------------------------------------------


def test_a_job_starts_on_the_first_free_nodes_and_is_woken_for_at_its_walltime() -> None:
    core = make()
    assert core.handle(JobSubmitted(rigid(1, 3)), 0.0) == [StartJob(1, ("a", "b", "c"))]
    assert state_of(core, 1) is JobState.STARTING
    assert core.handle(JobStarted(1), 2.0) == [WakeAt(102.0)]
    assert state_of(core, 1) is JobState.RUNNING


def test_where_starts_are_prompt_a_job_runs_as_soon_as_it_is_started_without_a_report() -> None:
    core = SchedulerCore(NODES, policies.get("fcfs"), prompt_starts=True)
    assert core.handle(JobSubmitted(rigid(1, 3)), 2.0) == [StartJob(1, ("a", "b", "c")), WakeAt(102.0)]
    assert state_of(core, 1) is JobState.RUNNING
    assert [effect for effect in core.handle(WakeUp(), 102.0) if isinstance(effect, KillJob)]


def test_a_core_that_is_to_forget_knows_nothing_of_ended_jobs_and_goes_on() -> None:
    core = make("fcfs")
    run_one(core, rigid(1, 4), ready=False)
    core.handle_batch([JobSubmitted(rigid(2, 4)), JobEnded(1, "completed")], 10.0)
    assert core.forget() == [(1, "completed", 10.0)]
    assert core.forget() == []
    assert [job_id for job_id, _, _ in core.endings()] == [2]
    core.handle(JobStarted(2), 10.0)
    core.handle_batch([JobSubmitted(rigid(1, 4)), JobEnded(2, "failed")], 20.0)
    assert (core.forget(), state_of(core, 1)) == ([(2, "failed", 20.0)], JobState.STARTING)
    core.check()


def test_a_job_too_large_for_the_cluster_is_refused() -> None:
    core = make()
    assert core.handle(JobSubmitted(rigid(1, 5)), 0.0) == [Refuse(1, "job 1 needs 5 nodes, the cluster has 4")]
    assert core.snapshot().jobs == ()


def test_within_a_batch_ends_come_before_submissions() -> None:
    core = make("fcfs")
    run_one(core, rigid(1, 4), ready=False)
    effects = core.handle_batch([JobSubmitted(rigid(2, 4)), JobEnded(1, "completed")], 10.0)
    assert effects == [StartJob(2, NODES)]


@pytest.mark.parametrize("other", [CancelJob(1), NodeDown("a")])
def test_a_job_that_ends_at_the_same_instant_is_not_killed_any_more(other: Event) -> None:
    core = make("fcfs")
    run_one(core, rigid(1, 4), ready=False)
    assert core.handle_batch([other, JobEnded(1, "completed")], 10.0) == []
    assert core.snapshot().jobs[0].state == "completed"


def test_the_policy_decides_once_per_batch() -> None:
    passes: list[int] = []

    class Counting(Stub):
        def decide(self, view: ClusterView, now: float) -> list[Decision]:
            passes.append(len(view.queue))
            return []

    core = SchedulerCore(NODES, Counting([]))
    core.handle_batch([JobSubmitted(rigid(1, 1)), JobSubmitted(rigid(2, 1)), NodeUp("e")], 0.0)
    assert passes == [2]


def test_over_the_walltime_a_job_is_killed_and_ends_as_timeout() -> None:
    core = make(settings=Settings(walltime_grace_s=5.0))
    run_one(core, rigid(1, 1), ready=False)
    assert core.handle(WakeUp(), 104.0) == [WakeAt(105.0)], "woken early: asks again"
    assert core.handle(WakeUp(), 105.0) == [KillJob(1, "over its walltime of 100 s")]
    assert state_of(core, 1) is JobState.ENDING
    core.handle(JobEnded(1, "failed", "signal 15"), 106.0)
    row = core.snapshot().jobs[0]
    assert (row.state, row.reason) == ("timeout", "over its walltime of 100 s")


def test_an_end_at_the_walltime_is_no_timeout() -> None:
    core = make()
    run_one(core, rigid(1, 1), ready=False)
    assert core.handle_batch([WakeUp(), JobEnded(1, "completed")], 100.0) == []
    assert core.snapshot().jobs[0].state == "completed"


def test_a_failed_start_gives_the_nodes_back() -> None:
    core = make()
    core.handle(JobSubmitted(rigid(1, 4)), 0.0)
    core.handle(JobEnded(1, "failed", "mpiexec not found"), 1.0)
    assert core.handle(JobSubmitted(rigid(2, 4)), 2.0) == [StartJob(2, NODES)]
    assert core.explain(1) == "job 1 is ended: failed: mpiexec not found"


def test_cancelling_a_waiting_job_needs_no_effect_and_lets_the_next_one_start() -> None:
    core = make("fcfs")
    run_one(core, rigid(1, 2), ready=False)
    core.handle(JobSubmitted(rigid(2, 3)), 1.0)
    core.handle(JobSubmitted(rigid(3, 2)), 1.0)
    assert core.handle(CancelJob(2), 2.0) == [StartJob(3, ("c", "d"))]
    assert core.snapshot().jobs[1].state == "cancelled"


def test_cancelling_a_running_job_kills_it_once() -> None:
    core = make()
    run_one(core, rigid(1, 2), ready=False)
    assert core.handle(CancelJob(1), 1.0) == [KillJob(1, "cancelled")]
    assert core.handle(CancelJob(1), 2.0) == []
    core.handle(JobEnded(1, "failed"), 3.0)
    assert core.snapshot().jobs[0].state == "cancelled"
    assert core.explain(1) == "job 1 is ended: cancelled"
    assert core.handle(CancelJob(1), 4.0) == []


def test_a_job_that_completes_although_it_was_killed_has_completed() -> None:
    core = make()
    run_one(core, rigid(1, 2), ready=False)
    core.handle(CancelJob(1), 1.0)
    core.handle(JobEnded(1, "completed"), 1.5)
    assert core.snapshot().jobs[0].state == "completed"


# nodes ------------------------------------------------------------------------------------------------------------


def test_a_node_that_fails_ends_its_job_and_is_not_used_until_it_is_back() -> None:
    core = make("fcfs")
    run_one(core, rigid(1, 2), ready=False)
    assert core.handle(NodeDown("a"), 1.0) == [KillJob(1, "node a is out of service")]
    assert core.handle(JobSubmitted(rigid(2, 4)), 2.0) == []
    core.handle(JobEnded(1, "failed"), 3.0)
    assert core.snapshot().jobs[0].state == "lost"
    assert core.explain(2) == "job 2 is queued: it needs 4 nodes, 3 are free and only 3 in service"
    assert core.handle(NodeUp("a"), 4.0) == [StartJob(2, NODES)]


def test_a_new_node_joins_at_the_end() -> None:
    core = make("fcfs")
    run_one(core, rigid(1, 4), ready=False)
    core.handle(JobSubmitted(rigid(2, 1)), 1.0)
    assert core.handle(NodeUp("new"), 2.0) == [StartJob(2, ("new",))]


def test_a_node_named_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="'a' is named twice"):
        SchedulerCore(("a", "b", "a"), policies.get("fcfs"))


# reports that do not fit ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("event", "story"),
    [
        (JobStarted(9), "unknown job"),
        (JobStarted(1), "reports its start, but it is shrinking"),
        (JobEnded(2, "completed"), "but the job is queued"),
        (JobSubmitted(rigid(1, 1)), "submitted twice"),
        (MalleableReady(2), r"\(rigid, queued\) reports a malleable handler"),
        (ShrinkCompleted(1, 7, ("d",)), "but the order under way is"),
        (GrowCompleted(9, 7, ("d",)), "unknown job"),
        (EvolvingRequest(2, 1), "does not run"),
        (NodeDown("z"), "unknown node"),
    ],
)
def test_contradictory_reports_change_nothing_and_are_kept(event: object, story: str) -> None:
    core = shrinking()
    before = core.snapshot()
    assert core.handle(event, 10.0) == []  # type: ignore[arg-type]  # of the parameters
    assert core.snapshot() == before
    (anomaly,) = core.anomalies
    assert re.search(story, anomaly), anomaly


def test_time_does_not_go_back() -> None:
    core = make()
    core.handle(WakeUp(), 5.0)
    with pytest.raises(ValueError, match="time went back"):
        core.handle(WakeUp(), 4.0)


# policies that err ------------------------------------------------------------------------------------------------


class Stub:
    """A policy with given decisions."""

    def __init__(self, decisions: list[Decision]) -> None:
        self.decisions = decisions

    @property
    def name(self) -> str:
        return "stub"

    def decide(self, view: ClusterView, now: float) -> list[Decision]:
        return self.decisions

    def why_waiting(self, view: ClusterView, job: JobSpec, reservation: Reservation | None) -> str:
        return "because"


@pytest.mark.parametrize(
    "decision",
    [
        Start(9, 1, "unknown"),
        Start(2, 3, "more than are free"),
        Start(2, 1, "below the minimum"),
        Start(1, 1, "runs already"),
        Grow(1, 1, "above the maximum"),
        Shrink(1, 2, "below the minimum"),
        Shrink(1, 0, "nothing"),
        Grow(3, 1, "not ready"),
    ],
)
def test_an_infeasible_decision_is_a_defect_of_the_policy(decision: Decision) -> None:
    policy = Stub([Start(1, 2, ""), Start(3, 1, "")])
    core = SchedulerCore(("a", "b", "c", "d", "e"), policy)
    core.handle_batch([JobSubmitted(malleable(1, 1, 2)), JobSubmitted(malleable(3, 1, 2))], 0.0)
    policy.decisions = []
    core.handle_batch([JobStarted(1), JobStarted(3), MalleableReady(1)], 0.0)
    policy.decisions = [decision]
    with pytest.raises(InfeasibleDecisionError, match=r"Start|Grow|Shrink"):
        core.handle(JobSubmitted(rigid(2, 3)), 1.0)


def _raises() -> list[Decision]:
    raise KeyError("my mistake")


def _raises_what_cannot_be_written() -> list[Decision]:
    raise ValueError("\udcff")


@pytest.mark.parametrize("user_nodes", [None, 4])
@pytest.mark.parametrize(
    ("decided", "failure"),
    [
        (_raises, r"policy stub \(.*/test_scheduler_core.py:\d+\) raised KeyError: 'my mistake'$"),
        (lambda: sys.exit(3), "raised SystemExit: 3$"),
        (lambda: None, "decided None: that is no list"),
        (lambda: [7], "that is no list of decisions"),
        (lambda: [Start(9, 1, "unknown")], "that is no list of decisions"),
        (lambda: [Start(2, 2.5, "half a node")], "that is no list of decisions"),  # type: ignore[arg-type]
        (lambda: [Start(2, 9, "too many")], "the policy decided what cannot be done: Start"),
        (lambda: [Share(2, 1, (8,), 1, 0, "unknown mate")], "that is no list of decisions"),
        (lambda: [Share(2, 1, (1,), 1, -1, "less than no node")], "the policy decided what cannot be done: Share"),
        (lambda: [Shrink(1, 1, "for none", ((2, 0),))], "that is no list of decisions"),
        (lambda: [Shrink(1, 1, "for whom?", (2,))], "that is no list of decisions"),  # type: ignore[arg-type]
        (lambda: [Share(2, 1, None, 1, 0, "no mates")], "that is no list of decisions"),  # type: ignore[arg-type]
        (lambda: [Share(2, 1, (True,), 1, 0, "no number")], "that is no list of decisions"),
        (lambda: [Start(2, True, "no number")], "that is no list of decisions"),
        (
            lambda: [Start(2, 1, "once"), Start(2, 1, "twice")],
            "that is no list of decisions about known jobs, one a job",
        ),
        (lambda: [Start(2, 1, "\udcff")], "raised UnicodeEncodeError"),
        (_raises_what_cannot_be_written, r"raised ValueError: \\udcff$"),
        (lambda: [Start(2, 1, Because("{} {}", (1,)))], "raised IndexError"),
        (lambda: [Reserve(None)], "that is no list of decisions"),  # type: ignore[arg-type]
        (lambda: [Reserve(Reservation(2, "soon", 1, 0))], "that is no list"),  # type: ignore[arg-type]
        (lambda: [Reserve(Reservation(9, 1.0, 1, 0))], "that is no list of decisions"),
    ],
)
def test_a_tolerant_core_goes_on_without_what_a_policy_does_wrong(
    decided: Callable[[], list[Decision]], failure: str, user_nodes: int | None
) -> None:
    policy = Stub([Start(1, 2, "")])
    core = SchedulerCore(("a", "b", "c"), policy, Settings(user_nodes=user_nodes), tolerant=True)
    core.handle(JobSubmitted(rigid(1, 2)), 0.0)
    assert core.handle(JobStarted(1), 0.0) == [WakeAt(100.0)]
    policy.decide = lambda view, now: decided()  # type: ignore[method-assign]
    assert core.handle(JobSubmitted(rigid(2, 1)), 1.0) == []
    assert re.search(failure, core.policy_failure), core.policy_failure
    assert core.explain(2) == f"job 2 is queued: {core.policy_failure}"
    assert state_of(core, 1) is JobState.RUNNING
    policy.decide = lambda view, now: [Start(2, 1, "")]  # type: ignore[method-assign]
    assert core.handle(JobEnded(1, "completed"), 2.0) == [StartJob(2, ("a",))]
    assert core.policy_failure == ""


@pytest.mark.parametrize(
    "decided", [[Reserve(Reservation(2, 5.0, 2, 0))], [Start(2, 1, ""), Reserve(Reservation(2, 5.0, 1, 0))]]
)
def test_a_tolerant_core_comes_to_an_end_beside_a_reservation(decided: list[Decision]) -> None:
    """A promise that cannot be kept was lent nodes again and again."""
    policy = Stub([])
    core = SchedulerCore(("a", "b", "c"), policy, tolerant=True)
    core.handle(ReservationMade(AdvanceReservation("later", 500.0, 1000.0, 2)), 0.0)
    policy.decisions = decided
    core.handle_batch([JobSubmitted(rigid(1, 3, 5000.0)), JobSubmitted(rigid(2, 1, 100.0))], 1.0)
    assert state_of(core, 2) in (JobState.QUEUED, JobState.STARTING)
    assert (core.policy_failure == "") == isinstance(decided[0], Start)


# reading ----------------------------------------------------------------------------------------------------------


def test_the_snapshot_tells_the_expected_start_and_reasons() -> None:
    core = make("easy")
    run_one(core, rigid(1, 3), ready=False)
    core.handle_batch([JobSubmitted(rigid(2, 4, 50.0)), JobSubmitted(rigid(3, 1, 500.0))], 10.0)
    snapshot = core.snapshot()
    assert (snapshot.policy, snapshot.now_s) == ("easy", 10.0)
    assert [row.expected_start_s for row in snapshot.jobs] == [None, 100.0, None]
    assert snapshot.jobs[1].reason == "it needs 4 nodes, 1 is free; 4 nodes are reserved for job 2 at 100 s"
    assert core.explain(3) == (
        "job 3 is queued: it would delay job 2: 4 nodes are reserved for job 2 at 100 s, 0 are spare"
    )
    assert core.explain(1) == "job 1 is running: started on 3 nodes: first in the queue"
    assert [row.job for row in snapshot.nodes] == [1, 1, 1, None]


def test_periodic_passes_go_on_while_there_is_something_to_do() -> None:
    core = make(settings=Settings(pass_interval_s=5.0))
    assert core.handle(JobSubmitted(rigid(1, 1)), 0.0) == [StartJob(1, ("a",)), WakeAt(5.0)]
    assert core.handle(WakeUp(), 5.0) == [WakeAt(10.0)]
    assert core.handle(JobEnded(1, "completed"), 6.0) == []
    assert core.handle(WakeUp(), 10.0) == []


def test_the_transition_table_is_the_only_way() -> None:
    job = TrackedJob(rigid(1, 1))
    with pytest.raises(InvalidTransitionError, match="job 1 is queued, cannot grow"):
        job.step(Step.GROW)
    assert not [step for state, step in TRANSITIONS if state is JobState.ENDED], "the end is the end"
    back = [state for (state, _), after in TRANSITIONS.items() if after is JobState.QUEUED]
    assert back == [JobState.CLAIMING], "who runs does not wait again"
    assert set(TRANSITIONS.values()) == set(JobState)


def test_a_longer_grace_counts_for_jobs_that_run() -> None:
    core = make()
    run_one(core, rigid(1, 1, 100.0), ready=False)
    core.use(core.policy, Settings(walltime_grace_s=20.0))
    assert WakeAt(120.0) in [*core.handle(WakeUp(), 100.0), *core.handle(WakeUp(), 101.0)]
    assert [type(effect) for effect in core.handle(WakeUp(), 120.0)] == [KillJob]


def test_what_is_known_of_users_can_be_handed_on() -> None:
    before, after = make(), make()
    run_one(before, rigid(1, 1, 100.0), ready=False)
    before.handle(JobEnded(1, "completed"), 25.0)
    assert before.past_use == {"u": [0.25]}
    after.learn(before.past_use)
    assert after.past_use == before.past_use


def test_promises_stand_only_where_the_policy_says_so() -> None:
    promise = Reservation(2, 100.0, 4, 0)
    policy = Stub([Start(1, 1, ""), Reserve(promise)])
    core = SchedulerCore(NODES, policy)
    core.handle_batch([JobSubmitted(rigid(1, 1)), JobSubmitted(rigid(2, 4))], 0.0)
    for decisions, kept in (([Stand()], 100.0), ([], None)):
        policy.decisions = list(decisions)
        core.handle(NodeUp(f"e{len(decisions)}"), 1.0)
        assert core.explanation(2).expected_start_s == kept


def test_a_shorter_interval_between_passes_holds_from_the_next_pass_on() -> None:
    core = make(settings=Settings(pass_interval_s=50.0))
    run_one(core, rigid(1, 1, 100.0), ready=False)
    core.use(core.policy, Settings(pass_interval_s=5.0))
    assert core.handle(NodeUp("e"), 1.0) == [WakeAt(6.0)]  # a wake-up would have forgotten the time asked for


class Shortest(Stub):
    """Looks at the waiting jobs in an order of its own, and at nothing else."""

    def decide(self, view: ClusterView, now: float) -> list[Decision]:
        self.seen = [spec.job_id for spec in view.queue_by(_walltime_s)]
        return []


def _walltime_s(spec: JobSpec) -> float:
    return spec.walltime_s


def test_a_policy_that_asks_for_its_own_order_alone_sees_the_queue_as_it_is() -> None:
    policy = Shortest([])
    core = SchedulerCore(NODES, policy)
    for job_id, walltime_s in ((1, 100.0), (2, 50.0), (3, 70.0)):
        core.handle(JobSubmitted(rigid(job_id, 1, walltime_s)), 0.0)
    assert policy.seen == [2, 3, 1]
    core.handle(CancelJob(3), 1.0)
    assert policy.seen == [2, 1]
