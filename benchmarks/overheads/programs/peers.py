"""What peers are asked, in words that all of them understand: submit a call, get its result."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from ...harness.channel import Answer, Command
from ...harness.goals import of_samples
from .serve import Config, memory_with_numpy, pin
from .timing import per_second, timed

if TYPE_CHECKING:
    from ...harness.channel import Handlers


@dataclass(frozen=True)
class Peer:
    """A runtime with workers.

    Attributes:
        submit: Starts a call on some worker and returns a handle.
        result: Waits for one handle's value.
        gather: Waits for the values of several handles.
    """

    submit: Callable[..., Any]
    result: Callable[[Any], Any]
    gather: Callable[[Sequence[Any]], object]


def from_executor(executor: Any) -> Peer:
    """Return the peer behind an executor of the kind of ``concurrent.futures``."""
    return Peer(executor.submit, lambda future: future.result(), lambda futures: [f.result() for f in futures])


def workers(config: Config) -> int:
    """Return how many workers a peer has: one beside the caller of two processes, else as many as there are places."""
    return 1 if config.places == 2 else config.places


def handlers(peer: Peer, config: Config) -> Handlers:
    """Return what a peer answers; its worker is pinned, if that is asked for, and started in any case."""
    if config.cpus:
        pin(config.cpus[0])
        peer.result(peer.submit(pin, config.cpus[1]))
    peer.gather([peer.submit(own_pid) for _ in range(2 * workers(config))])
    return {
        "rtt": partial(_rtt, peer),
        "throughput": partial(_throughput, peer),
        "finish": partial(_finish, peer),
        "echo": partial(_echo, peer),
        "memory": lambda _: peer.result(peer.submit(memory_with_numpy)),
    }


def own_pid() -> int:
    """Return the process id; Ray takes functions of Python only."""
    return os.getpid()


def noop() -> None:
    """Do nothing."""


def same(value: Any) -> Any:
    """Return what came."""
    return value


def _rtt(peer: Peer, command: Command) -> Answer:
    return of_samples(timed(lambda: peer.result(peer.submit(noop)), command["n"], command["limit_s"]))


def _throughput(peer: Peer, command: Command) -> Answer:
    def batch(items: int) -> None:
        peer.gather([peer.submit(noop) for _ in range(items)])

    return {"per_s": per_second(batch, command["n"], command["limit_s"])}


def _finish(peer: Peer, command: Command) -> Answer:
    def once() -> None:
        peer.gather([peer.submit(noop) for _ in range(command["places"])])

    return of_samples(timed(once, command["n"], command["limit_s"]))


def _echo(peer: Peer, command: Command) -> Answer:
    import numpy as np

    array = np.arange(command["bytes"] // 8, dtype=np.float64)
    samples = timed(lambda: peer.result(peer.submit(same, array)), command["n"], command["limit_s"])
    return {"bytes_per_s": 2 * array.nbytes / of_samples(samples)["median_s"]}
