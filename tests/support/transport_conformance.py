"""The contract of ``apgas.transport.base`` as checks, for each transport: ``CHECKS``.

A check builds its own transports with the factory it is given, and closes them. It fails with ``AssertionError``.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Final, NamedTuple, TypeAlias

from apgas.errors import ApgasError, UsageError
from apgas.transport.base import Address, Transport, TransportClosedError, UnknownPeerError
from support.loops import count_rounds

# The part of the transports' conformance suite that looks at the io thread: callbacks, timers, idleness, closing -----

_QUIET_S: Final = 0.2


def callbacks_run_in_order_on_the_io_thread(new: TransportFactory) -> None:
    """``call_soon`` keeps the order, also from the io thread; an exception in a callback does no harm."""
    with group(new, 1) as made:
        transport = made.transports[0]
        seen: list[object] = []
        assert not transport.loop.in_thread(), "this is no io thread"
        transport.loop.call_soon(lambda: seen.append(transport.loop.in_thread()))
        transport.loop.call_soon(lambda: seen.append(1 // 0))
        for number in range(100):
            transport.loop.call_soon(partial(seen.append, number))
        pass_through(transport)
        assert seen == [True, *range(100)], "callbacks of one thread out of order"
        seen.clear()

        def post() -> None:
            transport.loop.call_soon(lambda: transport.loop.call_soon(lambda: seen.append("inner")))
            for number in range(100):
                transport.loop.call_soon(partial(seen.append, number))
            seen.append("post")

        transport.loop.call_soon(post)
        for _ in range(3):
            pass_through(transport)
        assert seen == ["post", *range(100), "inner"], "callbacks of the io thread out of order"


def timers_run_in_order(new: TransportFactory) -> None:
    """Timers run by due time, equal ones in the order of the calls, on the io thread, and not after ``cancel``."""
    delays_s = (0.06, 0.05, 0.0, 0.02, 0.0, 0.03, 0.0, 0.01)
    with group(new, 1) as made:
        transport = made.transports[0]
        ran: list[tuple[int, float, bool]] = []
        asked_s: list[tuple[float, float]] = []
        done = threading.Event()

        def run(number: int) -> None:
            ran.append((number, time.monotonic(), transport.loop.in_thread()))
            if len(ran) == len(delays_s):
                done.set()

        def set_timers() -> None:
            cancelled = [transport.loop.call_later(0.01, partial(run, -1)) for _ in range(200)]
            for number, delay_s in enumerate(delays_s):
                before_s = time.monotonic()
                transport.loop.call_later(delay_s, partial(run, number))
                asked_s.append((before_s + delay_s, time.monotonic() + delay_s))
            for timer in (*cancelled, cancelled[0]):
                timer.cancel()

        transport.loop.call_soon(set_timers)
        wait(done, "a timer")
        assert sorted(number for number, _, _ in ran) == list(range(len(delays_s))), "a cancelled timer ran"
        assert all(on_io_thread for _, _, on_io_thread in ran), "a timer ran on another thread"
        for number, at_s, _ in ran:
            assert at_s >= asked_s[number][0], "a timer ran early"
        order = [number for number, _, _ in ran]
        for first, second in itertools.permutations(range(len(delays_s)), 2):
            # A slow machine may set the second so late that either order is right.
            if asked_s[first][1] < asked_s[second][0]:
                assert order.index(first) < order.index(second), "timers out of order"
        from_here = threading.Event()
        transport.loop.call_later(0.0, from_here.set)
        wait(from_here, "a timer set on another thread")


def idle_costs_nothing(new: TransportFactory) -> None:
    """Connected places without traffic and timers do not wake up."""
    with group(new, 2) as made:
        for src in (0, 1):
            made.transports[src].send(1 - src, b"")
            made.transports[src].loop.call_later(60, lambda: None).cancel()
        for recorder in made.recorders:
            recorder.wait_frames(1)
        for transport in made.transports:
            pass_through(transport)
        rounds = [count_rounds(transport.loop) for transport in made.transports]
        threading.Event().wait(_QUIET_S)
        # One each may still be on its way: the other side's answer to the last frame, say.
        woken = [len(each) for each in rounds]
        assert max(woken) <= 2, f"io threads woke {woken} times in {_QUIET_S} s without a reason"


def close_flushes(new: TransportFactory) -> None:
    """Frames sent just before ``close`` arrive, even those that opened the connection."""
    body = bytes(8_000_000)
    with group(new, 2) as made:
        made.transports[0].send(1, b"last", [body])
        made.transports[0].close(PATIENCE_S)
        made.recorders[1].wait_frames(1)
        assert made.recorders[1].wait_lost() == [0], "the wrong place was lost"


def closed_means_closed(new: TransportFactory) -> None:
    """``close`` can be repeated, works without ``start``, not on the io thread; afterwards nothing can be sent."""
    unused = new()
    expect(TransportClosedError, lambda: unused.send(1, b""))
    unused.close()
    unused.close()
    with group(new, 2) as made:
        transport = made.transports[0]
        refused = threading.Event()

        def close_here() -> None:
            expect(UsageError, transport.close)
            refused.set()

        transport.loop.call_soon(close_here)
        wait(refused, "close on the io thread was not refused")
        transport.close()
        transport.close()
        for dst in (0, 1):
            expect(TransportClosedError, partial(transport.send, dst, b""))
        transport.loop.call_soon(lambda: None)
        expect(UsageError, lambda: transport.start(5, Recorder()))


# Helpers for tests of transports: a receiver that records, and groups of connected transports ------------------------

PATIENCE_S: Final = 20.0
"""Only a failing check waits that long."""


TransportFactory: TypeAlias = Callable[[], Transport]


class Received(NamedTuple):
    """One frame as it was delivered."""

    src: int
    head: bytes
    buffers: Sequence[bytearray | memoryview]


class Recorder:
    """A receiver that keeps what it gets, in order, and lets other threads wait for it."""

    def __init__(self, react: Callable[[Received], None] | None = None) -> None:
        self.frames: list[Received] = []
        self.lost: list[tuple[int, str]] = []
        self.log: list[str] = []
        self._react = react
        self._changed = threading.Condition()

    def on_frame(
        self, src: int, head: bytes | bytearray | memoryview, buffers: Sequence[bytearray | memoryview]
    ) -> None:
        """Keep a frame."""
        frame = Received(src, bytes(head), buffers)
        with self._changed:
            self.frames.append(frame)
            self.log.append(f"frame {src}")
            self._changed.notify_all()
        if self._react is not None:
            self._react(frame)

    def on_lost(self, place: int, reason: str) -> None:
        """Keep a loss."""
        with self._changed:
            self.lost.append((place, reason))
            self.log.append(f"lost {place}")
            self._changed.notify_all()

    def wait_frames(self, count: int) -> list[Received]:
        """Wait until ``count`` frames have come, and return them."""
        with self._changed:
            if not self._changed.wait_for(lambda: len(self.frames) >= count, PATIENCE_S):
                raise AssertionError(f"{len(self.frames)} of {count} frames came; losses: {self.lost}")
            return list(self.frames)

    def wait_lost(self, count: int = 1) -> list[int]:
        """Wait until ``count`` losses were reported, and return the places."""
        with self._changed:
            if not self._changed.wait_for(lambda: len(self.lost) >= count, PATIENCE_S):
                raise AssertionError(f"{len(self.lost)} of {count} losses were reported")
            return [place for place, _ in self.lost]

    def heads(self, src: int) -> list[bytes]:
        """Return the heads of the frames of place ``src`` so far."""
        with self._changed:
            return [frame.head for frame in self.frames if frame.src == src]


class Group(NamedTuple):
    """Started transports that know one another: place i is ``transports[i]``."""

    transports: list[Transport]
    recorders: list[Recorder]
    addresses: dict[int, Address]


@contextmanager
def group(new: TransportFactory, recorders: int | Sequence[Recorder]) -> Iterator[Group]:
    """Build, start and in the end close one transport for each recorder, or for that many fresh ones."""
    kept = [Recorder() for _ in range(recorders)] if isinstance(recorders, int) else list(recorders)
    transports = [new() for _ in kept]
    addresses = {place: transport.address for place, transport in enumerate(transports)}
    try:
        for place, (transport, recorder) in enumerate(zip(transports, kept, strict=True)):
            transport.learn(addresses)
            transport.start(place, recorder)
        yield Group(transports, kept, addresses)
    finally:
        for transport in transports:
            transport.close()


def wait(event: threading.Event, what: str) -> None:
    """Wait for ``event``, or fail with ``what``."""
    if not event.wait(PATIENCE_S):
        raise AssertionError(f"not in {PATIENCE_S} s: {what}")


def pass_through(transport: Transport) -> None:
    """Wait until the io thread has run everything that was posted to it before."""
    passed = threading.Event()
    transport.loop.call_soon(passed.set)
    wait(passed, "a callback on the io thread")


def expect(error: type[ApgasError], call: Callable[[], object]) -> None:
    """Fail unless ``call`` raises ``error``."""
    try:
        call()
    except error:
        return
    raise AssertionError(f"{error.__name__} was not raised")


Check: TypeAlias = Callable[[TransportFactory], None]

# delivery -----------------------------------------------------------------------------------------------------------


def fifo_per_pair_under_concurrency(new: TransportFactory) -> None:
    """Several threads of every place send to every place, itself included: all arrives once, each thread's in order."""
    places, threads, count = 3, 3, 200

    def talk(source: Transport, name: int) -> None:
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
    transports: list[Transport] = []

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
        expect(UnknownPeerError, lambda: receiver.send(7, b"unknown address"))
    finally:
        sender.close()
        receiver.close()


def self_send_is_asynchronous(new: TransportFactory) -> None:
    """A frame to oneself is delivered later, also when it is sent on the io thread."""
    order: list[bytes] = []
    done = threading.Event()
    transports: list[Transport] = []

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

            def note(log: list[str] = made.recorders[0].log, gone: threading.Event = gone) -> None:
                log.append("gone")
                gone.set()

            stays.on_gone(1, note)
            leaves.close(PATIENCE_S)
            wait(gone, "on_gone of a place that closed")
            assert made.recorders[0].heads(1) == [b"%d" % number for number in range(count)], "not delivered"
            assert made.recorders[0].log == ["frame 1"] * count + ["gone"], "a loss, or gone before the last frame"


def gone_is_reported_where_nothing_was(new: TransportFactory) -> None:
    """``on_gone`` of a place that never connected, or has ended before, is reported soon, and on the io thread."""
    with group(new, 2) as made:
        watcher = made.transports[0]
        made.transports[1].send(0, b"")
        made.recorders[0].wait_frames(1)
        watcher.forget(1)
        made.transports[1].close()
        there: list[bool] = []
        for place in (1, 1, 5):
            reported = threading.Event()
            watcher.on_gone(place, lambda: there.append(watcher.loop.in_thread()))
            watcher.on_gone(place, reported.set)
            wait(reported, "on_gone without a connection")
        assert there == [True] * 3, "on_gone was called twice, or on another thread"


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
    """A place at whose address no process listens is reported as lost."""
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
    gone_is_reported_where_nothing_was,
    losses_come_once_and_last,
    idle_connections_notice_losses,
    unreachable_places_are_lost,
    callbacks_run_in_order_on_the_io_thread,
    timers_run_in_order,
    idle_costs_nothing,
    close_flushes,
    closed_means_closed,
)
