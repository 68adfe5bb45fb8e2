"""Workloads: traces of real machines, files of jobs, and generators; readers say what they skipped and why."""

from __future__ import annotations

from scheduler_bridge.workloads.findings import Finding, Findings, TraceError
from scheduler_bridge.workloads.record import Status, TraceJob, Workload, in_order
from scheduler_bridge.workloads.swf import SwfOptions, SwfRecord, read_swf

__all__ = [
    "Finding",
    "Findings",
    "Status",
    "SwfOptions",
    "SwfRecord",
    "TraceError",
    "TraceJob",
    "Workload",
    "in_order",
    "read_swf",
]
