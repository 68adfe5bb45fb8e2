"""``concurrent.futures.ProcessPoolExecutor``."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor

from ...harness.channel import Channel
from . import peers
from .serve import Config


def main(config: Config, channel: Channel) -> None:
    """Serve."""
    with ProcessPoolExecutor(peers.workers(config)) as executor:
        channel.serve(peers.handlers(peers.from_executor(executor), config))
