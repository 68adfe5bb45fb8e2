"""Measures a daemon under load: many waiting jobs, many connected malleable ones, and many messages a second.

The daemon is a real one, in a process of its own: its log, its sockets, its decisions. The jobs are not: no process is
started for them, and one process of the measurement speaks the wire protocol for all of them (``stand_in``, ``jobs``).
"""

from scheduler_bridge.live.load.plan import Plan
from scheduler_bridge.live.load.report import Report
from scheduler_bridge.live.load.run import measure

__all__ = ["Plan", "Report", "measure"]
