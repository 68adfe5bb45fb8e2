"""Simulated jobs and nodes: the same core and policies, driven by an event heap instead of processes."""

from __future__ import annotations

from scheduler_bridge.sim.audit import AuditError, Auditor
from scheduler_bridge.sim.check import Protects, Scenario, check_policy, random_scenario
from scheduler_bridge.sim.engine import Engine, node_names, simulate
from scheduler_bridge.sim.failures import (
    CheckpointPlan,
    FaultTolerance,
    Losses,
    daly_s,
    earliest_end_s,
    random_failures,
    young_s,
)
from scheduler_bridge.sim.jobs import Dynamics, Observer, SharingModel, SimRecord, SimResult, Simulated
from scheduler_bridge.sim.measures import Means, Measures, Power, Spread, measure, spreads
from scheduler_bridge.sim.replay import COLUMNS, Behaviour, Replay, ReplayOptions, as_it_ran, job_rows, replay, sim_jobs
from scheduler_bridge.sim.scaling import Cost, UnknownModelError, parse_cost, parse_speedup

__all__ = [
    "COLUMNS",
    "AuditError",
    "Auditor",
    "Behaviour",
    "CheckpointPlan",
    "Cost",
    "Dynamics",
    "Engine",
    "FaultTolerance",
    "Losses",
    "Means",
    "Measures",
    "Observer",
    "Power",
    "Protects",
    "Replay",
    "ReplayOptions",
    "Scenario",
    "SharingModel",
    "SimRecord",
    "SimResult",
    "Simulated",
    "Spread",
    "UnknownModelError",
    "as_it_ran",
    "check_policy",
    "daly_s",
    "earliest_end_s",
    "job_rows",
    "measure",
    "node_names",
    "parse_cost",
    "parse_speedup",
    "random_failures",
    "random_scenario",
    "replay",
    "sim_jobs",
    "simulate",
    "spreads",
    "young_s",
]
