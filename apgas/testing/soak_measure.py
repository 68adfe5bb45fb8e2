"""What the processes of a job use: memory, file descriptors and threads, by role, and what they may use."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Use:
    """What one process uses (``memory_bytes``: resident and its own), or the most of several."""

    memory_bytes: int = 0
    descriptors: int = 0
    threads: int = 0

    def most(self, other: Use) -> Use:
        """The larger of each."""
        return Use(
            max(self.memory_bytes, other.memory_bytes),
            max(self.descriptors, other.descriptors),
            max(self.threads, other.threads),
        )


@dataclass(frozen=True, slots=True)
class Sample:
    """The processes of a job at one moment, by role; ``spawned``: places that had joined by then."""

    cycle: int
    spawned: int
    places: int
    by_role: dict[str, Use]


def use_of(pid: int) -> Use | None:
    """Measure a process; None if it is gone."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace")
        descriptors = sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return None
    words = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
    if "RssAnon" not in words:
        return None  # a zombie
    return Use(int(words["RssAnon"].split()[0]) * 1024, descriptors, int(words["Threads"]))


def by_role(processes: dict[int, str], place_0: int, witness: int, interpreter: str) -> dict[str, Use]:
    """Measure all processes of a job (pid: command line); of several with one role the most of each."""
    uses: dict[str, Use] = {}
    for pid, command in processes.items():
        use = use_of(pid)
        if use is None:
            continue
        role = {place_0: "place 0", witness: "place 1"}.get(pid)
        role = role or ("other places" if command.startswith(interpreter) else "process manager")
        uses[role] = uses.get(role, Use()).most(use)
    return uses


@dataclass(frozen=True, slots=True)
class Bound:
    """How much more than at the start a process may use: at once, and per place that has joined since."""

    memory_bytes: int
    memory_per_place_bytes: int
    descriptors: int
    descriptors_per_place: float


BOUNDS: Final = {
    "place 0": Bound(64 * MIB, MIB // 16, 32, 0.0),
    "place 1": Bound(64 * MIB, 0, 32, 0.0),
    "other places": Bound(64 * MIB, 0, 32, 0.0),
    "process manager": Bound(4 * MIB, MIB // 128, 16, 1.25),
}
"""Connections, activities under way and what malloc keeps of them in the arenas of many threads explain the fixed part;
MPI keeps something of each place that it ever spawned."""


def complaints(first: Sample, now: Sample) -> Iterable[str]:
    """Tell where a sample exceeds the bounds, counted from the first."""
    joined = now.spawned - first.spawned
    for role, bound in BOUNDS.items():
        before, use = first.by_role.get(role), now.by_role.get(role)
        if before is None or use is None:
            continue
        memory_bytes = before.memory_bytes + bound.memory_bytes + bound.memory_per_place_bytes * joined
        descriptors = before.descriptors + bound.descriptors + bound.descriptors_per_place * joined
        if use.memory_bytes > memory_bytes:
            yield f"{role} uses {use.memory_bytes / MIB:.1f} MiB, at most {memory_bytes / MIB:.1f} are allowed"
        if use.descriptors > descriptors:
            yield f"{role} has {use.descriptors} file descriptors open, at most {descriptors:.0f} are allowed"


def table(samples: list[Sample]) -> str:
    """The first, the middle and the last sample for people."""
    first, last = samples[0], samples[-1]
    middle = min(samples, key=lambda sample: abs(2 * sample.cycle - first.cycle - last.cycle))
    lines = [f"{'':16} {'start':>25} {'middle':>25} {'end':>25}"]
    heads = [f"cycle {sample.cycle}, {sample.spawned} joined" for sample in (first, middle, last)]
    lines.append(f"{'':16} " + " ".join(f"{head:>25}" for head in heads))
    for role in BOUNDS:
        uses = [sample.by_role.get(role) for sample in (first, middle, last)]
        cells = [f"{u.memory_bytes / MIB:.1f} MiB, {u.descriptors} fds, {u.threads} th" if u else "-" for u in uses]
        lines.append(f"{role:16} " + " ".join(f"{cell:>25}" for cell in cells))
    return "\n".join(lines)
