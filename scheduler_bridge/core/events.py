"""The interface of the core: events in, effects out; and the errors that it raises."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import msgspec

from scheduler_bridge.model import AdvanceReservation, JobSpec

Outcome: TypeAlias = Literal["completed", "failed", "cancelled", "timeout", "lost"]
OrderKind: TypeAlias = Literal["grow", "shrink", "workers"]


class _Message(msgspec.Struct, frozen=True, tag=True, gc=False):
    """An event or an effect; it holds nothing that could lead back to it."""


class OfJob(_Message, frozen=True):
    """Something about a job that was submitted before."""

    job_id: int


class _Answer(OfJob, frozen=True):
    """What a job makes of the order of this number."""

    order: int


class OfNode(_Message, frozen=True):
    """Something about a node."""

    node: str


class JobSubmitted(_Message, frozen=True):
    """A user submitted a job."""

    job: JobSpec


class JobStarted(OfJob, frozen=True):
    """The processes of a job run; its walltime begins."""


class JobEnded(OfJob, frozen=True):
    """Nothing of the job is left; its nodes are free. ``outcome`` is what the processes' end looked like."""

    outcome: Outcome
    reason: str = ""


class JobInterrupted(OfJob, frozen=True):
    """Nothing of the job is left, but it has kept what it needs to go on: it keeps its nodes and is to begin again."""

    reason: str = ""


class MalleableReady(OfJob, frozen=True):
    """The job registered a malleable handler: it takes orders from now on."""


class MalleableEnded(OfJob, frozen=True):
    """The job gave its handler up: no further orders."""


class GrowCompleted(_Answer, frozen=True):
    """The job runs on ``nodes`` as well. Ordered nodes that are not among them go back to the scheduler."""

    nodes: tuple[str, ...]


class ShrinkCompleted(_Answer, frozen=True):
    """The job released ``nodes``, which it chose itself; nothing of it is left there."""

    nodes: tuple[str, ...]


class WorkersChanged(_Answer, frozen=True):
    """The job computes with the cores that the order names."""


class ResizeFailed(_Answer, frozen=True):
    """The job refused or aborted the order and goes on at its old size."""

    reason: str = ""


class ResizeDeferred(_Answer, frozen=True):
    """The job will carry the order out in a later phase; completed or failed follows."""

    reason: str = ""


class EvolvingRequest(OfJob, frozen=True):
    """The job asks for ``delta`` nodes more (positive) or offers nodes back (negative)."""

    delta: int


class NodesLost(OfJob, frozen=True):
    """The job's processes on ``nodes`` died, and it goes on without them."""

    nodes: tuple[str, ...]
    reason: str = ""


class NodeUp(OfNode, frozen=True):
    """The node is (back) in service; it may be a new one.

    ``lent``: it can be taken back at any time, from now on until it has left.
    """

    lent: bool = False


class NodeDown(OfNode, frozen=True):
    """The node is out of service; ``reason`` says why, if that is known."""

    reason: str = ""


class NodeDrained(OfNode, frozen=True):
    """The node takes no further jobs; one that holds it goes on there."""


class NodeRemoved(OfNode, frozen=True):
    """The node is to leave the cluster for good: it takes no further jobs, and is forgotten when no job holds it."""


class ReservationMade(_Message, frozen=True):
    """An operator wants nodes kept for a time to come; it begins and ends by itself then."""

    reservation: AdvanceReservation


class ReservationCancelled(_Message, frozen=True):
    """The nodes are not to be kept (any more)."""

    name: str


class UserNodesLimited(_Message, frozen=True):
    """The jobs of one user may hold this number of nodes together from now on; None: any number."""

    user_nodes: int | None


class JobWithdrawn(OfJob, frozen=True):
    """The waiting job is not to be considered: it is forgotten, until it may be submitted again."""


class JobMoved(OfJob, frozen=True):
    """The waiting job is to be considered before the job ``ahead_of``, or after all others if that does not wait."""

    ahead_of: int | None


class CancelJob(OfJob, frozen=True):
    """The user or the operator wants the job gone; ``reason`` is what a waiting one's end is put down to."""

    reason: str = "cancelled while it waited"


class WakeUp(_Message, frozen=True):
    """A time named by ``WakeAt`` has come. More of them than asked for do no harm."""


Answer: TypeAlias = GrowCompleted | ShrinkCompleted | WorkersChanged | ResizeFailed | ResizeDeferred
JobEvent: TypeAlias = (
    JobStarted
    | JobEnded
    | JobInterrupted
    | MalleableReady
    | MalleableEnded
    | Answer
    | EvolvingRequest
    | NodesLost
    | JobWithdrawn
    | JobMoved
    | CancelJob
)
NodeEvent: TypeAlias = NodeUp | NodeDown | NodeDrained | NodeRemoved
Event: TypeAlias = (
    JobSubmitted | JobEvent | NodeEvent | ReservationMade | ReservationCancelled | UserNodesLimited | WakeUp
)

BATCH_RANK: Final[dict[type, int]] = {JobEnded: 0, JobSubmitted: 2, JobMoved: 3, CancelJob: 3, WakeUp: 4}
"""Order within the events of one instant; all others rank 1 and keep their order.

Ends come before submissions so that a new job sees the nodes that are free at its instant; a cancellation comes after
them because it may concern a job submitted at the same instant.
"""


def batch_rank(event: Event) -> int:
    """Sort key for the events of one instant (stable)."""
    return BATCH_RANK.get(type(event), 1)


# Effects: what the caller carries out, and answers with events --------------------------------------------------------


class StartJob(OfJob, frozen=True):
    """Start the job on ``nodes``, place 0 on the first; answered by ``JobStarted`` or ``JobEnded``.

    Attributes:
        job_id: Which job.
        nodes: Where.
        core_ids: Which cores of each of the nodes it may use, as bitsets of their ids; empty: all.
    """

    nodes: tuple[str, ...]
    core_ids: tuple[int, ...] = ()


class SendOrder(OfJob, frozen=True):
    """Order the job to resize, or to use other numbers of cores; answered by completed, failed, or deferred and one.

    Attributes:
        job_id: The job.
        order: Unique number of the order.
        kind: Grow, shrink, or workers: use these cores of the nodes from now on.
        nodes: Grow: the nodes to use, held for the job from now on. Shrink: the nodes that the scheduler would like
            back; the job chooses. Workers: all its nodes.
        count: How many nodes. Workers: the fewest cores of a node.
        core_ids: Which cores of each of the nodes, as bitsets of their ids.
    """

    order: int
    kind: OrderKind
    nodes: tuple[str, ...]
    count: int
    core_ids: tuple[int, ...] = ()


class KillJob(OfJob, frozen=True):
    """End the job, whatever it does; answered by ``JobEnded``."""

    reason: str


class WakeAt(_Message, frozen=True):
    """Report ``WakeUp`` at ``time_s`` of the scheduler's clock. A later one does not replace an earlier one."""

    time_s: float


class Refuse(OfJob, frozen=True):
    """Nothing comes of a submission (the job stays unknown), or of the evolving request of a job that holds nodes."""

    reason: str


class KeepNodes(_Message, frozen=True):
    """From the start of the reservation on, ``nodes`` are its jobs' only; these replace those named before."""

    name: str
    nodes: tuple[str, ...]


class NodeLeft(OfNode, frozen=True):
    """A node that was to leave the cluster is none of it any more: no job holds it."""


class RefuseReservation(_Message, frozen=True):
    """Nothing comes of a reservation that was asked for."""

    name: str
    reason: str


Effect: TypeAlias = StartJob | SendOrder | KillJob | WakeAt | Refuse | KeepNodes | NodeLeft | RefuseReservation


# Errors: each is a defect, of the core or of a policy, and never a job's fault ----------------------------------------


class InvariantError(RuntimeError):
    """The state contradicts itself; the text says where."""


class InfeasibleDecisionError(RuntimeError):
    """A policy decided what cannot be done; the text names the decision and the reason. Nothing of it was done."""


class InvalidTransitionError(RuntimeError):
    """The scheduler itself tried a step that the table does not have."""
