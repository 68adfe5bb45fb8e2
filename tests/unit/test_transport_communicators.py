"""How one place builds, hands out and frees its communicators, on an MPI that only takes notes."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest
from support import PATIENCE_S

from apgas.errors import UsageError
from apgas.transport.communicators import Build, Communicators


class FakeComm:
    """Named after how it was made; notes when it is freed."""

    def __init__(self, name: str, freed: list[str], fails: str = "") -> None:
        self.name, self.freed, self.fails = name, freed, fails

    def _make(self, name: str) -> FakeComm:
        if self.fails and self.fails in name:
            raise RuntimeError(f"no {name}")
        return FakeComm(name, self.freed, self.fails)

    def Dup(self) -> FakeComm:
        return self._make(f"copy of {self.name}")

    def Create_intercomm(self, leader: int, peer: FakeComm, remote: int, tag: int) -> FakeComm:
        return self._make(f"{self.name}-{peer.name}{remote}")

    def Merge(self, high: bool) -> FakeComm:
        return self._make(f"({self.name}{'^' if high else ''})")

    def Get_group(self) -> FakeComm:
        return self._make("group")

    def Incl(self, ranks: list[int]) -> FakeComm:
        return self._make(f"{ranks}")

    def Create_group(self, group: FakeComm, tag: int) -> FakeComm:
        return self._make(f"{self.name}{group.name}")

    def Free(self) -> None:
        self.freed.append(self.name)


class Rig:
    def __init__(self, here: int, *, newcomer: bool = False, fails: str = "") -> None:
        self.freed: list[str] = []
        mpi = SimpleNamespace(COMM_WORLD=FakeComm("W", self.freed, fails), COMM_SELF=FakeComm("S", self.freed))
        bridge: Any = FakeComm("B", self.freed) if newcomer else None
        self.all = Communicators(mpi, bridge, "comm")
        self.all.here = here
        self.failures: list[str] = []
        self.all.on_failed = self.failures.append

    def build(self, number: int, members: tuple[int, ...], *worlds: tuple[int, ...]) -> str:
        self.all.build(Build(number, members, worlds))
        assert self.all.settled(PATIENCE_S)
        return self.newest()

    def newest(self) -> str:
        assert self.all.newest is not None
        return self.name(self.all.newest.comm)

    @staticmethod
    def name(comm: Any) -> str:
        return str(comm.name)

    def bridge(self, world: tuple[int, ...], name: str) -> None:
        self.all.bridge(world, FakeComm(name, self.freed))  # type: ignore[arg-type]  # a stand-in


def test_place_0_lets_one_world_after_another_in() -> None:
    rig = Rig(0)
    assert rig.build(0, (0, 1)) == "copy of W"
    rig.bridge((2,), "b2")
    rig.bridge((3, 4), "b34")
    assert rig.all.worlds([2, 3, 4]) == ((2,), (3, 4))
    assert rig.build(1, (0, 1, 2, 3, 4), (2,), (3, 4)) == "((copy of W-b21)-b341)"
    assert "(copy of W-b21)" in rig.freed
    assert {"b2", "b34"} <= set(rig.freed)
    assert "copy of W" not in rig.freed
    assert rig.all.newest is not None
    assert rig.all.newest.ranks == {0: 0, 1: 1, 2: 2, 3: 3, 4: 4}


def test_other_places_follow_without_a_bridge() -> None:
    rig = Rig(1)
    rig.build(0, (0, 1))
    assert rig.build(1, (0, 1, 2), (2,)) == "(copy of W-S1)"


@pytest.mark.parametrize(("here", "made"), [(2, "((W-B0^)-S1)"), (3, "(W-B0^)")])
def test_newcomers_come_in_with_their_world(here: int, made: str) -> None:
    rig = Rig(here, newcomer=True)
    assert rig.build(4, (0, 1, 2, 3), (2,), (3,)) == made


def test_worlds_that_came_too_late_are_forgotten() -> None:
    rig = Rig(0)
    rig.build(0, (0,))
    rig.bridge((1,), "late")
    rig.bridge((2,), "in time")
    assert rig.all.worlds([2]) == ((2,),)
    rig.build(1, (0, 2), (2,))
    assert "late" in rig.freed


def test_those_who_stay_make_theirs_alone_and_the_one_before_the_last_goes() -> None:
    rig = Rig(1)
    waited: list[int] = []

    def wait_sent(number: int, seconds: float) -> bool:
        waited.append(number)
        return True

    rig.all.wait_sent = wait_sent
    rig.build(0, (0, 1, 2, 3))
    assert rig.build(1, (0, 1, 3)) == "copy of W[0, 1, 3]"
    assert "copy of W" not in rig.freed
    assert rig.build(2, (0, 1)) == "copy of W[0, 1, 3][0, 1]"
    assert "copy of W" in rig.freed
    assert waited == [0]


def test_one_on_which_something_still_travels_is_kept() -> None:
    rig = Rig(1)
    rig.all.wait_sent = lambda number, seconds: False
    for number in range(3):
        rig.build(number, tuple(range(4 - number)))
    assert "copy of W" not in rig.freed


def test_a_program_gets_that_of_its_places_and_keeps_it_until_the_next() -> None:
    rig = Rig(0)
    rig.build(0, (0, 1, 2))
    first: Any = rig.all.fetch((0, 1, 2), PATIENCE_S)
    assert first.name == "copy of copy of W"
    rig.build(1, (0, 1))
    again: Any = rig.all.fetch((0, 1, 2), PATIENCE_S)
    assert again is first
    assert rig.all.fetch((0, 2), 0.0) is None
    later: Any = rig.all.fetch((0, 1), PATIENCE_S)
    assert later.name == "copy of copy of W[0, 1]"
    assert rig.freed.count("copy of copy of W") == 1
    assert later.name not in rig.freed


def test_a_program_that_asks_early_waits() -> None:
    rig = Rig(0)
    found: list[Any] = []
    asking = threading.Thread(target=lambda: found.append(rig.all.fetch((0, 1), PATIENCE_S)))
    asking.start()
    rig.build(0, (0, 1))
    asking.join()
    assert found[0].name == "copy of copy of W"


def test_only_some_that_nobody_asked_for_are_kept() -> None:
    rig = Rig(0)
    for number in range(8):
        rig.build(number, tuple(range(10 - number)))
    assert rig.all.fetch(tuple(range(10)), 0.0) is None
    assert rig.all.fetch(tuple(range(4)), 0.0) is not None


def test_a_failure_is_reported_to_all_who_wait() -> None:
    rig = Rig(0, fails="copy")
    rig.all.build(Build(0, (0, 1), ()))
    with pytest.raises(UsageError, match="that of epoch 0 could not be built: no copy of W"):
        rig.all.fetch((0, 1), PATIENCE_S)
    assert rig.failures == ["that of epoch 0 could not be built: no copy of W"]
