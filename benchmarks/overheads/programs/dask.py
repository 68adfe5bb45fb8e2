"""Dask distributed: a local cluster of worker processes."""

from __future__ import annotations

import os
import time
from functools import partial
from typing import Any, Final

from ...harness.channel import Answer, Channel, Command
from . import peers
from .optional import load
from .processes import Ends
from .serve import Config

GONE_S: Final = 20.0


def main(config: Config, channel: Channel) -> None:
    """Serve."""
    distributed = load("distributed")
    with (
        distributed.LocalCluster(
            n_workers=peers.workers(config), threads_per_worker=1, dashboard_address=None, memory_limit=0
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        # a worker would keep the result of an equal call and not run it again
        submit = partial(client.submit, pure=False)
        peer = peers.Peer(submit, lambda future: future.result(), client.gather)
        channel.serve({**peers.handlers(peer, config), "resize": partial(_resize, cluster, client)})


def _resize(cluster: Any, client: Any, command: Command) -> Answer:
    """Add workers until each has run a call, and remove them until their processes have ended."""
    before = client.run(os.getpid)
    size = len(before) + command["n"]
    before_s = time.perf_counter()
    cluster.scale(size)
    client.wait_for_workers(size)
    workers = client.run(os.getpid)
    grow_s = time.perf_counter() - before_s
    # Dask chooses whom it removes: those that are still known afterwards are not waited for
    ends = {address: Ends([pid]) for address, pid in workers.items()}
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
