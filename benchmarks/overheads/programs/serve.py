"""How a contender sets itself up."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass


@dataclass(frozen=True)
class Config:
    """How a contender is to set itself up.

    Attributes:
        places: Processes, the caller among them.
        cpus: The cores to pin the caller and the other to; empty: no pinning.
    """

    places: int
    cpus: tuple[int, ...]

    @classmethod
    def parse(cls, text: str) -> Config:
        """Read the JSON that ``written`` wrote."""
        content = json.loads(text)
        return cls(content["places"], tuple(content["cpus"]))

    def written(self) -> str:
        """Write it as JSON."""
        return json.dumps({"places": self.places, "cpus": self.cpus})


def pin(cpu: int) -> None:
    """Pin every thread of this process, and those that they start, to one core."""
    for thread in os.listdir("/proc/self/task"):  # noqa: PTH208 - names are what is wanted
        os.sched_setaffinity(int(thread), {cpu})


def load_numpy() -> None:
    """Load NumPy, as a place does that computes."""
    __import__("numpy")


def memory_with_numpy() -> dict[str, float]:
    """Return what this process takes once NumPy is loaded."""
    from ...harness import procfs

    load_numpy()
    return procfs.memory()
