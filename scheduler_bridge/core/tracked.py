"""A job as the scheduler core keeps it, the only mutable record of it, and its life as a transition table.

A job waits (queued), is ordered to start (starting), runs, and takes one order at a time (growing, shrinking,
adjusting: another number of cores). One whose processes have ended although it can go on is ordered to start anew. One
that is to share nodes waits for its mates to make room before it is ordered to start (claiming). Once it is ordered to
end (ending) nothing but its end counts: reports that cross the kill on their way change nothing. ``ready``, whether a
malleable handler is registered, is a flag beside the state, because handlers come and go during orders.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Literal

from msgspec import structs
from mypy_extensions import mypyc_attr

from scheduler_bridge.core.events import InvalidTransitionError, OrderKind, Outcome
from scheduler_bridge.model import Allocation, JobSpec, Reason, RunningJob
from scheduler_bridge.model.allocation import NOTHING


class JobState(StrEnum):
    """Where a job is in its life."""

    __hash__ = str.__hash__  # an Enum's own is slow, and these are looked up all the time

    QUEUED = "queued"
    CLAIMING = "claiming"
    STARTING = "starting"
    RUNNING = "running"
    GROWING = "growing"
    SHRINKING = "shrinking"
    ADJUSTING = "adjusting"
    ENDING = "ending"
    ENDED = "ended"


class Step(StrEnum):
    """What moves a job on: the scheduler's decisions and the job's reports."""

    __hash__ = str.__hash__

    CLAIM = "claim"
    RETURN = "return"
    START = "start"
    STARTED = "started"
    RESTART = "restart"
    GROW = "grow"
    SHRINK = "shrink"
    ADJUST = "adjust"
    RESIZED = "resized"
    KILL = "kill"
    END = "end"


HOLDING: Final = frozenset(JobState) - {JobState.QUEUED, JobState.ENDED}
"""The states in which a job holds nodes."""

LIVE: Final = HOLDING - {JobState.ENDING}
"""The states in which a job holds nodes and is not on its way out."""

UP: Final = LIVE - {JobState.CLAIMING, JobState.STARTING}
"""The states in which its processes run."""

RESIZING: Final = (JobState.GROWING, JobState.SHRINKING, JobState.ADJUSTING)
"""The states in which it has not answered its order."""

TRANSITIONS: Final[Mapping[tuple[JobState, Step], JobState]] = {
    (JobState.QUEUED, Step.START): JobState.STARTING,
    (JobState.QUEUED, Step.CLAIM): JobState.CLAIMING,
    (JobState.CLAIMING, Step.START): JobState.STARTING,
    (JobState.CLAIMING, Step.RETURN): JobState.QUEUED,  # a mate makes no room
    (JobState.STARTING, Step.STARTED): JobState.RUNNING,
    (JobState.RUNNING, Step.GROW): JobState.GROWING,
    (JobState.RUNNING, Step.SHRINK): JobState.SHRINKING,
    (JobState.RUNNING, Step.ADJUST): JobState.ADJUSTING,
    (JobState.RUNNING, Step.RESTART): JobState.STARTING,  # on the nodes that it holds
    **{(state, Step.RESIZED): JobState.RUNNING for state in RESIZING},  # done or failed
    **{(state, Step.KILL): JobState.ENDING for state in (JobState.STARTING, *UP)},
    # also one that waits or claims nodes, which is cancelled, and one whose start fails
    **{(state, Step.END): JobState.ENDED for state in JobState if state is not JobState.ENDED},
}


@mypyc_attr(allow_interpreted_subclasses=True, serializable=True)  # it is pickled; one goes with the other
@dataclass(slots=True)
class TrackedJob:
    """All that the core knows about a job. Nodes on order to arrive are part of the allocation already.

    It is no ``JobSpec``: it changes with each event, and only the core sees it.
    """

    spec: JobSpec
    state: JobState = JobState.QUEUED
    allocation: Allocation = NOTHING
    ready: bool = False
    order: PendingOrder | None = None
    max_nodes: int = 0
    """Its largest size now: below the one it was submitted with after it offered nodes back."""
    start_ordered_s: float | None = None
    started_s: float | None = None
    ended_s: float | None = None
    later_s: float = 0.0
    """How much later than by its walltime it is expected to end, for it runs or ran at other sizes than asked for."""
    bound: bool = True
    """Its walltime is the user's word: it is ordered to end when it is over."""
    resizable_from_s: float = 0.0
    kill: tuple[Outcome, str] | None = None
    outcome: Outcome | None = None
    reason: str = ""
    note: Reason = "submitted"
    starts: int = 0
    restarts: int = 0
    """How often it has begun again on its nodes. Its walltime goes on meanwhile."""
    turn: int = 0
    """Its place among the starts."""
    grows: int = 0
    shrinks: int = 0
    last_resize: Literal["grow", "shrink"] | None = None
    losses: int = 0
    """Nodes that it went on without; it may hold less than its minimum then."""
    place: int = 0
    """Where it waits, or would if it had to wait again, among the places of the other jobs."""
    keeps: int = 0
    """The ranks of nodes that are to leave the cluster, and that it released others for when it was asked for them."""
    lent: int = 0
    """The ranks of its nodes that are lent."""
    counted: int = 0
    """Nodes that the invariants have counted it with."""
    shares: Shares | None = None
    """What sharing nodes makes of it, if it ever did."""
    may_share: bool = True
    """All its nodes are among those that the policy lets jobs share."""
    seen: RunningJob | None = None
    """How policies saw it last; None once it has changed."""

    def step(self, step: Step) -> None:
        """Move on in the life cycle.

        Raises:
            InvalidTransitionError: The table has no such step.
        """
        if (after := TRANSITIONS.get((self.state, step))) is None:
            raise InvalidTransitionError(
                f"job {self.spec.job_id} is {self.state}, cannot {step}; "
                f"{len(self.allocation)} nodes, order {self.order}, last: {self.note}"
            )
        self.state = after
        self.seen = None

    @property
    def expected_end_s(self) -> float:
        """Start plus walltime, in seconds, as predicted for its sizes and sharing; at first from the decision on."""
        start_s = self.started_s if self.started_s is not None else self.start_ordered_s
        end_s = (start_s if start_s is not None else self.spec.submit_s) + self.spec.walltime_s + self.later_s
        return end_s if self.shares is None else end_s + self.shares.extension_s

    def view(self) -> RunningJob:
        """The job as a policy sees it: without the nodes that are lent."""
        if self.seen is None:
            order, started_s, lent = self.order, self.started_s, self.lent.bit_count()
            self.seen = RunningJob(  # by position, which is quicker
                self.spec,
                self.allocation.size - lent,
                started_s if started_s is not None else self.start_ordered_s or 0.0,
                self.expected_end_s,
                self.max_nodes - lent,
                self.ready and self.state in UP,
                self.resizable_from_s,
                order.kind if order else None,
                order.count - (order.ranks & self.lent).bit_count() if order else 0,
                order.deferred if order else False,
                self.last_resize,
                self.turn,
            )
            if (shares := self.shares) is not None:
                self.seen = structs.replace(
                    self.seen,
                    cores=shares.cores,
                    neighbours=shares.neighbours,
                    is_host=shares.is_host,
                    kept_nodes=shares.kept_nodes,
                )
            if not self.may_share:
                self.seen = structs.replace(self.seen, may_share=False)
        return self.seen


# Parts of a job: an order that it has not answered, and what sharing nodes makes of it --------------------------------


@mypyc_attr(allow_interpreted_subclasses=True, serializable=True)  # it is pickled; one goes with the other
@dataclass(slots=True)
class PendingOrder:
    """An order that the job has not answered yet.

    ``nodes``: to arrive, or (shrink) wished back; ``ranks``: theirs; ``count``: their number, or (workers) the fewest
    cores of a node that it is to use; ``core_ids``: (workers) which ones of each of the nodes, as bitsets;
    ``disturbed``: since it was given the job has lost nodes, or one that is lent was taken back from it, so that its
    failure says nothing of the job.
    """

    order: int
    kind: OrderKind
    nodes: tuple[str, ...]
    ranks: int
    count: int
    deferred: bool = False
    core_ids: tuple[int, ...] = ()
    disturbed: bool = False


@mypyc_attr(allow_interpreted_subclasses=True, serializable=True)  # it is pickled; one goes with the other
@dataclass(slots=True)
class Shares:
    """What sharing nodes makes of a job, or has made of it; see ``RunningJob``.

    Attributes:
        extension_s: How much longer than it asked for it may run, since sharing slows it down.
    """

    extension_s: float = 0.0
    cores: int | None = None
    neighbours: int = 0
    is_host: bool = True
    kept_nodes: int = 0
