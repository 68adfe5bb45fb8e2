"""Simulated jobs and nodes: the same core and policies, driven by an event heap instead of processes."""

from __future__ import annotations

from scheduler_bridge.sim.audit import AuditError, Auditor
from scheduler_bridge.sim.check import Conserves, Protects, Scenario, check_feasible, check_policy
from scheduler_bridge.sim.engine import Engine, Observer, SimResult, simulate
from scheduler_bridge.sim.models import JobRecord, SimJob, linear_speedup
from scheduler_bridge.sim.scenarios import random_scenario

__all__ = [
    "AuditError",
    "Auditor",
    "Conserves",
    "Engine",
    "JobRecord",
    "Observer",
    "Protects",
    "Scenario",
    "SimJob",
    "SimResult",
    "check_feasible",
    "check_policy",
    "linear_speedup",
    "random_scenario",
    "simulate",
]
