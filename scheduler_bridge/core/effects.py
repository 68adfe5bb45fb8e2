"""What the scheduler wants done. The live daemon and the simulator carry it out and report back with events."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec


class StartJob(msgspec.Struct, frozen=True, tag=True):
    """Start the job on ``nodes``, place 0 on the first; answered by ``JobStarted`` or ``JobEnded``."""

    job_id: int
    nodes: tuple[str, ...]


class SendOrder(msgspec.Struct, frozen=True, tag=True):
    """Tell the job to resize; answered by completed, failed, or deferred and then one of the two.

    Attributes:
        job_id: Whom to tell.
        order: Unique number of the order.
        kind: Grow or shrink.
        nodes: Grow: the nodes to use, held for the job from now on. Shrink: the nodes that the scheduler would like
            back; the job chooses.
        count: How many nodes.
    """

    job_id: int
    order: int
    kind: Literal["grow", "shrink"]
    nodes: tuple[str, ...]
    count: int


class KillJob(msgspec.Struct, frozen=True, tag=True):
    """End the job, whatever it does; answered by ``JobEnded``."""

    job_id: int
    reason: str


class WakeAt(msgspec.Struct, frozen=True, tag=True):
    """Report ``WakeUp`` at ``time_s`` of the scheduler's clock. A later one does not replace an earlier one."""

    time_s: float


class Refuse(msgspec.Struct, frozen=True, tag=True):
    """Nothing comes of a submission (the job stays unknown), or of the evolving request of a job that holds nodes."""

    job_id: int
    reason: str


Effect: TypeAlias = StartJob | SendOrder | KillJob | WakeAt | Refuse
