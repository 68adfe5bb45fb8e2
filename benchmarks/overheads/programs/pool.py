"""``concurrent.futures.ProcessPoolExecutor``."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor

from benchmarks.harness.channel import Channel
from benchmarks.overheads.programs import peers
from benchmarks.overheads.programs.serve import Config


def main(config: Config, channel: Channel) -> None:
    """Serve."""
    with ProcessPoolExecutor(peers.workers(config)) as executor:
        channel.serve(peers.handlers(peers.from_executor(executor), config))
