"""Simulated jobs for tests, of what their users submit."""

from __future__ import annotations

from typing import Any

from msgspec import structs

from scheduler_bridge.model import JobSpec
from scheduler_bridge.sim import Dynamics, Simulated
from scheduler_bridge.workloads import TraceJob


def simulated(spec: JobSpec, runtime_s: float, **others: Any) -> Simulated:
    """A job that takes ``runtime_s`` on ``spec.nodes`` nodes; ``others``: fields of ``Dynamics`` and ``TraceJob``."""
    dynamics = {name: others.pop(name) for name in Dynamics.__struct_fields__ if name in others}
    return structs.replace(TraceJob.of(spec, runtime_s), **others), Dynamics(**dynamics)
