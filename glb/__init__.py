"""Lifeline-based global load balancing: irregular work that spreads itself over places which come and go.

A program describes its work as a ``Bag`` and its result as an object with ``merge``; ``glb.compute`` does the rest:
work stealing between workers and between places, termination by one finish, and moving tasks and results whenever the
job grows or shrinks. For the search of a tree ``glb.search`` brings the bags, and a program two or three functions; for
tasks that are rows of an array ``ArrayBag`` does, and a program the kernel.
"""

from __future__ import annotations

from glb import search
from glb.array_bag import ArrayBag, ArrayResult
from glb.bag import Bag, Result
from glb.config import Config
from glb.core.lifelines import Graph
from glb.driver import Outcome, compute, set_user_handler, set_workers
from glb.errors import BagError, ConfigError, GlbError, GraphError, LedgerError, SearchError
from glb.statistics import Statistics

__all__ = [
    "ArrayBag",
    "ArrayResult",
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
    "SearchError",
    "Statistics",
    "compute",
    "search",
    "set_user_handler",
    "set_workers",
]
