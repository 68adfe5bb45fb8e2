"""Our contender: a program of a few places that does what the commands say."""

from __future__ import annotations

import bisect
import os
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from typing import Final

import apgas
from apgas.testing.handlers import ReleaseNewest

from ..compare.contender import (
    WARM_UP,
    Answer,
    Channel,
    Command,
    Config,
    Ends,
    Handlers,
    call_rate,
    call_times,
    echo_rate,
    memory_with_numpy,
    noop,
    of_samples,
    pin,
    same,
    seconds_of,
)

_COUNTED: Final = 50
"""Finishes whose messages are counted."""


def main(config: Config, channel: Channel) -> None:
    """Serve, on place 0 of a program that mpiexec started."""
    apgas.run(_serve, config, channel)


def _serve(config: Config, channel: Channel) -> None:
    places = apgas.places()
    for place, cpu in zip(places, config.cpus, strict=False):
        apgas.at(place, pin, cpu)
    other = places[-1]
    resizer = Resizer()
    handlers: Handlers = {
        "rtt": partial(call_times, lambda: apgas.at(other, noop)),
        "immediate": partial(_immediate, other),
        "throughput": partial(_throughput, other),
        "finish": partial(_finish, places),
        "echo": partial(echo_rate, lambda array: apgas.at(other, same, array)),
        "memory": lambda _: apgas.at(other, memory_with_numpy),
        "resize": resizer.cycle,
        "lost": partial(lost, resizer, other),
    }
    channel.serve(handlers)


def _throughput(other: apgas.Place, command: Command) -> Answer:
    def batch(items: int) -> None:
        with apgas.finish():
            for _ in range(items):
                apgas.async_at(other, noop)

    return call_rate(batch, command)


def _finish(places: list[apgas.Place], command: Command) -> Answer:
    chosen = places[: command["places"]]

    def once() -> None:
        with apgas.finish():
            for place in chosen:
                apgas.async_at(place, noop)

    figures = call_times(once, command)
    before = _messages(places)
    for _ in range(_COUNTED):
        once()
    # counting them is an activity on each other place, with its answer
    return {**figures, "messages": (_messages(places) - before - 2 * (len(places) - 1)) / _COUNTED}


def _messages(places: list[apgas.Place]) -> int:
    return sum(apgas.at(place, apgas.statistics).messages_sent for place in places)


class Volley:
    """An immediate that is answered by an immediate, again and again, from io thread to io thread.

    There are ``n`` round trips to time, or as many as ``limit_s`` allows.
    """

    running: Volley | None = None
    """The one of this place: a reference that travelled along would be timed, too."""

    def __init__(self, other: apgas.Place, n: int, limit_s: float) -> None:
        self.samples: list[float] = []
        self.over = threading.Event()
        self._other = other
        self._left = n + WARM_UP
        self._until_s = time.perf_counter() + limit_s
        self._sent_s = 0.0

    def send(self) -> None:
        """Send the next one."""
        self._sent_s = time.perf_counter()
        apgas.immediate(self._other, _there)

    def back(self) -> None:
        """Take note of a return, and go on."""
        now_s = time.perf_counter()
        self.samples.append(now_s - self._sent_s)
        self._left -= 1
        if self._left == 0 or now_s > self._until_s:
            self.over.set()
        else:
            self.send()


def _immediate(other: apgas.Place, command: Command) -> Answer:
    volley = Volley.running = Volley(other, command["n"], command["limit_s"])
    volley.send()
    volley.over.wait()
    return of_samples(volley.samples[WARM_UP:] or volley.samples)


def _there() -> None:
    apgas.immediate(apgas.place(0), _back)


def _back() -> None:
    assert Volley.running is not None
    Volley.running.back()


# Our places come and go on order -------------------------------------------------------------------------------------

LIMIT_S: Final = 40.0
_LOOK_S: Final = 0.05
"""So soon an order that is refused is noticed."""


class Resizer(ReleaseNewest):
    """Orders resizes and times them from outside: order to commit, order to the end of the processes."""

    def __init__(self) -> None:
        self._registered = False
        self._grown = threading.Event()
        self._grown_s = 0.0
        self._added: Sequence[apgas.Place] = ()

    def postGrow(
        self,
        nb_places: int,  # noqa: ARG002 - the published arguments
        continued_places: Sequence[apgas.Place],  # noqa: ARG002 - the published arguments
        new_places: Sequence[apgas.Place],
    ) -> None:
        """A grow has been committed."""
        self._grown_s = time.perf_counter()
        self._added = new_places
        self._grown.set()

    def cycle(self, command: Command) -> Answer:
        """Grow by ``n`` and shrink by as many; the newcomers load the module ``loads`` in between."""
        grow_s = self.grow(command["n"])
        answered_s = grow_s + self._run_on_newcomers(os.getpid)
        loaded_s = answered_s
        if module := command.get("loads"):
            import_module(module)  # as a place does that computes
            loaded_s += self._run_on_newcomers(partial(import_module, module))
        return {"grow_s": grow_s, "answered_s": answered_s, "loaded_s": loaded_s, "shrink_s": self.shrink(command["n"])}

    def grow(self, n: int) -> float:
        """Return the seconds from the order to the commit.

        Raises:
            RuntimeError: The order was not carried out.
        """
        self._register()
        self._grown.clear()
        before_s = time.perf_counter()
        self._order(f"+{n}", self._grown.wait)
        return self._grown_s - before_s

    def shrink(self, n: int) -> float:
        """Return the seconds from the order to the end of the last process.

        Raises:
            RuntimeError: The order was not carried out, or a process lives on.
        """
        self._register()
        with Ends(apgas.at(place, os.getpid) for place in apgas.places()[-n:]) as ends:
            before_s = time.perf_counter()
            return self._order(f"-{n}", ends.over) - before_s

    def _register(self) -> None:
        """Become the handler at the first order: a program that is not resized needs none."""
        if not self._registered:
            self._registered = True
            apgas.define_malleable_handler(self)

    def _order(self, order: str, over: Callable[[float], bool]) -> float:
        """Give an order, return when what is timed was over; by then the order's record is there.

        ``over`` waits for it for some seconds, and returns whether it is.
        """
        before, until_s = len(apgas.resizes()), time.monotonic() + LIMIT_S
        apgas.schedule_orders(f"0:{order}")
        over_s: float | None = None
        while time.monotonic() < until_s:
            if over_s is not None:
                time.sleep(0.001)
            elif over(_LOOK_S):
                over_s = time.perf_counter()
            ended = apgas.resizes()[before:]
            if ended and ended[0].outcome != "done":
                raise RuntimeError(f"{order} was not carried out, {ended[0].outcome}: {ended[0].reason}")
            if ended and over_s is not None:
                return over_s
        raise RuntimeError(f"{order} was not carried out, no end within {LIMIT_S:g} s")

    def _run_on_newcomers(self, call: Callable[[], object]) -> float:
        """Return the seconds until each has run it."""
        before_s = time.perf_counter()
        with apgas.finish():
            for place in self._added:
                apgas.async_at(place, call)
        return time.perf_counter() - before_s


# How much a place computes while others come and go ------------------------------------------------------------------

PERIOD_S: Final = 0.001
SHARE: Final = 0.2
CATCH_UP_S: Final = 0.25
"""As with the pacing of the balancer."""
QUIET_S: Final = 0.1
"""Between two resizes: longer than what a resize leaves to be done."""
AFTERMATH_S: Final = QUIET_S / 4
"""Belongs to the resize before."""

_stop = threading.Event()


def lost(resizer: Resizer, other: apgas.Place, command: Command) -> Answer:
    """Grow and shrink by one, ``cycles`` times, while ``other`` computes; return the shares of compute lost.

    What is lost between resizes is the machine's doing: the losses of resizes are those beside it.
    """
    windows: dict[str, list[tuple[float, float]]] = {"grow": [], "shrink": [], "quiet": []}

    def rest() -> None:
        began_s = time.monotonic()
        time.sleep(QUIET_S)
        windows["quiet"].append((began_s + AFTERMATH_S, time.monotonic()))

    with apgas.finish():
        computed = apgas.async_at(other, compute)
        time.sleep(QUIET_S)
        for _ in range(command["cycles"]):
            for kind, resize in (("grow", resizer.grow), ("shrink", resizer.shrink)):
                rest()
                began_s = time.monotonic()
                resize(1)
                windows[kind].append((began_s, time.monotonic() + AFTERMATH_S))
        rest()
        apgas.immediate(other, stop)
    speed = {kind: share_done(computed.result(), spans) for kind, spans in windows.items()}
    return {
        "grow_lost": 1 - speed["grow"] / speed["quiet"],
        "shrink_lost": 1 - speed["shrink"] / speed["quiet"],
        "quiet_lost": 1 - speed["quiet"],
    }


def share_done(done_s: list[float], spans: list[tuple[float, float]]) -> float:
    """Return the share of the units due in ``spans`` that were done in them; if none is lost, a little around 1.

    ``done_s`` says when each unit was done, ascending.
    """
    due = sum(end - begin for begin, end in spans) / PERIOD_S
    done = sum(bisect.bisect(done_s, end) - bisect.bisect(done_s, begin) for begin, end in spans)
    return done / due


def compute() -> list[float]:
    """Do a unit of work every ``PERIOD_S`` until ``stop``, as emulated nodes do: one that is late catches up.

    What it is behind by more than ``CATCH_UP_S`` is lost.

    Returns:
        When each unit was done, in s of the machine's monotonic clock.
    """
    _stop.clear()
    rounds = _rounds_in(SHARE * PERIOD_S)
    done: list[float] = []
    due_s = time.monotonic()
    while not _stop.is_set():
        sum(range(rounds))
        now_s = time.monotonic()
        done.append(now_s)
        due_s = max(due_s + PERIOD_S, now_s - CATCH_UP_S)
        time.sleep(max(0.0, due_s - now_s))
    return done


def stop() -> None:
    """End ``compute`` on this place."""
    _stop.set()


def _rounds_in(seconds: float) -> int:
    """Return for how many rounds a sum takes so long on a quiet core."""
    rounds = 20_000
    best_s = min(seconds_of(lambda items: sum(range(items)), rounds) for _ in range(5))
    return max(1, int(rounds * seconds / best_s))
