"""What may be timed in a daemon: whoever measures one is told each time how long a step took."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

Step: TypeAlias = Literal["message", "decision", "commit", "picture"]
"""A message of a job taken in, what it led to included; events decided about (state and record brought up to date); a
write to the log, from its begin to its being on disk; a picture of all nodes and jobs. All but ``commit`` keep the
event loop from doing anything else."""
Timed: TypeAlias = Callable[[Step, float], None]
"""Called with a step and the seconds it took."""


def untimed(_step: Step, _seconds: float) -> None:
    """Take no notice."""
