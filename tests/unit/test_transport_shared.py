"""Local sockets and shared memory: same answers as by TCP, memory used again, nothing left behind."""

from __future__ import annotations

import array
import errno
import fcntl
import mmap
import os
import socket
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from support import PATIENCE_S
from support.orders import wait_for
from support.transport_conformance import Recorder

from apgas.errors import ProtocolError
from apgas.transport import shared, tcp, unix_socket
from apgas.transport.auth import new_token
from apgas.transport.base import Buffer
from apgas.transport.shared import LEAST_BYTES, NUMBER, Borrower, Budget, Handing, Lender
from apgas.transport.tcp import TcpTransport

MIB = 2**20


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


class Ends:
    """A lender and a borrower, without sockets between them."""

    def __init__(self, most_bytes: int = 64 * MIB) -> None:
        self.lender = Lender(Budget(most_bytes))
        self.borrower = Borrower(lambda: None)

    def carry(self, buffers: list[Buffer]) -> list[memoryview] | None:
        loan = self.lender.lend(buffers)
        if loan is None:
            return None
        if loan.fd is not None:
            self.borrower.received([os.dup(loan.fd)])
        return self.borrower.views(loan.number, [len(buffer) for buffer in buffers])

    def give_back(self) -> None:
        self.lender.returned(self.borrower.returns())


@pytest.fixture
def ends() -> Iterator[Ends]:
    made = Ends()
    yield made
    made.lender.close()
    made.borrower.close()


def test_buffers_arrive_as_they_were(ends: Ends) -> None:
    buffers: list[Buffer] = [b"\x01" * MIB, bytearray(b"\x02" * 7), b"", memoryview(b"\x03" * 100_001)]
    views = ends.carry(buffers)
    assert views is not None
    assert list(map(bytes, views)) == list(map(bytes, buffers))
    views[0][0] = 9
    assert buffers[0][0] == 1


def test_small_frames_are_not_for_shared_memory(ends: Ends) -> None:
    assert ends.carry([bytes(LEAST_BYTES - 1)]) is None
    assert ends.carry([bytes(LEAST_BYTES // 2), bytes(LEAST_BYTES // 2)]) is not None


def test_memory_is_used_again_when_the_last_view_is_dropped(ends: Ends) -> None:
    before = open_files()
    for number in range(50):
        views = ends.carry([bytes([number]) * MIB, b"x" * 1000])
        assert views is not None
        part = memoryview(views[1])[10:20]
        del views
        ends.give_back()
        assert bytes(part) == b"x" * 10
        assert ends.lender._segments[0].free is False
        del part
        ends.give_back()
        assert [segment.free for segment in ends.lender._segments] == [True]
    assert open_files() - before <= 2


def test_memory_that_is_used_again_holds_what_was_lent_last(ends: Ends) -> None:
    patterns = [bytes([seed]) * 251 + bytes([seed ^ 255]) * 6 for seed in range(6)]
    lengths = [3 * MIB, 6 * MIB, 5 * MIB, 7 * MIB + 1, 7 * MIB + 1, LEAST_BYTES]  # growing, and within what is there
    for pattern, length in zip(patterns, lengths, strict=True):
        buffers: list[Buffer] = [pattern * (length // len(pattern) + 1), b"", memoryview(pattern * 3)[1:-1]]
        views = ends.carry(buffers)
        assert views is not None
        assert list(map(bytes, views)) == list(map(bytes, buffers))
        del views
        ends.give_back()


def test_without_memory_for_all_of_a_segment_it_is_not_mapped(ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(fd: int, start: int, length: int) -> None:
        raise OSError(errno.ENOSPC, "no memory")

    buffers: list[Buffer] = [b"x" * (5 * MIB)]
    assert ends.carry(buffers) is not None
    ends.give_back()
    with monkeypatch.context() as patch:
        patch.setattr(os, "posix_fallocate", refuse)
        assert ends.carry(buffers) is None
    views = ends.carry(buffers)
    assert views is not None
    assert list(map(bytes, views)) == buffers


def test_an_array_keeps_its_memory(ends: Ends) -> None:
    import numpy as np

    views = ends.carry([np.arange(200_000, dtype=np.float64).data.cast("B")])
    assert views is not None
    values = np.frombuffer(views[0], dtype=np.float64)
    del views
    ends.give_back()
    assert not ends.lender._segments[0].free
    values[3] = -1
    other = ends.carry([bytes(2 * MIB)])
    assert values[3] == -1
    assert values[199_999] == 199_999
    del values, other
    ends.give_back()
    assert all(segment.free for segment in ends.lender._segments)


def test_what_exceeds_the_budget_goes_another_way() -> None:
    ends = Ends(4 * MIB)
    first, second = ends.carry([bytes(2 * MIB)]), ends.carry([bytes(2 * MIB)])
    assert first is not None
    assert second is not None
    assert ends.carry([bytes(MIB)]) is None
    del first
    ends.give_back()
    assert ends.carry([bytes(MIB)]) is not None
    assert ends.carry([bytes(100 * MIB)]) is None
    ends.lender.close()
    assert ends.lender._budget.take(4 * MIB)
    ends.borrower.close()


def test_views_outlive_the_connection(ends: Ends) -> None:
    views = ends.carry([b"\x05" * MIB])
    assert views is not None
    ends.lender.close()
    ends.borrower.close()
    assert bytes(views[0]) == b"\x05" * MIB


def test_what_was_not_lent_cannot_be_returned(ends: Ends) -> None:
    views = ends.carry([bytes(MIB)])
    with pytest.raises(ProtocolError, match="segment 7"):
        ends.lender.returned(NUMBER.pack(7))
    half = NUMBER.pack(0)
    ends.lender.returned(half[:3])
    ends.lender.returned(half[3:])
    with pytest.raises(ProtocolError, match="segment 0"):
        ends.lender.returned(half)
    assert views is not None


def memory(size: int, seals: int) -> int:
    fd = os.memfd_create("test", os.MFD_ALLOW_SEALING | os.MFD_CLOEXEC)
    os.ftruncate(fd, size)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
    return fd


def test_a_borrower_believes_nothing() -> None:
    borrower = Borrower(lambda: None)
    with pytest.raises(ProtocolError, match="not known"):
        borrower.views(0, [10])
    borrower.received([memory(MIB, 0)])
    with pytest.raises(ProtocolError, match="cut off"):
        borrower.views(0, [10])
    read, write = os.pipe()
    borrower.received([read])
    with pytest.raises(ProtocolError, match="mapped"):
        borrower.views(0, [10])
    os.close(write)
    borrower.received([memory(MIB, shared._SEALS)])
    with pytest.raises(ProtocolError, match="announced"):
        borrower.views(0, [2 * MIB])
    kept = borrower.views(0, [10])
    with pytest.raises(ProtocolError, match="twice"):
        borrower.views(0, [10])
    assert len(kept) == 1
    borrower.received([memory(10, 0)])
    borrower.close()


def test_too_many_descriptors_are_refused_and_closed() -> None:
    ours, theirs = socket.socketpair()
    before = open_files()
    fds = [memory(10, 0) for _ in range(40)]
    socket.send_fds(theirs, [b"x"], fds)
    for fd in fds:
        os.close(fd)
    with pytest.raises(ProtocolError, match="too many"):
        shared.receive(ours, memoryview(bytearray(10)))
    assert open_files() == before
    ours.close()
    theirs.close()


class Pair:
    """Two places of one machine."""

    def __init__(self) -> None:
        token = new_token()
        self.ends = [TcpTransport(token) for _ in range(2)]
        self.recorders = [Recorder(), Recorder()]
        for number, end in enumerate(self.ends):
            end.learn({other: peer.address for other, peer in enumerate(self.ends) if other != number})
            end.start(number, self.recorders[number])

    def __enter__(self) -> Pair:
        return self

    def __exit__(self, *_: object) -> None:
        for end in self.ends:
            end.close()


def test_places_of_one_machine_meet_at_a_local_socket() -> None:
    with Pair() as pair:
        pair.ends[0].send(1, b"hello")
        pair.recorders[1].wait_frames(1)
        assert pair.ends[0]._outgoing[1].lends


def test_places_that_do_not_meet_there_use_tcp(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unix_socket, "local_name", lambda address: b"\0apgas/test/" + os.urandom(8))
    with Pair() as pair:
        pair.ends[0].send(1, b"hello", [bytes(3 * MIB)])
        (frame,) = pair.recorders[1].wait_frames(1)
        assert len(frame.buffers[0]) == 3 * MIB
        assert not pair.ends[0]._outgoing[1].lends


def test_the_kernel_asks_whether_a_far_place_is_still_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unix_socket, "local_name", lambda address: b"\0apgas/test/" + os.urandom(8))
    with Pair() as pair:
        pair.ends[0].send(1, b"hello")
        pair.recorders[1].wait_frames(1)
        for sock in (pair.ends[0]._outgoing[1]._socket, pair.ends[1]._incoming[0]._socket):
            assert sock is not None
            assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            idle_s, between_s, probes = (
                sock.getsockopt(socket.IPPROTO_TCP, option)
                for option in (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
            )
            assert idle_s + between_s * probes <= 60


def test_nobody_elses_socket_is_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unix_socket, "_owner", lambda sock: os.geteuid() + 1)
    with Pair() as pair:
        pair.ends[0].send(1, b"hello")
        pair.recorders[1].wait_frames(1)
        assert not pair.ends[0]._outgoing[1].lends


@pytest.mark.parametrize("shared_bytes", [0, 8 * MIB, 256 * MIB])
def test_large_and_small_frames_keep_their_order(shared_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tcp, "Budget", partial(Budget, shared_bytes))
    with Pair() as pair:
        sizes = [3 * MIB, 10, 700_000, 0, 5 * MIB, 400_000, 1] * 6
        for number, size in enumerate(sizes):
            pair.ends[0].send(1, b"%d" % number, [bytes([number % 256]) * size, b"beside"], soon=size < 100)
        frames = pair.recorders[1].wait_frames(len(sizes))
        for number, (frame, size) in enumerate(zip(frames, sizes, strict=True)):
            assert bytes(frame.head) == b"%d" % number
            assert bytes(frame.buffers[0]) == bytes([number % 256]) * size
            assert bytes(frame.buffers[1]) == b"beside"


def test_memory_goes_back_and_forth_without_growing() -> None:
    with Pair() as pair:
        data = os.urandom(4 * MIB)
        for number in range(1, 60):
            pair.ends[0].send(1, b"there", [data])
            frame = pair.recorders[1].wait_frames(number)[-1]
            assert bytes(frame.buffers[0][:100]) == data[:100]
            pair.recorders[1].frames[-1] = frame._replace(buffers=[])
            del frame
            pair.ends[1].send(0, b"back")
            pair.recorders[0].wait_frames(number)
            lender = pair.ends[0]._outgoing[1]._lender
            assert lender is not None
            segments = lender._segments
            # a thread may hold the last frame until it gets a core for the next; the one before has to be back
            wait_for(lambda: sum(not segment.free for segment in segments) <= 1)  # noqa: B023 - waited for at once
            assert len(segments) <= 3


def test_a_transport_leaves_no_memory_and_no_files_behind() -> None:
    before = open_files()
    with Pair() as pair:
        for _ in range(5):
            pair.ends[0].send(1, b"", [bytes(2 * MIB)])
        pair.recorders[1].wait_frames(5)
        pair.recorders[1].frames.clear()
    del pair
    assert open_files() <= before


def test_a_peer_that_lies_about_memory_is_lost() -> None:
    with Pair() as pair:
        pair.ends[0].send(1, b"hello")
        pair.recorders[1].wait_frames(1)
        channel = pair.ends[0]._outgoing[1]
        from apgas.transport.wire import encode_shared

        channel.submit([encode_shared(0, b"", [MIB], 5)])
        pair.recorders[1].wait_lost(1)
        place, reason = pair.recorders[1].lost[0]
        assert place == 0
        assert "segment 5" in reason


def test_bytes_with_a_descriptor_are_sent_alone_and_first() -> None:
    ours, theirs = socket.socketpair()
    fd = memory(mmap.PAGESIZE, shared._SEALS)
    piece = Handing(b"take this")
    piece.fd = fd
    assert shared.send_handing(theirs, piece) == 9
    os.close(fd)
    into = memoryview(bytearray(100))
    got_bytes, fds = shared.receive(ours, into)
    assert bytes(into[:got_bytes]) == b"take this"
    assert os.fstat(fds[0]).st_size == mmap.PAGESIZE
    assert not os.get_inheritable(fds[0])
    os.close(fds[0])
    theirs.send(array.array("i", [1]).tobytes())
    assert shared.receive(ours, into)[1] == []
    ours.close()
    theirs.close()


def test_returns_on_many_threads_are_each_said_once(ends: Ends) -> None:
    views = [ends.carry([bytes(MIB)]) for _ in range(8)]
    views.clear()
    said: list[bytes] = []
    threads = [threading.Thread(target=lambda: said.append(ends.borrower.returns())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    ends.lender.returned(b"".join(said))
    assert all(segment.free for segment in ends.lender._segments)
