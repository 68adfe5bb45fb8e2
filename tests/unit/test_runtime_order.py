"""The life of an order, step by step."""

from __future__ import annotations

import pytest
from support.in_places.validation import validate

from apgas.core import resize as r
from apgas.core.messages import PlaceInfo
from apgas.core.order import OrderMachine, Step
from apgas.errors import UsageError


def _info(place: int) -> PlaceInfo:
    return PlaceInfo(place, "h", 1, f"n{place}", place)


class Coordinator:
    """Drives a OrderMachine and remembers its effects."""

    def __init__(self, places: int = 3) -> None:
        self.members = {place: _info(place) for place in range(places)}
        self.machine = OrderMachine(
            self.members, r.Deadlines(pre_s=10, spawn_s=10, drain_s=10, release_s=10, post_s=10)
        )
        self.machine.enable()
        self.now = 0.0
        self.effects: list[r.OrderEffect] = []

    def take(self, effects: list[r.OrderEffect] | None) -> list[r.OrderEffect]:
        self.now += 1
        self.effects += effects or []
        return effects or []

    def order(self, kind: r.Kind, count: int, number: int = 1, nodes: tuple[str, ...] = ()) -> None:
        self.take(self.machine.ordered(r.ResizeOrder(number, kind, count, nodes), self.now))

    def last(self, kind: type[r.OrderEffect]) -> r.OrderEffect:
        return [effect for effect in self.effects if isinstance(effect, kind)][-1]

    def call(self) -> r.CallHandler:
        call = self.last(r.CallHandler)
        assert isinstance(call, r.CallHandler)
        return call

    def returns(self, value: list[int] | None = None) -> list[r.OrderEffect]:
        return self.take(self.machine.returned(self.call().token, value, self.now))

    def deadline(self) -> list[r.OrderEffect]:
        timer = self.last(r.SetTimer)
        assert isinstance(timer, r.SetTimer)
        return self.take(self.machine.timeout(timer.token, self.now))

    def record(self) -> r.ResizeRecord:
        finished = self.last(r.Finished)
        assert isinstance(finished, r.Finished)
        return finished.record


def test_grow_runs_through_its_steps() -> None:
    job = Coordinator()
    job.order("grow", 2, nodes=("a", "b"))
    assert job.call().method == "preGrow"
    job.returns()
    spawn = job.last(r.StartSpawn)
    assert isinstance(spawn, r.StartSpawn)
    assert spawn.nodes == ("a", "b")
    added = (_info(3), _info(4))
    job.take(job.machine.spawned(spawn.token, added, {"spawn": 0.1, "join": 0.2}, job.now))
    assert r.CommitGrow(added) in job.effects
    assert job.call().method == "postGrow"
    assert (job.call().first, job.call().second) == ((0, 1, 2), (3, 4))
    job.returns()
    record = job.record()
    assert (record.outcome, record.n, record.nodes) == ("done", 2, ("n3", "n4"))
    assert list(record.phases) == ["pre", "spawn", "join", "post"]
    assert job.machine.step is Step.IDLE


def test_shrink_runs_through_its_steps() -> None:
    job = Coordinator()
    job.order("shrink", 2)
    job.returns([2, 1])
    assert r.PrepareShrink(1, (1, 2)) in job.effects
    assert not job.take(job.machine.drained(1, 1, job.now))
    job.take(job.machine.drained(1, 2, job.now))
    assert r.CommitShrink(1, (1, 2)) in job.effects
    assert not job.take(job.machine.gone(2, job.now))
    job.take(job.machine.gone(1, job.now))
    assert job.call().method == "postShrink"
    job.returns()
    assert (job.record().outcome, job.record().nodes) == ("done", ("n1", "n2"))
    assert list(job.record().phases) == ["pre", "drain", "release", "post"]


@pytest.mark.parametrize("kind", ["grow", "shrink"])
def test_phases_add_up_to_the_whole(kind: r.Kind) -> None:
    """Also with a commit, which the driver measures when the next phase has begun."""
    job = Coordinator()  # each event is a second after the one before
    job.order(kind, 1)
    job.returns([2] if kind == "shrink" else None)
    if kind == "grow":
        spawn = job.last(r.StartSpawn)
        assert isinstance(spawn, r.StartSpawn)
        job.take(job.machine.spawned(spawn.token, (_info(3),), {"spawn": 0.75, "join": 0.25}, job.now))
        job.machine.note_phase("commit", 0.25)
    else:
        job.take(job.machine.drained(1, 2, job.now))
        job.machine.note_phase("commit", 0.25)
        job.take(job.machine.gone(2, job.now))
    validate(job.machine)
    ended_s = job.now
    job.returns()
    assert sum(job.record().phases.values()) == pytest.approx(ended_s)
    assert "commit" in job.record().phases


@pytest.mark.parametrize(
    ("leavers", "complaint"),
    [
        (None, "no list"),
        ([0], "place 0"),
        ([1, 1], "twice"),
        ([7], "no members: [7]"),
        ([1, 2], "named 2 places instead of 1"),
        ([], "named 0 places instead of 1"),
    ],
)
def test_a_wrong_list_aborts(leavers: list[int] | None, complaint: str) -> None:
    job = Coordinator()
    job.order("shrink", 1)
    job.returns(leavers)
    named = tuple(sorted({1, 2}.intersection(leavers or ())))
    if named:  # the handler may have moved their work already
        assert (job.call().method, job.call().first) == ("shrinkAborted", named)
        assert job.machine.step is Step.UNDO
        job.returns()
    assert job.record().outcome == "aborted"
    assert complaint in job.record().reason
    assert not any(isinstance(effect, r.PrepareShrink | r.AbortShrink) for effect in job.effects)


def test_place_0_cannot_be_ordered_away() -> None:
    job = Coordinator(places=2)
    job.order("shrink", 2)
    assert job.record().outcome == "refused"
    assert "place 0 always stays" in job.record().reason


@pytest.mark.parametrize("count", [3, 4, 9])
def test_more_than_all_other_places_cannot_be_ordered_away(count: int) -> None:
    job = Coordinator(3)
    job.order("shrink", count)
    assert job.record().reason == f"cannot release {count} of 3 places: place 0 always stays"


def test_without_a_handler_orders_are_refused() -> None:
    job = Coordinator()
    job.take(job.machine.disable(job.now))
    job.order("grow", 1)
    assert (job.record().outcome, job.record().reason) == ("refused", "no malleable handler is registered")


def test_names_must_match_the_count() -> None:
    job = Coordinator()
    job.order("grow", 2, nodes=("a",))
    assert job.record().outcome == "refused"


def test_orders_wait_in_line() -> None:
    job = Coordinator()
    job.order("grow", 1, number=1)
    job.order("shrink", 1, number=2)
    assert job.call().method == "preGrow"
    job.take(job.machine.failed(job.call().token, "no", job.now))
    assert (job.record().order, job.record().outcome) == (1, "aborted")
    assert job.call().method == "preShrink"


def test_a_handler_that_raises_aborts() -> None:
    job = Coordinator()
    job.order("grow", 1)
    job.take(job.machine.failed(job.call().token, "preGrow raised ValueError: x", job.now))
    assert (job.record().outcome, job.record().reason) == ("aborted", "preGrow raised ValueError: x")


def test_a_post_method_that_raises_is_reported() -> None:
    job = Coordinator()
    job.order("shrink", 1)
    job.returns([2])
    job.take(job.machine.drained(1, 2, job.now))
    job.take(job.machine.gone(2, job.now))
    job.take(job.machine.failed(job.call().token, "postShrink raised", job.now))
    assert (job.record().outcome, job.record().reason) == ("done", "postShrink raised")


def test_a_post_method_that_does_not_return_is_reported() -> None:
    job = Coordinator()
    job.order("grow", 1)
    job.returns()
    spawn = job.last(r.StartSpawn)
    assert isinstance(spawn, r.StartSpawn)
    job.take(job.machine.spawned(spawn.token, (_info(3),), {}, job.now))
    job.deadline()
    assert job.record().outcome == "done"
    assert job.record().reason == "the handler's post method did not return: post took longer than its deadline"


def test_a_late_pre_shrink_is_undone() -> None:
    job = Coordinator()
    job.order("shrink", 1)
    call = job.call()
    job.deadline()
    assert job.record().outcome == "aborted"
    effects = job.take(job.machine.returned(call.token, [2], job.now))
    assert effects == [r.CallHandler(-1, "shrinkAborted", 1, (2,))]
    assert job.take(job.machine.returned(call.token, [2], job.now)) == []


def test_leavers_that_do_not_drain_stay() -> None:
    job = Coordinator()
    job.order("shrink", 1)
    job.returns([2])
    effects = job.deadline()
    assert effects[0] == r.AbortShrink(1)
    assert effects[1] == r.CallHandler(job.call().token, "shrinkAborted", 1, (2,))
    assert job.take(job.machine.drained(1, 2, job.now)) == []
    assert job.machine.step is Step.UNDO
    job.returns()
    assert job.record().reason == "places [2] did not drain: drain took longer than its deadline"
    assert job.record().outcome == "aborted"
    assert job.record().nodes == ()


def test_a_late_spawn_is_sent_home() -> None:
    job = Coordinator()
    job.order("grow", 1)
    job.returns()
    spawn = job.last(r.StartSpawn)
    assert isinstance(spawn, r.StartSpawn)
    job.deadline()
    assert job.machine.spawned(spawn.token, (_info(3),), {}, job.now) is None
    assert not any(isinstance(effect, r.CommitGrow) for effect in job.effects)


def test_a_late_spawn_does_not_count_for_a_later_order() -> None:
    job = Coordinator()
    spawns = []
    for number in (1, 2):
        job.order("grow", 1, number)
        job.returns()
        spawns.append(job.last(r.StartSpawn))
        if number == 1:
            job.deadline()
    late, due = spawns
    assert isinstance(late, r.StartSpawn)
    assert isinstance(due, r.StartSpawn)
    assert job.machine.step is Step.SPAWN
    assert job.machine.spawned(late.token, (_info(3),), {}, job.now) is None
    assert job.machine.step is Step.SPAWN
    job.take(job.machine.spawned(due.token, (_info(4),), {}, job.now))
    assert [effect.added for effect in job.effects if isinstance(effect, r.CommitGrow)] == [(_info(4),)]


def test_a_lingering_process_is_reported() -> None:
    job = Coordinator()
    job.order("shrink", 1)
    job.returns([1])
    job.take(job.machine.drained(1, 1, job.now))
    job.deadline()
    job.returns()
    assert job.record().outcome == "done"
    assert "linger" in job.record().reason


def test_the_scheduler_may_withdraw_what_waits() -> None:
    job = Coordinator()
    job.order("grow", 1, number=1)
    job.order("grow", 1, number=2)
    job.take(job.machine.withdrawn(2, job.now))
    assert (job.record().order, job.record().outcome, job.record().reason) == (2, "refused", "withdrawn")
    job.take(job.machine.withdrawn(1, job.now))
    assert (job.record().order, job.record().outcome) == (1, "aborted")


def test_a_long_pre_is_deferred() -> None:
    job = Coordinator()
    job.order("grow", 1)
    timers = [effect for effect in job.effects if isinstance(effect, r.SetTimer)]
    assert job.take(job.machine.timeout(timers[0].token, job.now)) == [r.TellDeferred(1)]


def test_giving_the_handler_up_ends_what_has_not_moved() -> None:
    job = Coordinator()
    job.order("grow", 1, number=1)
    job.order("grow", 1, number=2)
    job.take(job.machine.disable(job.now))
    outcomes = [(e.record.order, e.record.outcome) for e in job.effects if isinstance(e, r.Finished)]
    assert outcomes == [(2, "refused"), (1, "aborted")]


def test_the_wish_reaches_the_handler() -> None:
    job = Coordinator()
    job.order("shrink", 1, nodes=("n2",))
    assert job.call().wish == ("n2",)


@pytest.mark.parametrize("wrong", [0, -1.0, float("inf"), float("nan"), True, "60", None])
def test_deadlines_are_positive_seconds(wrong: object) -> None:
    with pytest.raises(UsageError, match="deadline pre_s must be a positive number of seconds"):
        r.Deadlines(pre_s=wrong)  # type: ignore[arg-type]  # wrong on purpose


def test_every_step_has_the_deadline_that_the_job_set() -> None:
    job = Coordinator()
    job.machine.deadlines = r.Deadlines(pre_s=1, spawn_s=2, drain_s=3, release_s=4, post_s=5, deferred_s=6)

    def delays() -> list[float]:
        found = [effect.delay_s for effect in job.effects if isinstance(effect, r.SetTimer)]
        job.effects = [effect for effect in job.effects if not isinstance(effect, r.SetTimer)]
        return found

    job.order("grow", 1)
    assert delays() == [6, 1]
    job.returns()
    assert delays() == [2]
    spawn = job.last(r.StartSpawn)
    assert isinstance(spawn, r.StartSpawn)
    job.take(job.machine.spawned(spawn.token, (_info(3),), {}, job.now))
    assert delays() == [5]
    job.returns()
    job.order("shrink", 1, number=2)
    job.returns([1])
    assert delays() == [6, 1, 3]
    job.take(job.machine.drained(2, 1, job.now))
    assert delays() == [4]
    job.take(job.machine.gone(1, job.now))
    assert delays() == [5]
    job.returns()
    job.order("shrink", 1, number=3)
    assert delays() == [6, 1]
    job.returns([0, 1])
    assert job.call().method == "shrinkAborted"
    assert delays() == [5]


def test_an_order_that_has_begun_to_move_ends_within_its_deadlines() -> None:
    assert r.Deadlines(spawn_s=9, drain_s=3, release_s=4, post_s=5).after_pre_s == 14
    assert r.Deadlines(spawn_s=6, drain_s=3, release_s=4, post_s=5).after_pre_s == 12


@pytest.mark.parametrize(("low", "high"), [(0, None), (-1, 3), (3, 2)])
def test_bounds_are_at_least_one_and_in_order(low: int, high: int | None) -> None:
    with pytest.raises(UsageError, match="cannot run on"):
        r.Bounds(low, high)


@pytest.mark.parametrize(
    ("kind", "count", "fine"), [("grow", 1, True), ("grow", 2, False), ("shrink", 1, True), ("shrink", 2, False)]
)
def test_an_order_outside_of_the_bounds_is_refused(kind: r.Kind, count: int, fine: bool) -> None:
    job = Coordinator(places=3)
    job.machine.bounds = r.Bounds(2, 4)
    job.order(kind, count)
    assert (job.machine.step is Step.PRE) == fine
    if not fine:
        assert job.record().outcome == "refused"
        wanted = 5 if kind == "grow" else 1
        assert job.record().reason == f"the program runs on at least 2 nodes, at most 4, not on {wanted}"


def test_bounds_are_checked_when_the_order_is_taken_up() -> None:
    """What is impossible when it arrives may be possible when the orders before it were carried out."""
    job = Coordinator(places=2)
    job.machine.bounds = r.Bounds(2, 3)
    job.order("grow", 1, number=1)
    job.order("shrink", 1, number=2)
    job.returns()
    spawn = job.last(r.StartSpawn)
    assert isinstance(spawn, r.StartSpawn)
    job.members[2] = _info(2)
    job.take(job.machine.spawned(spawn.token, (_info(2),), {}, job.now))
    job.returns()
    assert (job.record().order, job.record().outcome) == (1, "done")
    assert job.call().method == "preShrink"


@pytest.mark.parametrize("raises", [True, False], ids=["raises", "hangs"])
def test_an_abort_method_that_fails_is_reported(raises: bool) -> None:
    job = Coordinator()
    job.order("shrink", 1)
    job.returns([2])
    job.deadline()
    assert job.call().method == "shrinkAborted"
    if raises:
        job.take(job.machine.failed(job.call().token, "shrinkAborted raised", job.now))
    else:
        job.deadline()
    assert job.record().outcome == "aborted"
    assert "places [2] did not drain" in job.record().reason
    said = "; shrinkAborted raised" if raises else "; shrinkAborted did not return: undo took longer"
    assert said in job.record().reason
    job.order("shrink", 1, number=2)
    assert job.call().method == "preShrink"


def test_the_next_order_waits_until_an_abort_is_undone() -> None:
    job = Coordinator()
    job.order("shrink", 1, number=1)
    job.order("grow", 1, number=2)
    job.returns([2])
    job.deadline()
    assert job.call().method == "shrinkAborted"
    job.returns()
    assert job.call().method == "preGrow"


def test_a_late_failure_of_pre_shrink_needs_no_undoing() -> None:
    job = Coordinator()
    job.order("shrink", 1)
    call = job.call()
    job.deadline()
    assert job.take(job.machine.failed(call.token, "too late and wrong", job.now)) == []
    assert job.take(job.machine.returned(call.token, [2], job.now)) == []


def test_at_most_so_many_orders_wait() -> None:
    job = Coordinator()
    for number in range(OrderMachine.MAX_WAITING + 2):
        job.order("grow", 1, number=number)
    assert (job.record().order, job.record().outcome) == (OrderMachine.MAX_WAITING + 1, "refused")
    assert job.record().reason == "64 orders wait already"


def test_what_has_begun_to_move_is_carried_out_although_the_handler_was_given_up() -> None:
    job = Coordinator()
    job.order("shrink", 1)
    job.returns([2])
    job.take(job.machine.disable(job.now))
    assert not any(isinstance(effect, r.Finished) for effect in job.effects)
    job.take(job.machine.drained(1, 2, job.now))
    job.take(job.machine.gone(2, job.now))
    job.returns()
    assert job.record().outcome == "done"
