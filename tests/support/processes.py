"""Living processes, found by what is in their environment."""

from __future__ import annotations

from pathlib import Path


def carrying(entry: str) -> list[int]:
    """Returns the processes whose environment has ``NAME=value``; zombies have none."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            environment = (process / "environ").read_bytes()
        except OSError:
            continue  # gone meanwhile, or another user's
        if entry.encode() in environment.split(b"\0"):
            found.append(int(process.name))
    return found
