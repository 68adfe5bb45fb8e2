"""Simulated jobs and nodes: the same core and policies, driven by an event heap instead of processes."""

from __future__ import annotations

from scheduler_bridge.sim.engine import Engine, Observer, SimResult, simulate
from scheduler_bridge.sim.models import JobRecord, SimJob, linear_speedup

__all__ = ["Engine", "JobRecord", "Observer", "SimJob", "SimResult", "linear_speedup", "simulate"]
