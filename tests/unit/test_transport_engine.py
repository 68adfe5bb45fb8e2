from __future__ import annotations

import queue
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from support import PATIENCE_S

from apgas.transport import engine
from apgas.transport.engine import Engine, Transfer


class FakeRequest:
    """Done when the test says so; a null request once MPI has reported its end, well or not: then without an error."""

    def __init__(self) -> None:
        self.done = False
        self.error = ""
        self.null = False
        self.log: list[str] = []

    def __bool__(self) -> bool:
        return not self.null

    def Test(self) -> bool:
        if self.null:
            return True
        self.null = self.done or bool(self.error)
        if self.error:
            raise RuntimeError(self.error)
        return self.done

    def Cancel(self) -> None:
        self.log.append("cancel")

    def Free(self) -> None:
        self.log.append("free")


@dataclass
class FakeStatus:
    error: int


class FakeMpi:
    """Counts how often it is asked. What failed is a null request, as in MPI; only statuses may have the error."""

    def __init__(self) -> None:
        self.looks = 0
        self.looked = threading.Semaphore(0)
        self.looking = threading.Lock()
        self.has_status = True

    def test_some(self, requests: list[Any], statuses: list[Any]) -> Sequence[int] | None:
        self.looks += 1
        self.looked.release()
        ended: list[int] = []
        failed = False
        with self.looking:
            for index, request in enumerate(requests):
                code = 0
                try:
                    if not request.Test():
                        continue
                except RuntimeError:
                    failed, code = True, 17
                ended.append(index)
                if self.has_status:
                    statuses.append(FakeStatus(code))
        if failed:
            raise RuntimeError("see the statuses")
        return ended


class Rig:
    def __init__(self) -> None:
        self.mpi = FakeMpi()
        self.calls: queue.SimpleQueue[str] = queue.SimpleQueue()
        progress, stuck = (lambda: self.calls.put("progress")), (lambda: self.calls.put("stuck"))
        self.engine = Engine(self.mpi.test_some, progress, stuck, "error {}".format, "engine")
        self.ended: queue.SimpleQueue[tuple[str, str]] = queue.SimpleQueue()
        self.engine.start()

    def transfer(self, name: str, requests: Sequence[Any], *, receiving: bool = False) -> Transfer:
        transfer = Transfer(lambda: list(requests), lambda error: self.ended.put((name, error)), receiving=receiving)
        self.engine.submit(transfer)
        return transfer

    def ends(self) -> tuple[str, str]:
        return self.ended.get(timeout=PATIENCE_S)


@pytest.fixture
def rig() -> Iterator[Rig]:
    made = Rig()
    yield made
    made.engine.stop()


def test_a_transfer_ends_with_its_last_request(rig: Rig) -> None:
    slow, quick, other = FakeRequest(), FakeRequest(), FakeRequest()
    rig.transfer("both", [slow, quick])
    rig.transfer("other", [other])
    quick.done = True
    other.done = True
    assert rig.ends() == ("other", "")
    assert rig.ended.empty()
    slow.done = True
    assert rig.ends() == ("both", "")


def test_without_transfers_nothing_is_looked_at(rig: Rig) -> None:
    rig.engine.give_up(rig.transfer("one", [FakeRequest()]))  # leaves nothing to linger for
    while not rig.calls.empty():
        rig.calls.get()
    before = rig.mpi.looks
    threading.Event().wait(0.05)
    assert (rig.mpi.looks - before <= 1, rig.calls.empty()) == (True, True)


def test_it_lingers_after_a_transfer_and_then_sleeps(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "LINGER_S", 0.05)
    request = FakeRequest()
    request.done = True
    rig.transfer("one", [request])
    assert rig.ends() == ("one", "")
    assert rig.calls.get(timeout=PATIENCE_S) == "progress"
    while True:
        try:
            assert rig.calls.get(timeout=0.2) == "progress"
        except queue.Empty:
            break
    rig.engine.linger()
    assert rig.calls.get(timeout=PATIENCE_S) == "progress"


def test_it_tells_that_a_transfer_is_stuck_again_and_again(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "STUCK_S", 0.01)
    request = FakeRequest()
    rig.transfer("one", [request])
    for _ in range(3):
        assert rig.calls.get(timeout=PATIENCE_S) == "stuck"
    request.done = True
    assert rig.ends() == ("one", "")


def test_a_slow_transfer_is_looked_at_again_and_again(rig: Rig) -> None:
    request = FakeRequest()
    rig.transfer("one", [request])
    for _ in range(5):
        assert rig.mpi.looked.acquire(timeout=PATIENCE_S)
    request.done = True
    assert rig.ends() == ("one", "")


def test_a_receive_of_what_is_there_ends_at_once(rig: Rig) -> None:
    requests = [FakeRequest(), FakeRequest()]
    for request in requests:
        request.done = True
    rig.transfer("received", requests, receiving=True)
    assert rig.ended.get_nowait() == ("received", "")
    assert rig.mpi.looks == 0


def test_a_failure_ends_its_transfer_only(rig: Rig) -> None:
    bad, sibling, good = FakeRequest(), FakeRequest(), FakeRequest()
    rig.transfer("bad", [bad, sibling], receiving=True)
    rig.transfer("good", [good])
    bad.error = "the peer is gone"
    assert rig.ends() == ("bad", "error 17")
    assert sibling.log == ["cancel", "free"]
    good.done = True
    assert rig.ends() == ("good", "")
    assert rig.ended.empty()


@pytest.mark.parametrize(("has_status", "well"), [(True, ""), (False, "it failed together with others")])
def test_what_ended_with_a_failure_is_a_success_only_if_its_status_says_so(
    rig: Rig, has_status: bool, well: str
) -> None:
    rig.mpi.has_status = has_status
    good, later, bad = FakeRequest(), FakeRequest(), FakeRequest()
    for name, request in (("good", good), ("later", later), ("bad", bad)):
        rig.transfer(name, [request])
    while len(rig.engine._requests) < 3:
        rig.mpi.looked.acquire(timeout=0.001)
    with rig.mpi.looking:
        good.done, bad.error = True, "truncated"
    assert [rig.ends(), rig.ends()] == [("good", well), ("bad", "error 17" if has_status else well)]
    later.done = True
    assert rig.ends() == ("later", "")


def test_a_failure_that_names_no_request_is_looked_for(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_requests: list[Any], _statuses: list[Any]) -> Sequence[int] | None:
        raise RuntimeError("no such communicator")

    monkeypatch.setattr(rig.engine, "_test_some", fail)
    bad, good = FakeRequest(), FakeRequest()
    bad.error, good.done = "revoked", True
    rig.transfer("bad", [bad])
    assert rig.ends() == ("bad", "revoked")
    rig.transfer("good", [good])
    assert rig.ends() == ("good", "")


def test_what_began_in_part_is_given_up_and_kept(rig: Rig) -> None:
    """MPI may write to the memory of a request that it has, whatever became of the others."""
    begun = FakeRequest()

    def post() -> Iterator[Any]:
        yield begun
        raise RuntimeError("no memory")

    transfer = Transfer(post, lambda error: rig.ended.put(("x", error)), receiving=True)
    rig.engine.submit(transfer)
    assert rig.ends() == ("x", "no memory")
    assert begun.log == ["cancel", "free"]
    assert rig.engine._given_up == [transfer]


def test_what_cannot_begin_ends_at_once(rig: Rig) -> None:
    def fail() -> list[Any]:
        raise RuntimeError("no such communicator")

    rig.engine.submit(Transfer(fail, lambda error: rig.ended.put(("x", error)), receiving=False))
    assert rig.ends() == ("x", "no such communicator")


@pytest.mark.parametrize(("receiving", "log"), [(True, ["cancel", "free"]), (False, ["free"])])
def test_given_up_means_not_reported(rig: Rig, receiving: bool, log: list[str]) -> None:
    given_up, kept = FakeRequest(), FakeRequest()
    transfer = rig.transfer("given up", [given_up], receiving=receiving)
    rig.transfer("kept", [kept])
    rig.engine.give_up(transfer)
    given_up.done = True
    kept.done = True
    assert rig.ends() == ("kept", "")
    assert rig.ended.empty()
    assert given_up.log == log


def test_it_ends_with_transfers_under_way() -> None:
    rig = Rig()
    request = FakeRequest()
    rig.transfer("one", [request], receiving=True)
    assert rig.mpi.looked.acquire(timeout=PATIENCE_S)
    rig.engine.stop()
    rig.engine.stop()
    assert request.log == ["cancel", "free"]
    assert rig.ended.empty()
