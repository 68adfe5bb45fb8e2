"""Lifeline-based global load balancing: irregular work that spreads itself over places which come and go.

A program describes its work as a ``Bag`` and its result as an object with ``merge``; ``glb.compute`` does the rest:
work stealing between workers and between places, termination by one finish, and moving tasks and results whenever the
job grows or shrinks.
"""

from __future__ import annotations

from glb.bag import Bag, Result
from glb.config import Config
from glb.core.lifelines import Graph
from glb.driver import Outcome, compute, set_user_handler, set_workers
from glb.errors import BagError, ConfigError, GlbError, GraphError, LedgerError
from glb.statistics import Statistics

__all__ = [
    "Bag",
    "BagError",
    "Config",
    "ConfigError",
    "GlbError",
    "Graph",
    "GraphError",
    "LedgerError",
    "Outcome",
    "Result",
    "Statistics",
    "compute",
    "set_user_handler",
    "set_workers",
]
