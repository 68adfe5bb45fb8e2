"""Hand-computed cases for the penalty scheduling policy, and the accuracy that the core keeps for it."""

from __future__ import annotations

import pytest
from msgspec import structs
from support.simulated import simulated

from scheduler_bridge import policies
from scheduler_bridge.core.events import CancelJob
from scheduler_bridge.model import ClusterView, JobSpec
from scheduler_bridge.policies import Reserve, Start
from scheduler_bridge.policies.compose import ComposedPolicy
from scheduler_bridge.policies.penalty import priority
from scheduler_bridge.sim import Engine, Simulated, simulate


def job(job_id: int, user: str, runtime_s: float = 10.0, walltime_s: float = 10.0, submit_s: float = 0.0) -> Simulated:
    return simulated(JobSpec(job_id, "r", user, "rigid", 1, 1, 1, walltime_s, submit_s), runtime_s)


@pytest.mark.parametrize(
    ("accuracy", "expected"),
    [(None, 3), (0.0, 1), (0.19, 1), (0.2, 2), (0.35, 2), (0.4, 3), (0.6, 4), (0.79, 4), (0.8, 5), (1.0, 5)],
)
def test_the_priorities_are_those_of_table_1(accuracy: float | None, expected: int) -> None:
    assert priority(accuracy) == expected


def test_good_estimators_come_first_and_newcomers_in_the_middle() -> None:
    queue = tuple(job(index, user)[0].spec() for index, user in enumerate(("bad", "new", "good", "bad", "good")))
    view = ClusterView(5, 5, queue, (), accuracy={"good": 0.9, "bad": 0.1})
    started = [d.job_id for d in policies.get("penalty").decide(view, 0.0) if isinstance(d, Start)]
    assert started == [2, 4, 1, 0, 3]


@pytest.mark.parametrize(
    ("age_s", "expected"), [(0.0, [3, 2, 1, 0]), (100.0, [3, 0, 2, 1]), (50.0, [0, 3, 2, 1]), (1.0, [0, 1, 2, 3])]
)
def test_waiting_gains_priorities(age_s: float, expected: list[int]) -> None:
    # Priorities 1, 3, 4 and 5, submitted at 0, 300, 310 and 320 s. With 100 s a priority they come as if submitted at
    # -100, 0, -90 and -180 s; with 50 s at -50, 150, 110 and 70 s; with 1 s the order of submission is left.
    users = ("bad", "new", "fair", "good")
    submitted = zip(users, (0.0, 300.0, 310.0, 320.0), strict=True)
    queue = tuple(job(index, user, submit_s=at)[0].spec() for index, (user, at) in enumerate(submitted))
    view = ClusterView(4, 4, queue, (), accuracy={"good": 0.9, "fair": 0.7, "bad": 0.1})
    for now in (320.0, 9000.0):
        decided = policies.get("penalty", age_s=age_s).decide(view, now)
        assert [d.job_id for d in decided if isinstance(d, Start)] == expected


@pytest.mark.parametrize("age_s", [-1.0, float("inf"), float("nan")])
def test_an_age_is_a_number_of_seconds(age_s: float) -> None:
    with pytest.raises(policies.InvalidParameterError, match="age_s is"):
        policies.get("penalty", age_s=age_s)


def test_timeline_with_aging() -> None:
    # As in the timeline below, but a job gains a priority each second: bad's second job, submitted a second earlier
    # with four priorities less, comes as if submitted at 4 s, good's at 1 s. With 0.1 s: at 4.9 and 5.5 s.
    jobs = [job(0, "bad", 1.0), job(1, "good"), job(2, "bad", 1.0, submit_s=5.0), job(3, "good", submit_s=6.0)]
    slow, fast = (simulate(1, policies.get("penalty", age_s=age_s), jobs).records.values() for age_s in (1.0, 0.1))
    assert [record.start_s for record in slow] == [0, 1, 21, 11]
    assert [record.start_s for record in fast] == [0, 1, 11, 12]


def test_the_reservation_is_the_best_estimators() -> None:
    queue = (job(0, "bad")[0].spec(), JobSpec(1, "r", "good", "rigid", 2, 2, 2, 10.0, 0.0))
    view = ClusterView(2, 0, queue, (), accuracy={"good": 0.9, "bad": 0.1})
    (reserve,) = (d for d in policies.get("penalty", over="fcfs").decide(view, 0.0) if isinstance(d, Reserve))
    assert reserve.reservation.job_id == 1


def test_the_policy_below_has_its_parameters() -> None:
    above = policies.get("penalty", over="mebf:expand=intensive,theta=0.25")
    below = policies.get("mebf", expand="intensive", theta=0.25)
    assert isinstance(above, ComposedPolicy)
    assert isinstance(below, ComposedPolicy)
    assert repr(above.redistribution) == repr(below.redistribution)
    assert repr(above.redistribution) != repr(policies.get("mebf").redistribution)  # type: ignore[attr-defined]  # composed


@pytest.mark.parametrize("over", ["penalty", "best-use", "easy:x=1", "mebf:theta=x", "nonsense"])
def test_a_policy_below_takes_the_order_of_submission(over: str) -> None:
    with pytest.raises(policies.UnknownPolicyError):
        policies.get("penalty", over=over)


def test_timeline() -> None:
    # One node. 0 s to 1 s: bad's job (1 s of 10 s: accuracy 0.1), 1 s to 11 s: good's (accuracy 1). Then good's second
    # job (submitted later) runs before bad's second one.
    jobs = [job(0, "bad", 1.0), job(1, "good"), job(2, "bad", 1.0, submit_s=5.0), job(3, "good", submit_s=6.0)]
    records = simulate(1, policies.get("penalty"), jobs).records
    assert [record.start_s for record in records.values()] == [0, 1, 21, 11]


def accuracy(engine: Engine) -> dict[str, float]:
    return dict(engine.core._state.view().accuracy)


def after(jobs: list[Simulated]) -> Engine:
    engine = Engine(1, policies.get("fcfs"))
    engine.run(jobs)
    return engine


def test_the_last_ten_jobs_count() -> None:
    early, late = [job(index, "u", 2.0) for index in range(5)], [job(index, "u", 5.0) for index in range(5, 15)]
    assert accuracy(after(early)) == {"u": 0.2}
    assert accuracy(after([*early, *late])) == {"u": 0.5}
    assert accuracy(after([*early, *late[:5]])) == {"u": 0.35}


def test_jobs_over_their_walltime_are_exact_and_cancelled_ones_do_not_count() -> None:
    slow, dynamics = job(0, "slow", 99.0)
    engine = Engine(2, policies.get("fcfs"))
    engine.run([(slow, structs.replace(dynamics, kill_delay_s=5.0)), job(1, "gone")], [(3.0, CancelJob(1))])
    assert accuracy(engine) == {"slow": 1.0}


def test_it_lies_over_any_other_policy() -> None:
    assert policies.get("penalty", over="malleable").name == "penalty"
    with pytest.raises(policies.UnknownPolicyError, match="no policy 'esay'"):
        policies.get("penalty", over="esay")
