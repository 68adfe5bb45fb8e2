"""What Slurm's words about a job and its nodes mean for a scheduler that runs in the job. Pure.

==========================  ==========================================================================================
the node                    what follows
==========================  ==========================================================================================
is not one of the job's     dead: Slurm takes one that is down out of the job (``--no-kill``), and never gives it back
is down, or about so        dead
does not answer Slurm       doubtful: Slurm itself decides when it is down (``SlurmdTimeout``)
else, also if draining      fit: the job keeps it
==========================  ==========================================================================================
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from scheduler_bridge.backends.slurm.reading import JobInfo, NodeInfo

_DEAD: Final = frozenset({"down", "fail", "inval", "future", "powered_down", "powering_down"})


class Sign(StrEnum):
    """How a node is."""

    FIT = "fit"
    DOUBTFUL = "doubtful"
    DEAD = "dead"


@dataclass(frozen=True, slots=True)
class Sight:
    """What is to be said of a node; ``complaint`` is empty if it is fit."""

    sign: Sign
    complaint: str = ""


FIT: Final = Sight(Sign.FIT)


def doubtful(complaint: str) -> Sight:
    """Nothing is known of a node but why nothing is."""
    return Sight(Sign.DOUBTFUL, complaint)


def judge(names: Iterable[str], job: JobInfo, told: Iterable[NodeInfo]) -> dict[str, Sight]:
    """Say how nodes are.

    Args:
        names: The nodes.
        job: Whose they were.
        told: What Slurm says of those that it knows.
    """
    if not job.nodes:
        return dict.fromkeys(names, doubtful(f"job {job.job} is {job.state.lower()}"))
    known = {info.node: info for info in told}
    own = frozenset(job.nodes)
    return {name: _judge(name in own, job.job, known.get(name)) for name in names}


def _judge(is_own: bool, job: int, info: NodeInfo | None) -> Sight:
    if info is None:
        return FIT if is_own else Sight(Sign.DEAD, f"Slurm has taken it out of job {job}")
    how = f"it is {info.state}" + (f" ({info.reason})" if info.reason else "")
    if not is_own:
        # one that was set down just now may still be called completing
        return Sight(Sign.DEAD, f"Slurm has taken it out of job {job}: {how}")
    if info.state in _DEAD:
        return Sight(Sign.DEAD, f"Slurm says that {how}")
    return FIT if info.answers else doubtful("it does not answer Slurm")
