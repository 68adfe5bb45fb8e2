"""``mpi4py.futures.MPIPoolExecutor``."""

from __future__ import annotations

from ...harness.channel import Channel
from . import peers
from .optional import load
from .serve import Config


def main(config: Config, channel: Channel) -> None:
    """Serve; the workers are spawned."""
    with load("mpi4py.futures").MPIPoolExecutor(max_workers=peers.workers(config)) as executor:
        channel.serve(peers.handlers(peers.from_executor(executor), config))
