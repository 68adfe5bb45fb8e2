"""The program of a place that joins a running job; imports no more than it must, for joining is waited for."""

from __future__ import annotations

from apgas.runtime import lifetime, process


def main() -> None:
    """Join, serve until released or until the program ends, and exit."""
    listener = process.Listener()
    identity = lifetime.join_job(listener)
    lifetime.leave(0 if identity is None else process.serve(process.build(identity, listener)))
