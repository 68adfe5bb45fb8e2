"""The scheduling policies: pure functions of the cluster and the time, by name.

Each file holds the policies of one source: registered functions, and the parts that no other file uses. They share
``base`` (the protocol and the decisions), ``registry``, ``compose`` (a policy is made of four parts), ``plan`` (what a
pass has decided so far), and the parts themselves: ``backfill``, ``redistribution``, ``profile``, ``timetable`` and
``sharing_candidates``. A new policy is one small file with a registered function, imported here.
"""

from __future__ import annotations

from scheduler_bridge.policies import (  # noqa: F401 - each registers its policies
    best_use,
    compat,
    conservative,
    elastic_scheduler,
    malleable_strategies,
    mebf,
    penalty,
    sd_policy,
)
from scheduler_bridge.policies.base import Decision, Grow, Policy, Reserve, Share, Shrink, Stand, Start, in_full
from scheduler_bridge.policies.mistakes import PolicyError
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
    "PolicyError",
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
