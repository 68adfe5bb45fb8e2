"""The scheduling policies: pure functions of the cluster and the time, by name.

Each file holds the policies of one source: registered functions, and the parts that no other file uses. They share
``base`` (the protocol and the decisions), ``registry``, ``compose`` (a policy is made of four parts), ``plan`` (what a
pass has decided so far), and the parts themselves: ``backfill``, ``redistribution``, ``profile``, ``timetable`` and
``sharing_candidates``. A new policy is one small file with a registered function, imported here.
"""

from __future__ import annotations

from scheduler_bridge.policies import best_use as _best_use
from scheduler_bridge.policies import compat as _compat
from scheduler_bridge.policies import conservative as _conservative
from scheduler_bridge.policies import elastic_scheduler as _elastic_scheduler
from scheduler_bridge.policies import malleable_strategies as _malleable_strategies
from scheduler_bridge.policies import mebf as _mebf
from scheduler_bridge.policies import penalty as _penalty
from scheduler_bridge.policies import sd_policy as _sd_policy
from scheduler_bridge.policies.base import Decision, Grow, Policy, Reserve, Share, Shrink, Stand, Start, in_full
from scheduler_bridge.policies.registry import (
    InvalidParameterError,
    PolicyInfo,
    UnknownPolicyError,
    describe,
    get,
    names,
    parse,
    register,
)

__all__ = [
    "Decision",
    "Grow",
    "InvalidParameterError",
    "Policy",
    "PolicyInfo",
    "Reserve",
    "Share",
    "Shrink",
    "Stand",
    "Start",
    "UnknownPolicyError",
    "describe",
    "get",
    "in_full",
    "names",
    "parse",
    "register",
]

_REGISTERED = (
    _elastic_scheduler,
    _conservative,
    _malleable_strategies,
    _mebf,
    _penalty,
    _sd_policy,
    _best_use,
    _compat,
)
