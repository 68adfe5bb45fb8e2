"""Ray: tasks on one machine."""

from __future__ import annotations

import time
from functools import cache, partial
from typing import Any, Final

from ...harness.channel import Answer, Channel, Command
from . import peers
from .optional import load
from .processes import Ends
from .serve import Config

GONE_S: Final = 20.0
_QUIET: Final = {"include_dashboard": False, "log_to_driver": False, "logging_level": 40}


def main(config: Config, channel: Channel) -> None:
    """Serve."""
    ray = load("ray")
    ray.init(num_cpus=peers.workers(config), **_QUIET)
    remote = cache(ray.remote)
    peer = peers.Peer(lambda fn, *args: remote(fn).remote(*args), ray.get, lambda handles: ray.get(list(handles)))
    try:
        channel.serve({**peers.handlers(peer, config), "resize": partial(_resize, ray)})
    finally:
        ray.shutdown()


def _resize(ray: Any, command: Command) -> Answer:
    """Add nodes until each has run a task, and remove them, in a cluster of its own: one of ``init`` cannot grow."""
    ray.shutdown()
    cluster = load("ray.cluster_utils").Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    ray.init(address=cluster.address, log_to_driver=False, logging_level=40)
    getpid = ray.remote(resources={"added": 1})(peers.own_pid)
    before_s = time.perf_counter()
    nodes = [cluster.add_node(num_cpus=1, resources={"added": 1}) for _ in range(command["n"])]
    pids = ray.get([getpid.remote() for _ in nodes])
    grow_s = time.perf_counter() - before_s
    with Ends(pids) as ends:
        before_s = time.perf_counter()
        for node in nodes:
            cluster.remove_node(node, allow_graceful=True)
        ends.wait(GONE_S)
        shrink_s = time.perf_counter() - before_s
    ray.shutdown()
    cluster.shutdown()
    return {"grow_s": grow_s, "shrink_s": shrink_s}
