"""What a resilient job needs of its launch, what it says of a dead place, and orders that lose one."""

from __future__ import annotations

import pickle

import pytest

from apgas.core import resize as r
from apgas.core.membership import Membership
from apgas.core.messages import Members, PlaceInfo
from apgas.core.order import OrderMachine
from apgas.core.place import PlaceCore
from apgas.errors import DeadPlaceError, InvariantError, PlaceGoneError, ProtocolError, UsageError
from apgas.runtime import resilience


def info(place: int) -> PlaceInfo:
    return PlaceInfo(place, "h", 1, f"n{place}", place)


def reshape(places: int) -> tuple[OrderMachine, dict[int, PlaceInfo]]:
    members = {place: info(place) for place in range(places)}
    machine = OrderMachine(members)
    machine.enable()
    return machine, members


def begin(machine: OrderMachine, kind: r.Kind, count: int) -> r.CallHandler:
    (call,) = (x for x in machine.ordered(r.ResizeOrder(1, kind, count), 0.0) if isinstance(x, r.CallHandler))
    return call


def record(effects: list[r.OrderEffect]) -> r.ResizeRecord:
    (finished,) = (effect for effect in effects if isinstance(effect, r.Finished))
    return finished.record


def call_of(effects: list[r.OrderEffect]) -> r.CallHandler:
    (call,) = (effect for effect in effects if isinstance(effect, r.CallHandler))
    return call


@pytest.mark.parametrize(("value", "wanted"), [("", False), ("0", False), ("1", True)])
def test_the_environment_asks_for_a_resilient_job(value: str, wanted: bool) -> None:
    assert resilience.wanted({"APGAS_RESILIENT": value}) is wanted


def test_the_environment_has_to_be_clear() -> None:
    with pytest.raises(UsageError, match="APGAS_RESILIENT=yes"):
        resilience.wanted({"APGAS_RESILIENT": "yes"})


def test_spawned_places_are_shielded_only_in_resilient_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("APGAS_RESILIENT", raising=False)
    assert resilience.shielded("python", ["-c", "pass"]) == ("python", ["-c", "pass"])
    monkeypatch.setenv("APGAS_RESILIENT", "1")
    command, args = resilience.shielded("python", ["-c", "pass"])
    assert (command, args[-3:]) == ("/bin/sh", ["python", "-c", "pass"])


def test_the_error_says_what_is_lost_and_travels() -> None:
    error = DeadPlaceError(3, 7, "node2", 2)
    assert str(error) == "place 3 on node2 has died (epoch 7); 2 activities are lost"
    assert str(DeadPlaceError(3, 7, "node2", 1)).endswith("1 activity is lost")
    again = pickle.loads(pickle.dumps(error))
    assert isinstance(again, DeadPlaceError)
    assert issubclass(DeadPlaceError, PlaceGoneError)
    assert (again.place, again.epoch, again.node, again.activities, str(again)) == (3, 7, "node2", 2, str(error))


def test_a_member_that_died_differs_from_one_that_left() -> None:
    membership = Membership([info(place) for place in range(3)], 0)
    membership.commit(1, (), (), died=(2,))
    with pytest.raises(DeadPlaceError, match="place 2 on n2 has died"):
        membership.require(2)
    with pytest.raises(InvariantError):
        membership.commit(2, (), (), died=(2,))
    with pytest.raises(InvariantError):
        membership.commit(2, (), (), died=(0,))


def test_a_job_that_is_not_resilient_knows_no_dead() -> None:
    core = PlaceCore(1, [info(0), info(1), info(2)], 0)
    with pytest.raises(ProtocolError, match="not resilient"):
        core.received(0, Members(1, (), (), (2,)), [])


def test_a_leaver_that_dies_counts_as_drained() -> None:
    machine, members = reshape(4)
    machine.returned(begin(machine, "shrink", 2).token, [2, 3], 1.0)
    assert machine.answers_for(3)
    del members[3]
    assert machine.died(3, 2.0) == []
    (commit,) = (x for x in machine.drained(1, 2, 3.0) if isinstance(x, r.CommitShrink))
    assert commit.leavers == (2,)
    done = record(machine.returned(call_of(machine.gone(2, 4.0)).token, None, 5.0))
    assert (done.outcome, done.nodes, done.reason) == ("done", ("n2", "n3"), "place 3 died before it was released")


def test_when_all_leavers_die_the_shrink_is_done() -> None:
    machine, members = reshape(3)
    machine.returned(begin(machine, "shrink", 1).token, [2], 1.0)
    del members[2]
    effects = machine.died(2, 2.0)
    assert not any(isinstance(effect, r.CommitShrink) for effect in effects)
    done = record(machine.returned(call_of(effects).token, None, 3.0))
    assert (done.outcome, done.nodes) == ("done", ("n2",))


def test_newcomers_that_die_at_once_were_not_gained() -> None:
    machine, members = reshape(2)
    spawn = machine.returned(begin(machine, "grow", 2).token, None, 1.0)
    (token,) = (effect.token for effect in spawn if isinstance(effect, r.StartSpawn))
    members.update({2: info(2), 3: info(3)})
    call = call_of(machine.spawned(token, (info(2), info(3)), {}, 2.0) or [])
    assert machine.answers_for(3)
    del members[3]
    machine.died(3, 3.0)
    done = record(machine.returned(call.token, None, 4.0))
    assert (done.outcome, done.nodes) == ("done", ("n2",))
    assert "place 3 died as soon as it had joined" in done.reason


def test_a_grow_without_a_living_newcomer_is_aborted() -> None:
    machine, members = reshape(2)
    spawn = machine.returned(begin(machine, "grow", 1).token, None, 1.0)
    (token,) = (effect.token for effect in spawn if isinstance(effect, r.StartSpawn))
    members[2] = info(2)
    call = call_of(machine.spawned(token, (info(2),), {}, 2.0) or [])
    del members[2]
    machine.died(2, 3.0)
    done = record(machine.returned(call.token, None, 4.0))
    assert (done.outcome, done.nodes) == ("aborted", ())


def test_a_node_is_gone_with_its_last_place() -> None:
    machine, members = reshape(3)
    del members[2]
    assert machine.nodes.is_gone(2)
    assert not machine.nodes.is_gone(1)
    assert not machine.answers_for(2)
