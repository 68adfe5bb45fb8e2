"""Workloads: traces of real machines, files of jobs, and generators; readers say what they skipped and why.

Readers of other forms than SWF are modules of their own, which are imported when they are asked for, or when ``load``
meets a file of that form: most commands need none of them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

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

if TYPE_CHECKING:
    from scheduler_bridge.workloads.accounting import Cleaning, read_clean_csv
    from scheduler_bridge.workloads.elastisim import read_elastisim
    from scheduler_bridge.workloads.job_files import read_job_file

__all__ = [
    "RULES",
    "Cleaning",
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
    "read_clean_csv",
    "read_elastisim",
    "read_job_file",
    "read_swf",
    "shake",
    "workload_of",
    "write_swf",
]

_READERS: Final = {
    "Cleaning": "accounting",
    "read_clean_csv": "accounting",
    "read_elastisim": "elastisim",
    "read_job_file": "job_files",
}


def __getattr__(name: str) -> Any:
    if name in _READERS:
        return getattr(import_module(f"{__name__}.{_READERS[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
