"""How many files this process may have open: every connected job is one, and so is every user who asks."""

from __future__ import annotations

import resource
from typing import Final

ENOUGH: Final = 2048
"""So many allow a scheduler all connections that it would take (``Limits``), its log and its jobs' output."""


def allowed() -> tuple[float, float]:
    """Return how many may be open, and to how many a process may raise that itself; infinite: any number."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _number(soft), _number(hard)


def raise_limit() -> float:
    """Let this process, and those that it starts, open as many files as the system lets it; return how many."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return allowed()[0]


def _number(limit: int) -> float:
    return float("inf") if limit == resource.RLIM_INFINITY else float(limit)
