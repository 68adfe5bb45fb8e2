"""Nodes of several places: numbered, named, and released as a whole."""

from __future__ import annotations

import pytest

from apgas.core import resize as r
from apgas.core.messages import PlaceInfo
from apgas.core.order import Nodes, OrderMachine, Step
from apgas.errors import UsageError
from apgas.runtime.environment import places_per_node


def members(*names: str) -> dict[int, PlaceInfo]:
    return {place: PlaceInfo(place, "h", 1, name, place) for place, name in enumerate(names)}


@pytest.mark.parametrize(
    ("names", "per_node", "held"),
    [
        ("abc", 1, [(0,), (1,), (2,)]),
        ("aabb", 2, [(0, 1), (2, 3)]),
        ("abab", 2, [(0, 2), (1, 3)]),
        ("aaaa", 2, [(0, 1), (2, 3)]),
        ("aaaa", 1, [(0,), (1,), (2,), (3,)]),
        ("bbbaaabbb", 3, [(0, 1, 2), (3, 4, 5), (6, 7, 8)]),
    ],
)
def test_places_of_one_host_make_up_its_nodes(names: str, per_node: int, held: list[tuple[int, ...]]) -> None:
    nodes = Nodes(members(*names), per_node)
    assert nodes.held() == held
    assert len(nodes) == len(held)
    assert nodes.names_of(range(len(names))) == tuple(names[places[0]] for places in held)


@pytest.mark.parametrize(("names", "per_node"), [("aab", 2), ("aaabbb", 2), ("a", 2)])
def test_hosts_hold_whole_nodes(names: str, per_node: int) -> None:
    with pytest.raises(UsageError, match=f"start a multiple of {per_node} on each host"):
        Nodes(members(*names), per_node)


def test_a_node_has_a_place() -> None:
    with pytest.raises(UsageError, match="there cannot be 0 places per node"):
        Nodes(members("a"), 0)


def test_newcomers_stand_together() -> None:
    here = members("a", "a")
    nodes = Nodes(here, 2)
    added = [PlaceInfo(place, "h", 1, name, place) for place, name in zip((5, 6, 7, 8), "bbaa", strict=True)]
    nodes.add(added)
    assert nodes.held() == [(0, 1)]
    here.update({info.place: info for info in added})
    assert nodes.held() == [(0, 1), (5, 6), (7, 8)]
    assert nodes.names_of((8, 7, 5, 6)) == ("b", "a")


def test_the_other_nodes_of_a_host_stay_what_they_are() -> None:
    here = members(*"aaaaaa")
    nodes = Nodes(here, 2)
    del here[2], here[3]
    assert nodes.held() == [(0, 1), (4, 5)]


def test_what_is_left_of_a_node_leaves_as_one() -> None:
    here = members(*"aabb")
    nodes = Nodes(here, 2)
    del here[2]  # it died
    assert nodes.held() == [(0, 1), (3,)]
    assert nodes.complaint([3], 1) == ""
    assert nodes.names_of([3]) == ("b",)


@pytest.mark.parametrize(
    ("leavers", "count", "complaint"),
    [
        ([2, 3], 1, ""),
        ([5, 2, 4, 3], 2, ""),
        ([1], 1, "preShrink named place 1 on the node of place 0, which always stays"),
        ([2], 1, "preShrink named [2], but not [3] of the same node"),
        ([3, 4], 1, "preShrink named [3], but not [2] of the same node"),
        ([2, 3], 2, "preShrink named 2 places of 1 nodes instead of all places of 2"),
        ([], 1, "preShrink named 0 places of 0 nodes instead of all places of 1"),
    ],
)
def test_whole_nodes_leave(leavers: list[int], count: int, complaint: str) -> None:
    assert Nodes(members(*"aabbcc"), 2).complaint(leavers, count) == complaint


class Job:
    """An order on four nodes of two places."""

    def __init__(self, order: r.ResizeOrder) -> None:
        self.members = members(*"aabbccdd")
        self.machine = OrderMachine(self.members)
        self.machine.nodes = Nodes(self.members, 2)
        self.machine.enable()
        self.effects = self.machine.ordered(order, 0.0)

    def call(self) -> r.CallHandler:
        return [effect for effect in self.effects if isinstance(effect, r.CallHandler)][-1]

    def returns(self, value: list[int] | None = None) -> None:
        self.effects += self.machine.returned(self.call().token, value, 0.0)

    def record(self) -> r.ResizeRecord:
        return [effect.record for effect in self.effects if isinstance(effect, r.Finished)][-1]


def test_a_grow_spawns_all_places_of_its_nodes() -> None:
    job = Job(r.ResizeOrder(1, "grow", 2, ("e", "f")))
    assert (job.call().method, job.call().count) == ("preGrow", 4)
    job.returns()
    spawn = [effect for effect in job.effects if isinstance(effect, r.StartSpawn)][-1]
    assert spawn.nodes == ("e", "e", "f", "f")
    added = tuple(PlaceInfo(place, "h", 1, name, place) for place, name in zip(range(8, 12), "eeff", strict=True))
    job.effects += job.machine.spawned(spawn.token, added, {}, 0.0) or []
    job.members.update({info.place: info for info in added})
    assert (job.call().method, job.call().count, job.call().second) == ("postGrow", 4, (8, 9, 10, 11))
    job.returns()
    record = job.record()
    assert (record.outcome, record.n, record.nodes, record.places) == ("done", 2, ("e", "f"), (8, 9, 10, 11))
    assert job.machine.nodes.held()[4:] == [(8, 9), (10, 11)]


def test_a_grow_without_names_spawns_as_many() -> None:
    job = Job(r.ResizeOrder(1, "grow", 3))
    job.returns()
    assert [effect.nodes for effect in job.effects if isinstance(effect, r.StartSpawn)] == [("",) * 6]


def test_a_shrink_tells_places_and_reports_nodes() -> None:
    job = Job(r.ResizeOrder(1, "shrink", 2))
    assert (job.call().method, job.call().count) == ("preShrink", 4)
    job.returns([7, 2, 6, 3])
    for place in (2, 3, 6, 7):
        job.effects += job.machine.drained(1, place, 0.0)
    for place in (2, 3, 6, 7):
        job.effects += job.machine.gone(place, 0.0)
    assert (job.call().method, job.call().count, job.call().first) == ("postShrink", 4, (2, 3, 6, 7))
    job.returns()
    record = job.record()
    assert (record.outcome, record.n, record.nodes, record.places) == ("done", 2, ("b", "d"), (2, 3, 6, 7))


def test_a_list_that_cuts_a_node_aborts() -> None:
    job = Job(r.ResizeOrder(1, "shrink", 1))
    job.returns([3, 4])
    assert job.machine.step is Step.UNDO
    assert (job.call().method, job.call().first) == ("shrinkAborted", (3, 4))
    job.returns()
    record = job.record()
    assert (record.outcome, record.nodes, record.places) == ("aborted", (), ())
    assert record.reason == "preShrink named [3], but not [2] of the same node"


def test_the_node_of_place_0_cannot_be_ordered_away() -> None:
    job = Job(r.ResizeOrder(1, "shrink", 4))
    assert job.record().reason == "cannot release 4 of 4 nodes: that of place 0 always stays"


def test_bounds_count_nodes() -> None:
    job = Job(r.ResizeOrder(1, "shrink", 1))
    job.machine.withdrawn(1, 0.0)
    job.machine.bounds = r.Bounds(3, 5)
    job.effects = job.machine.ordered(r.ResizeOrder(2, "grow", 2), 0.0)
    assert "not on 6" in job.record().reason
    job.effects = job.machine.ordered(r.ResizeOrder(3, "shrink", 1), 0.0)
    assert job.call().method == "preShrink"


@pytest.mark.parametrize("text", ["0", "-1", "two", "1.5", " 2"])
def test_the_variable_is_a_number(text: str) -> None:
    with pytest.raises(UsageError, match="APGAS_PLACES_PER_NODE is"):
        places_per_node({"APGAS_PLACES_PER_NODE": text})


@pytest.mark.parametrize(
    ("environ", "count"), [({}, 1), ({"APGAS_PLACES_PER_NODE": ""}, 1), ({"APGAS_PLACES_PER_NODE": "4"}, 4)]
)
def test_the_variable_is_one_by_default(environ: dict[str, str], count: int) -> None:
    assert places_per_node(environ) == count
