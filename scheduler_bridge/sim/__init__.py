"""Simulated jobs and nodes: the same core and policies, driven by an event heap instead of processes."""

from __future__ import annotations

from scheduler_bridge.sim.audit import AuditError, Auditor
from scheduler_bridge.sim.check import Conserves, Protects, Scenario, check_feasible, check_policy
from scheduler_bridge.sim.checkpoints import CheckpointPlan, daly_s, young_s
from scheduler_bridge.sim.costs import Cost, parse_cost
from scheduler_bridge.sim.engine import Engine, simulate
from scheduler_bridge.sim.export import COLUMNS, as_it_ran, job_rows
from scheduler_bridge.sim.failures import FaultTolerance, Losses, earliest_end_s, random_failures
from scheduler_bridge.sim.from_workload import Behaviour, sim_jobs
from scheduler_bridge.sim.measures import FaultMeasures, Means, Measures, Power, Window, measure
from scheduler_bridge.sim.models import JobRecord, SimJob
from scheduler_bridge.sim.replay import Replay, ReplayOptions, replay
from scheduler_bridge.sim.result import Observer, Progress, SimResult, node_names
from scheduler_bridge.sim.running import SharingModel
from scheduler_bridge.sim.scenarios import random_scenario
from scheduler_bridge.sim.speedup import Speedup, UnknownModelError, linear_speedup, parse_speedup
from scheduler_bridge.sim.spread import Spread, Spreads, spreads

__all__ = [
    "COLUMNS",
    "AuditError",
    "Auditor",
    "Behaviour",
    "CheckpointPlan",
    "Conserves",
    "Cost",
    "Engine",
    "FaultMeasures",
    "FaultTolerance",
    "JobRecord",
    "Losses",
    "Means",
    "Measures",
    "Observer",
    "Power",
    "Progress",
    "Protects",
    "Replay",
    "ReplayOptions",
    "Scenario",
    "SharingModel",
    "SimJob",
    "SimResult",
    "Speedup",
    "Spread",
    "Spreads",
    "UnknownModelError",
    "Window",
    "as_it_ran",
    "check_feasible",
    "check_policy",
    "daly_s",
    "earliest_end_s",
    "job_rows",
    "linear_speedup",
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
