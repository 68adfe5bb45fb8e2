"""The part of the transports' conformance suite that looks at the io thread: callbacks, timers, idleness, closing."""

from __future__ import annotations

import itertools
import threading
import time
from functools import partial
from typing import Final

from apgas.errors import UsageError
from apgas.testing.transport_recorder import (
    PATIENCE_S,
    Recorder,
    TransportFactory,
    expect,
    group,
    pass_through,
    wait,
)
from apgas.transport.base import TransportClosedError

_QUIET_S: Final = 0.2


def callbacks_run_in_order_on_the_io_thread(new: TransportFactory) -> None:
    """``call_soon`` keeps the order, also from the io thread; an exception in a callback does no harm."""
    with group(new, 1) as made:
        transport = made.transports[0]
        seen: list[object] = []
        assert not transport.in_io_thread(), "this is no io thread"
        transport.call_soon(lambda: seen.append(transport.in_io_thread()))
        transport.call_soon(lambda: seen.append(1 // 0))
        for number in range(100):
            transport.call_soon(partial(seen.append, number))
        pass_through(transport)
        assert seen == [True, *range(100)], "callbacks of one thread out of order"
        seen.clear()

        def post() -> None:
            transport.call_soon(lambda: transport.call_soon(lambda: seen.append("inner")))
            for number in range(100):
                transport.call_soon(partial(seen.append, number))
            seen.append("post")

        transport.call_soon(post)
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
            ran.append((number, time.monotonic(), transport.in_io_thread()))
            if len(ran) == len(delays_s):
                done.set()

        def set_timers() -> None:
            cancelled = [transport.call_later(0.01, partial(run, -1)) for _ in range(200)]
            for number, delay_s in enumerate(delays_s):
                before_s = time.monotonic()
                transport.call_later(delay_s, partial(run, number))
                asked_s.append((before_s + delay_s, time.monotonic() + delay_s))
            for timer in (*cancelled, cancelled[0]):
                timer.cancel()

        transport.call_soon(set_timers)
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
        transport.call_later(0.0, from_here.set)
        wait(from_here, "a timer set on another thread")


def idle_costs_nothing(new: TransportFactory) -> None:
    """Connected places without traffic and timers do not wake up."""
    with group(new, 2) as made:
        for src in (0, 1):
            made.transports[src].send(1 - src, b"")
            made.transports[src].call_later(60, lambda: None).cancel()
        for recorder in made.recorders:
            recorder.wait_frames(1)
        for transport in made.transports:
            pass_through(transport)
        before = [transport.wakeups for transport in made.transports]
        threading.Event().wait(_QUIET_S)
        # One each may still be on its way: the other side's answer to the last frame, say.
        woken = [transport.wakeups - count for transport, count in zip(made.transports, before, strict=True)]
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

        transport.call_soon(close_here)
        wait(refused, "close on the io thread was not refused")
        transport.close()
        transport.close()
        for dst in (0, 1):
            expect(TransportClosedError, partial(transport.send, dst, b""))
        transport.call_soon(lambda: None)
        expect(UsageError, lambda: transport.start(5, Recorder()))
