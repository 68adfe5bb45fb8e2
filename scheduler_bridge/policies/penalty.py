"""The penalty scheduling policy (PSP)."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from scheduler_bridge.model import ClusterView, JobSpec
from scheduler_bridge.policies.base import Policy
from scheduler_bridge.policies.compose import ComposedPolicy, by_submission
from scheduler_bridge.policies.registry import InvalidParameterError, get, parse, register

_LIMITS: Final = (0.2, 0.4, 0.6, 0.8)
"""Where the next better priority begins [2016 paper, table 1]."""
_NEWCOMER: Final = 3


def priority(accuracy: float | None) -> int:
    """The priority, 1 to 5, of the jobs of a user with this mean accuracy; 3 without a history [D]."""
    return _NEWCOMER if accuracy is None else 1 + bisect_right(_LIMITS, accuracy)


def by_accuracy(view: ClusterView, now: float, age_s: float = 0.0) -> Sequence[JobSpec]:  # noqa: ARG001 - as in others
    """Jobs of users with good walltimes first; among equals, first come, first served; all age alike."""
    return view.queue_by_user(_best_first, age_s)


def _best_first(accuracy: float | None) -> int:
    return -priority(accuracy)


@register
def penalty(over: str = "easy", age_s: float = 0.0) -> Policy:
    """Penalty (PSP): users whose jobs use what they ask for come first, over any other policy.

    A user's accuracy is the mean of runtime divided by walltime over the last ten jobs that ended. Jobs are queued by
    five priorities with the limits 0.2, 0.4, 0.6 and 0.8, within a priority in the order of submission. Priorities are
    computed anew in every pass, so at least at every submission and end.

    Parameters: ``over``, the policy whose backfilling, start sizes and redistribution are used (``easy``, as in the
    paper's scheduler, or any other that takes the order of submission); its parameters may follow, as in
    ``mebf:expand=intensive,theta=0.5``. ``age_s``: a job gains one priority, without a limit, each time that this
    number of seconds has passed since its submission, as by the age factor of Slurm's multifactor priority; 0, as in
    the paper: it gains none.

    Source: Rocchetti, Iturriaga, Nesmachnow, "Including accurate user estimates in HPC schedulers: an empirical
    analysis", 2016, section 4 and table 1.
    [D] With ``age_s``, parts of a priority count, too: who was submitted age_s earlier is as urgent as who has one
    priority more. [D] Users without a history are in the middle priority. [D] Jobs that ended by themselves or at their
    walltime count; failed, cancelled and lost ones do not. [D] A resized job counts like any other.
    """
    if not (math.isfinite(age_s) and age_s >= 0):
        raise InvalidParameterError(f"penalty: age_s is {age_s!r}, must be a number of seconds, not negative")
    name, _, rest = over.partition(":")
    base = get(name, **parse(name, rest.split(",") if rest else ()))
    if not isinstance(base, ComposedPolicy) or base.order is not by_submission:
        raise InvalidParameterError(f"penalty needs a policy that takes the order of submission, {over!r} has another")
    return replace(base, name="penalty", order=partial(by_accuracy, age_s=age_s))
