"""What every transport must do: run ``check_transport`` on yours, or each of ``CHECKS`` as a test of its own.

A check builds its own transports with the factory it is given, and closes them. It fails with ``AssertionError``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Final, TypeAlias

from apgas.testing import transport_io_checks as io_checks
from apgas.testing.transport_recorder import (
    PATIENCE_S,
    Received,
    Recorder,
    TransportFactory,
    WatchedTransport,
    expect,
    group,
    pass_through,
    wait,
)
from apgas.transport.base import UnknownPeerError

Check: TypeAlias = Callable[[TransportFactory], None]

# delivery -----------------------------------------------------------------------------------------------------------


def fifo_per_pair_under_concurrency(new: TransportFactory) -> None:
    """Several threads of every place send to every place, itself included: all arrives once, each thread's in order."""
    places, threads, count = 3, 3, 200

    def talk(source: WatchedTransport, name: int) -> None:
        for number in range(count):
            body = bytes(20_000) if number % 50 == 49 else b"x" * (number % 7)
            for dst in range(places):
                source.send(dst, b"%d %d" % (name, number), [body] if number % 3 else ())

    with group(new, places) as made:
        talkers = [
            threading.Thread(target=talk, args=(source, name)) for source in made.transports for name in range(threads)
        ]
        for talker in talkers:
            talker.start()
        for talker in talkers:
            talker.join()
        for recorder in made.recorders:
            recorder.wait_frames(places * threads * count)
            for src in range(places):
                for name in range(threads):
                    mine = [head for head in recorder.heads(src) if head.startswith(b"%d " % name)]
                    assert mine == [b"%d %d" % (name, number) for number in range(count)], "frames out of order"
            assert len(recorder.frames) == places * threads * count, "frames came twice"
            assert recorder.lost == [], "a loss without a reason"


def contents_arrive_unchanged(new: TransportFactory) -> None:
    """Heads and buffers of every size arrive as they were sent, also several large ones at once."""
    large = bytes(range(256)) * 40_000
    sent: list[tuple[bytes, list[bytes | bytearray | memoryview]]] = [
        (b"", []),
        (b"", [b""]),
        (b"h", [b"", b"1", b""]),
        (large, []),
        (b"large", [large, b"small", bytearray(large), memoryview(large)[1:]]),
        (b"many", [b"%d" % i for i in range(2000)]),
        (b"middle", [large[:50_000]] * 50),
        (b"view", [memoryview(bytearray(12)).cast("I")]),
        (b"end", []),
    ]
    with group(new, 2) as made:
        for dst in (0, 1):
            for head, buffers in sent:
                made.transports[0].send(dst, head, buffers)
            frames = made.recorders[dst].wait_frames(len(sent))
            for frame, (head, buffers) in zip(frames, sent, strict=True):
                assert frame.src == 0, "wrong sender"
                assert frame.head == head, "a head changed"
                assert list(map(bytes, frame.buffers)) == list(map(bytes, buffers)), "a buffer changed"


def sent_buffers_may_change(new: TransportFactory) -> None:
    """After ``send`` the caller may write to its buffers; the receiver may write to what it got."""
    with group(new, 2) as made:
        for dst in (0, 1):
            buffer = bytearray(b"\x01" * 12_000_000)
            made.transports[0].send(dst, b"", [buffer])
            buffer[:] = bytes(len(buffer))
            (frame,) = made.recorders[dst].wait_frames(1)
            assert bytes(frame.buffers[0]).count(1) == len(buffer), "a buffer changed after it was sent"
            frame.buffers[0][0] = 7
            assert buffer[0] == 0, "sender and receiver share memory"


def io_threads_never_wait_for_each_other(new: TransportFactory) -> None:
    """Two io threads that send each other more than the network holds do not block."""
    count, body = 40, bytes(2**20)
    recorders: list[Recorder] = []
    transports: list[WatchedTransport] = []

    def answer(frame: Received) -> None:
        if frame.head == b"go":
            for _ in range(count):
                transports[1 - frame.src].send(frame.src, b"load", [body])

    recorders = [Recorder(answer), Recorder(answer)]
    with group(new, recorders) as made:
        transports += made.transports
        made.transports[0].send(1, b"go")
        made.transports[1].send(0, b"go")
        for recorder in recorders:
            recorder.wait_frames(count + 1)


def frames_may_come_early(new: TransportFactory) -> None:
    """Frames sent before the receiver was started, or by a place that it has not learned, are delivered."""
    sender, receiver = new(), new()
    recorder = Recorder()
    try:
        sender.start(7, Recorder())
        sender.learn({3: receiver.address})
        sender.send(3, b"early")
        receiver.start(3, recorder)
        sender.send(3, b"late")
        recorder.wait_frames(2)
        assert recorder.heads(7) == [b"early", b"late"], "early frames were lost or reordered"
        expect(UnknownPeerError, lambda: receiver.send(7, b"nobody told me"))
    finally:
        sender.close()
        receiver.close()


def self_send_is_asynchronous(new: TransportFactory) -> None:
    """A frame to oneself is delivered later, also when it is sent on the io thread."""
    order: list[bytes] = []
    done = threading.Event()
    transports: list[WatchedTransport] = []

    def react(frame: Received) -> None:
        order.append(b"begin " + frame.head)
        if frame.head == b"1":
            transports[0].send(0, b"2")
        order.append(b"end " + frame.head)
        if frame.head == b"2":
            done.set()

    with group(new, [Recorder(react)]) as made:
        transports += made.transports
        made.transports[0].send(0, b"1")
        wait(done, "a frame to oneself")
    assert order == [b"begin 1", b"end 1", b"begin 2", b"end 2"], "delivered within send"


def receiver_errors_are_contained(new: TransportFactory) -> None:
    """An exception in the receiver costs the frame that caused it, and nothing else."""

    def react(frame: Received) -> None:
        if frame.head == b"bad":
            raise ValueError("the receiver fails on purpose")

    with group(new, [Recorder(), Recorder(react)]) as made:
        for head in (b"good", b"bad", b"good"):
            made.transports[0].send(1, head)
        made.recorders[1].wait_frames(3)
        assert made.recorders[1].lost == [], "an error of the receiver cost the connection"


# peers ---------------------------------------------------------------------------------------------------------------


def unknown_peers_are_refused(new: TransportFactory) -> None:
    """Frames to places that were never learned, or were forgotten, raise; learning them again changes nothing."""
    with group(new, 2) as made:
        sender = made.transports[0]
        expect(UnknownPeerError, lambda: sender.send(9, b""))
        expect(UnknownPeerError, lambda: sender.connect(9))
        sender.forget(1)
        sender.forget(1)
        expect(UnknownPeerError, lambda: sender.send(1, b""))
        sender.learn(made.addresses)
        expect(UnknownPeerError, lambda: sender.send(1, b""))


def forget_flushes(new: TransportFactory) -> None:
    """What was sent before ``forget`` arrives, then the connection ends: the other side sees a loss."""
    count, body = 30, bytes(500_000)
    with group(new, 2) as made:
        for number in range(count):
            made.transports[0].send(1, b"%d" % number, [body])
        made.transports[0].forget(1)
        assert made.recorders[1].wait_lost() == [0], "the wrong place was lost"
        assert made.recorders[1].heads(0) == [b"%d" % number for number in range(count)], "not flushed"
        assert made.recorders[0].lost == [], "a forgotten place was reported as lost"


def forgotten_places_may_finish(new: TransportFactory) -> None:
    """What a forgotten place has sent is delivered before it is reported as gone, and its end is no loss."""
    count, body = 30, bytes(500_000)
    for both_ways in (False, True):
        with group(new, 2) as made:
            stays, leaves = made.transports
            if both_ways:
                stays.send(1, b"")
                made.recorders[1].wait_frames(1)
            for number in range(count):
                leaves.send(0, b"%d" % number, [body])
            made.recorders[0].wait_frames(1)
            stays.forget(1)
            gone = threading.Event()
            stays.on_gone(1, partial(made.recorders[0].log.append, "gone"))
            stays.on_gone(1, gone.set)
            leaves.close(PATIENCE_S)
            wait(gone, "on_gone of a place that closed")
            assert made.recorders[0].heads(1) == [b"%d" % number for number in range(count)], "not delivered"
            assert made.recorders[0].log == ["frame 1"] * count + ["gone"], "a loss, or gone before the last frame"


def gone_is_told_where_nothing_was(new: TransportFactory) -> None:
    """``on_gone`` of a place that never connected, or has ended before, is told soon, and on the io thread."""
    with group(new, 2) as made:
        watcher = made.transports[0]
        made.transports[1].send(0, b"")
        made.recorders[0].wait_frames(1)
        watcher.forget(1)
        made.transports[1].close()
        there: list[bool] = []
        for place in (1, 1, 5):
            told = threading.Event()
            watcher.on_gone(place, lambda: there.append(watcher.in_io_thread()))
            watcher.on_gone(place, told.set)
            wait(told, "on_gone without a connection")
        assert there == [True] * 3, "on_gone was told twice, or on another thread"


def losses_come_once_and_last(new: TransportFactory) -> None:
    """A place that closes without being forgotten is lost: once, after its last frames, whatever still went to it."""
    count, body = 20, bytes(300_000)
    with group(new, 2) as made:
        stays, dies = made.transports
        stays.send(1, b"hello")
        made.recorders[1].wait_frames(1)
        assert not stays.is_lost(1), "nothing was lost yet"
        for number in range(count):
            dies.send(0, b"%d" % number, [body])
        dies.close(PATIENCE_S)
        assert made.recorders[0].wait_lost() == [1], "the wrong place was lost"
        assert stays.is_lost(1), "what was lost is not known to be"
        expect(UnknownPeerError, lambda: stays.send(1, b"too late"))
        expect(UnknownPeerError, lambda: stays.connect(1))
        stays.forget(1)
        pass_through(stays)
        assert made.recorders[0].log == ["frame 1"] * count + ["lost 1"], "frames or losses missing, doubled or late"


def idle_connections_notice_losses(new: TransportFactory) -> None:
    """A place that only connected, or only was connected to, notices that the other is lost."""
    for dies in (0, 1):
        with group(new, 2) as made:
            made.transports[1].connect(0)
            made.transports[1].send(0, b"")
            made.recorders[0].wait_frames(1)
            made.transports[dies].close()
            assert made.recorders[1 - dies].wait_lost() == [dies], "the wrong place was lost"
            assert made.recorders[dies].lost == [], "a closed transport reported a loss"


def unreachable_places_are_lost(new: TransportFactory) -> None:
    """A place whose address nobody listens at is reported as lost."""
    dead = new()
    address = dead.address
    dead.close()
    with group(new, 1) as made:
        made.transports[0].learn({1: address})
        made.transports[0].send(1, b"")
        assert made.recorders[0].wait_lost() == [1], "the wrong place was lost"
        made.transports[0].send(0, b"still here")
        made.recorders[0].wait_frames(1)


CHECKS: Final[tuple[Check, ...]] = (
    fifo_per_pair_under_concurrency,
    contents_arrive_unchanged,
    sent_buffers_may_change,
    io_threads_never_wait_for_each_other,
    frames_may_come_early,
    self_send_is_asynchronous,
    receiver_errors_are_contained,
    unknown_peers_are_refused,
    forget_flushes,
    forgotten_places_may_finish,
    gone_is_told_where_nothing_was,
    losses_come_once_and_last,
    idle_connections_notice_losses,
    unreachable_places_are_lost,
    io_checks.callbacks_run_in_order_on_the_io_thread,
    io_checks.timers_run_in_order,
    io_checks.idle_costs_nothing,
    io_checks.close_flushes,
    io_checks.closed_means_closed,
)


def check_transport(new: TransportFactory) -> None:
    """Run every check on transports that ``new`` makes; they must be able to reach one another.

    Raises:
        AssertionError: The transport breaks its contract; the text says how.
    """
    for check in CHECKS:
        check(new)
