"""The peers, and what they are asked in words that all of them understand: submit a call, get its result.

A peer's library is loaded where it is used: none of them needs the others, and most machines have not all of them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from typing import Any, Final

from ..compare.contender import (
    Answer,
    Channel,
    Command,
    Config,
    Ends,
    Handlers,
    call_rate,
    call_times,
    dask_cluster,
    echo_rate,
    executor_of,
    memory_with_numpy,
    noop,
    pin,
    same,
)

GONE_S: Final = 20.0
"""How long the processes of workers that were removed may take to end."""


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
        "rtt": partial(call_times, lambda: peer.result(peer.submit(noop))),
        "throughput": partial(_throughput, peer),
        "finish": partial(_finish, peer),
        "echo": partial(echo_rate, lambda array: peer.result(peer.submit(same, array))),
        "memory": lambda _: peer.result(peer.submit(memory_with_numpy)),
    }


def own_pid() -> int:
    """Return the process id; Ray takes functions of Python only."""
    return os.getpid()


def _throughput(peer: Peer, command: Command) -> Answer:
    def batch(items: int) -> None:
        peer.gather([peer.submit(noop) for _ in range(items)])

    return call_rate(batch, command)


def _finish(peer: Peer, command: Command) -> Answer:
    def once() -> None:
        peer.gather([peer.submit(noop) for _ in range(command["places"])])

    return call_times(once, command)


# The contenders ------------------------------------------------------------------------------------------------------


def executor(name: str, config: Config, channel: Channel) -> None:
    """Serve as an executor of the kind of ``concurrent.futures``."""
    with executor_of(name, workers(config)) as started:
        submit, gather = started.submit, lambda futures: [future.result() for future in futures]
        channel.serve(handlers(Peer(submit, lambda future: future.result(), gather), config))


pool, futures = (partial(executor, name) for name in ("pool", "futures"))


def dask(config: Config, channel: Channel) -> None:
    """Serve as Dask distributed: a local cluster of worker processes."""
    with dask_cluster(workers(config)) as (cluster, client):
        # a worker would keep the result of an equal call and not run it again
        submit = partial(client.submit, pure=False)
        peer = Peer(submit, lambda future: future.result(), client.gather)
        channel.serve({**handlers(peer, config), "resize": partial(_resize_dask, cluster, client)})


def _resize_dask(cluster: Any, client: Any, command: Command) -> Answer:
    """Add workers until each has run a call, and remove them until their processes have ended."""
    before = client.run(os.getpid)
    size = len(before) + command["n"]
    before_s = time.perf_counter()
    cluster.scale(size)
    client.wait_for_workers(size)
    pids = client.run(os.getpid)
    grow_s = time.perf_counter() - before_s
    # Dask chooses whom it removes: those that are still known afterwards are not waited for
    ends = {address: Ends([pid]) for address, pid in pids.items()}
    before_s = time.perf_counter()
    cluster.scale(len(before))
    while len(client.scheduler_info(n_workers=-1)["workers"]) > len(before):
        time.sleep(0.002)
    left = client.scheduler_info(n_workers=-1)["workers"]
    for address, end in ends.items():
        with end:
            if address not in left:
                end.wait(GONE_S)
    return {"grow_s": grow_s, "shrink_s": time.perf_counter() - before_s}


def ray(config: Config, channel: Channel) -> None:
    """Serve as Ray: tasks on one machine."""
    library = import_module("ray")
    library.init(num_cpus=workers(config), include_dashboard=False, log_to_driver=False, logging_level=40)
    remote = cache(library.remote)
    peer = Peer(lambda fn, *args: remote(fn).remote(*args), library.get, lambda handles: library.get(list(handles)))
    try:
        channel.serve({**handlers(peer, config), "resize": partial(_resize_ray, library)})
    finally:
        library.shutdown()


def _resize_ray(library: Any, command: Command) -> Answer:
    """Add nodes until each has run a task, and remove them, in a cluster of its own: one of ``init`` cannot grow."""
    library.shutdown()
    cluster = import_module("ray.cluster_utils").Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    library.init(address=cluster.address, log_to_driver=False, logging_level=40)
    getpid = library.remote(resources={"added": 1})(own_pid)
    before_s = time.perf_counter()
    nodes = [cluster.add_node(num_cpus=1, resources={"added": 1}) for _ in range(command["n"])]
    pids = library.get([getpid.remote() for _ in nodes])
    grow_s = time.perf_counter() - before_s
    with Ends(pids) as ends:
        before_s = time.perf_counter()
        for node in nodes:
            cluster.remove_node(node, allow_graceful=True)
        ends.wait(GONE_S)
        shrink_s = time.perf_counter() - before_s
    library.shutdown()
    cluster.shutdown()
    return {"grow_s": grow_s, "shrink_s": shrink_s}
