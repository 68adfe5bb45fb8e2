"""What the scheduler wants done. The live daemon and the simulator carry it out and report back with events."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec


class StartJob(msgspec.Struct, frozen=True, tag=True, gc=False):
    """Start the job on ``nodes``, place 0 on the first; answered by ``JobStarted`` or ``JobEnded``.

    Attributes:
        job_id: Which job.
        nodes: Where.
        cores: How many cores of each of the nodes it may use; empty: all.
        core_ids: Which ones, as bitsets of their ids.
    """

    job_id: int
    nodes: tuple[str, ...]
    cores: tuple[int, ...] = ()
    core_ids: tuple[int, ...] = ()


class SendOrder(msgspec.Struct, frozen=True, tag=True, gc=False):
    """Tell the job to resize, or to use other numbers of cores; answered by completed, failed, or deferred and one.

    Attributes:
        job_id: Whom to tell.
        order: Unique number of the order.
        kind: Grow, shrink, or workers: use ``cores`` of the nodes from now on.
        nodes: Grow: the nodes to use, held for the job from now on. Shrink: the nodes that the scheduler would like
            back; the job chooses. Workers: all its nodes.
        count: How many nodes. Workers: the fewest cores of a node.
        cores: How many cores of each of the nodes.
        core_ids: Which ones, as bitsets of their ids.
    """

    job_id: int
    order: int
    kind: Literal["grow", "shrink", "workers"]
    nodes: tuple[str, ...]
    count: int
    cores: tuple[int, ...] = ()
    core_ids: tuple[int, ...] = ()


class KillJob(msgspec.Struct, frozen=True, tag=True):
    """End the job, whatever it does; answered by ``JobEnded``."""

    job_id: int
    reason: str


class WakeAt(msgspec.Struct, frozen=True, tag=True, gc=False):
    """Report ``WakeUp`` at ``time_s`` of the scheduler's clock. A later one does not replace an earlier one."""

    time_s: float


class Refuse(msgspec.Struct, frozen=True, tag=True):
    """Nothing comes of a submission (the job stays unknown), or of the evolving request of a job that holds nodes."""

    job_id: int
    reason: str


class KeepNodes(msgspec.Struct, frozen=True, tag=True):
    """From the start of the reservation on, ``nodes`` are its jobs' only; these replace those named before."""

    name: str
    nodes: tuple[str, ...]


class NodeLeft(msgspec.Struct, frozen=True, tag=True):
    """A node that was to leave the cluster is none of it any more: nobody holds it."""

    node: str


class RefuseReservation(msgspec.Struct, frozen=True, tag=True):
    """Nothing comes of a reservation that was asked for."""

    name: str
    reason: str


Effect: TypeAlias = StartJob | SendOrder | KillJob | WakeAt | Refuse | KeepNodes | NodeLeft | RefuseReservation
