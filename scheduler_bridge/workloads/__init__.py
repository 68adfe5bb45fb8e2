"""Workloads: traces of real machines, files of jobs, and generators; readers say what they skipped and why.

Readers of other forms than SWF are modules of their own, which ``load`` imports when it meets a file of that form: most
commands need none of them.
"""

from __future__ import annotations

from scheduler_bridge.workloads.conversion import (
    RULES,
    amdahl_logs_rule,
    amdahl_rule,
    convert,
    make_evolving,
    mebf_rule,
    shake,
)
from scheduler_bridge.workloads.load import Law, load, workload_of
from scheduler_bridge.workloads.source import Finding, TraceError
from scheduler_bridge.workloads.swf import SwfOptions, read_swf, write_swf
from scheduler_bridge.workloads.workload import TraceJob, Workload, in_order

__all__ = [
    "RULES",
    "Finding",
    "Law",
    "SwfOptions",
    "TraceError",
    "TraceJob",
    "Workload",
    "amdahl_logs_rule",
    "amdahl_rule",
    "convert",
    "in_order",
    "load",
    "make_evolving",
    "mebf_rule",
    "read_swf",
    "shake",
    "workload_of",
    "write_swf",
]
