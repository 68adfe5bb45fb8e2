"""Our contender: a program of a few places that does what the commands say."""

from __future__ import annotations

import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import apgas

from ...harness.channel import Answer, Channel, Command
from ...harness.goals import of_samples
from . import ours_compute, ours_resize
from .serve import Config, memory_with_numpy, pin
from .timing import WARM_UP, per_second, timed

if TYPE_CHECKING:
    from ...harness.channel import Handlers


def main(config: Config, channel: Channel) -> None:
    """Serve, on place 0 of a program that mpiexec started."""
    apgas.run(_serve, config, channel)


def _serve(config: Config, channel: Channel) -> None:
    places = apgas.places()
    if config.cpus:
        for place, cpu in zip(places, config.cpus, strict=False):
            apgas.at(place, pin, cpu)
    other = places[-1]
    resizer = ours_resize.Resizer()
    handlers: Handlers = {
        "rtt": partial(_rtt, other),
        "immediate": partial(_immediate, other),
        "throughput": partial(_throughput, other),
        "finish": partial(_finish, places),
        "echo": partial(_echo, other),
        "memory": lambda _: apgas.at(other, memory_with_numpy),
        "resize": resizer.cycle,
        "lost": partial(ours_compute.lost, resizer, other),
    }
    channel.serve(handlers)


_COUNTED = 50


def noop() -> None:
    """Do nothing."""


def same(value: Any) -> Any:
    """Return what came."""
    return value


def _rtt(other: apgas.Place, command: Command) -> Answer:
    return of_samples(timed(lambda: apgas.at(other, noop), command["n"], command["limit_s"]))


def _throughput(other: apgas.Place, command: Command) -> Answer:
    def batch(items: int) -> None:
        with apgas.finish():
            for _ in range(items):
                apgas.async_at(other, noop)

    return {"per_s": per_second(batch, command["n"], command["limit_s"])}


def _finish(places: list[apgas.Place], command: Command) -> Answer:
    chosen = places[: command["places"]]

    def once() -> None:
        with apgas.finish():
            for place in chosen:
                apgas.async_at(place, noop)

    figures = of_samples(timed(once, command["n"], command["limit_s"]))
    before = _messages(places)
    for _ in range(_COUNTED):
        once()
    # counting them is an activity on each other place, with its answer
    return {**figures, "messages": (_messages(places) - before - 2 * (len(places) - 1)) / _COUNTED}


def _messages(places: list[apgas.Place]) -> int:
    return sum(apgas.at(place, apgas.statistics).messages_sent for place in places)


def _echo(other: apgas.Place, command: Command) -> Answer:
    import numpy as np

    array = np.arange(command["bytes"] // 8, dtype=np.float64)
    samples = timed(lambda: apgas.at(other, same, array), command["n"], command["limit_s"])
    if not np.array_equal(apgas.at(other, same, array), array):
        raise ValueError("the echo is not what was sent")
    return {"bytes_per_s": 2 * array.nbytes / of_samples(samples)["median_s"]}


class Volley:
    """An immediate that is answered by an immediate, again and again, from io thread to io thread.

    Args:
        other: The place that answers.
        n: Round trips to time.
        limit_s: Seconds after which it ends.
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
