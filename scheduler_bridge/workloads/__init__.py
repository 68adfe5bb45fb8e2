"""Workloads: traces of real machines, files of jobs, and generators; readers say what they skipped and why."""

from __future__ import annotations

from scheduler_bridge.workloads.cleaning import Cleaning, read_clean_csv
from scheduler_bridge.workloads.conversion import (
    RULES,
    amdahl_logs_rule,
    amdahl_rule,
    convert,
    make_evolving,
    mebf_rule,
)
from scheduler_bridge.workloads.elastisim import read_elastisim
from scheduler_bridge.workloads.findings import Finding, Findings, TraceError
from scheduler_bridge.workloads.history import Law, workload_of
from scheduler_bridge.workloads.job_files import read_job_file
from scheduler_bridge.workloads.load import load
from scheduler_bridge.workloads.record import Status, TraceJob, Workload, in_order
from scheduler_bridge.workloads.swf import SwfOptions, read_swf
from scheduler_bridge.workloads.swf_writer import write_swf

__all__ = [
    "RULES",
    "Cleaning",
    "Finding",
    "Findings",
    "Law",
    "Status",
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
    "read_clean_csv",
    "read_elastisim",
    "read_job_file",
    "read_swf",
    "workload_of",
    "write_swf",
]
