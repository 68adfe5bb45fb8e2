"""A batch scheduler for jobs that grow and shrink while they run, live and simulated; what a program may use of it.

``simulate`` and ``Workload`` are loaded when they are first used: the command line does without them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from scheduler_bridge.simulation import Simulation, simulate
    from scheduler_bridge.workloads import Workload

__all__ = ["Simulation", "Workload", "simulate"]

_HOMES: Final = {"Simulation": "simulation", "Workload": "workloads", "simulate": "simulation"}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
