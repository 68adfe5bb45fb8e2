"""The program of a place that joins a running job; it reports before it loads the rest, for joining is waited for."""

from __future__ import annotations

from apgas.runtime import arrival
from apgas.runtime.loading import at_once


def main() -> None:
    """Join, serve until released or until the program ends, and exit."""
    arrived = arrival.arrive()
    with at_once():
        from apgas.runtime import lifetime, process

    start = lifetime.join_job(arrived)
    lifetime.leave(0 if start is None else process.serve(process.build(start)))
