from __future__ import annotations

import queue
import threading
from collections.abc import Iterator, Sequence

import pytest

from apgas.transport import engine
from apgas.transport.engine import Engine, Request, Transfer

PATIENCE_S = 20.0


class FakeRequest:
    """Done when the test says so."""

    def __init__(self) -> None:
        self.done = False
        self.error = ""
        self.log: list[str] = []

    def Test(self) -> bool:
        if self.error:
            raise RuntimeError(self.error)
        return self.done

    def Cancel(self) -> None:
        self.log.append("cancel")

    def Free(self) -> None:
        self.log.append("free")


class FakeMpi:
    """Counts how often it is asked."""

    def __init__(self) -> None:
        self.looks = 0
        self.looked = threading.Semaphore(0)

    def test_some(self, requests: list[Request]) -> Sequence[int] | None:
        self.looks += 1
        self.looked.release()
        done = [index for index, request in enumerate(requests) if request.Test()]
        for index in done:
            requests[index] = FakeRequest()  # as MPI does: what is done is replaced
        return done


class Rig:
    def __init__(self) -> None:
        self.mpi = FakeMpi()
        self.calls: queue.SimpleQueue[str] = queue.SimpleQueue()
        progress, stuck = (lambda: self.calls.put("progress")), (lambda: self.calls.put("stuck"))
        self.engine = Engine(self.mpi.test_some, progress, stuck, "engine")
        self.ended: queue.SimpleQueue[tuple[str, str]] = queue.SimpleQueue()
        self.engine.start()

    def transfer(self, name: str, requests: Sequence[FakeRequest], *, receiving: bool = False) -> Transfer:
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
    assert rig.ends() == ("bad", "the peer is gone")
    assert sibling.log == ["cancel", "free"]
    good.done = True
    assert rig.ends() == ("good", "")
    assert rig.ended.empty()


def test_what_cannot_begin_ends_at_once(rig: Rig) -> None:
    def fail() -> list[Request]:
        raise RuntimeError("no such communicator")

    rig.engine.submit(Transfer(fail, lambda error: rig.ended.put(("x", error)), receiving=False))
    assert rig.ends() == ("x", "no such communicator")


@pytest.mark.parametrize(("receiving", "log"), [(True, ["cancel", "free"]), (False, ["free"])])
def test_given_up_means_not_told(rig: Rig, receiving: bool, log: list[str]) -> None:
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
