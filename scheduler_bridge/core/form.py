"""In which form the core runs: as Python, or compiled."""

from __future__ import annotations

from typing import Final

from scheduler_bridge.core import scheduler

COMPILED: Final = not str(scheduler.__file__).endswith(".py")
"""Whether it is machine code, which decides the same in half of the time."""
