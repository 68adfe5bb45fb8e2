"""What a file of one job may say (TOML)."""

from __future__ import annotations

from typing import Final

KEYS: Final = (
    "name",
    "class",
    "nodes",
    "min_nodes",
    "max_nodes",
    "walltime_s",
    "command",
    "cwd",
    "env",
    "launch",
    "hold",
    "priority",
    "after_ok",
    "after_any",
    "requeue",
    "resilient",
    "output",
    "errors",
    "array",
    "user",
    "grace_s",
    "protocol",
    "rho",
    "reservation",
)
"""What ``malleable submit`` takes; a simulation needs some of them only, and reads others besides."""
