"""The scheduling policies: pure functions of the cluster and the time, by name.

A new policy is one small file with a registered function, imported here.
"""

from __future__ import annotations

from scheduler_bridge.policies import average as _average
from scheduler_bridge.policies import backfilling as _backfilling
from scheduler_bridge.policies import best_use as _best_use
from scheduler_bridge.policies import conservative as _conservative
from scheduler_bridge.policies import easy as _easy
from scheduler_bridge.policies import easy_compat as _easy_compat
from scheduler_bridge.policies import fcfs as _fcfs
from scheduler_bridge.policies import keep_preferred as _keep_preferred
from scheduler_bridge.policies import malleable as _malleable
from scheduler_bridge.policies import malleable_compat as _malleable_compat
from scheduler_bridge.policies import mebf as _mebf
from scheduler_bridge.policies import minimum as _minimum
from scheduler_bridge.policies import penalty as _penalty
from scheduler_bridge.policies import preferred as _preferred
from scheduler_bridge.policies import sd_policy as _sd_policy
from scheduler_bridge.policies.base import Policy
from scheduler_bridge.policies.decision import Decision, Grow, Reserve, Share, Shrink, Stand, Start, in_full
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
    _fcfs,
    _backfilling,
    _easy,
    _conservative,
    _malleable,
    _minimum,
    _preferred,
    _average,
    _keep_preferred,
    _mebf,
    _penalty,
    _sd_policy,
    _best_use,
    _easy_compat,
    _malleable_compat,
)
