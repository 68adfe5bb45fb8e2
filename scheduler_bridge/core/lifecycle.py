"""The life of a job in the scheduler, as a transition table.

A job waits (queued), is told to start (starting), runs, and takes one order at a time (growing, shrinking, adjusting:
another number of cores). One that is to share nodes waits for its mates to make room before it is told to start
(claiming). Once it is told to end (ending) nothing but its end counts: reports that cross the kill on their way change
nothing. ``ready``, whether a malleable handler is registered, is a flag beside the state, because handlers come and go
during orders.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final


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
    GROW = "grow"
    SHRINK = "shrink"
    ADJUST = "adjust"
    RESIZED = "resized"
    KILL = "kill"
    END = "end"


TRANSITIONS: Final[Mapping[tuple[JobState, Step], JobState]] = {
    (JobState.QUEUED, Step.START): JobState.STARTING,
    (JobState.QUEUED, Step.END): JobState.ENDED,  # cancelled while it waited
    (JobState.QUEUED, Step.CLAIM): JobState.CLAIMING,
    (JobState.CLAIMING, Step.START): JobState.STARTING,
    (JobState.CLAIMING, Step.RETURN): JobState.QUEUED,  # a mate makes no room
    (JobState.CLAIMING, Step.END): JobState.ENDED,  # cancelled meanwhile
    (JobState.STARTING, Step.STARTED): JobState.RUNNING,
    (JobState.STARTING, Step.KILL): JobState.ENDING,
    (JobState.STARTING, Step.END): JobState.ENDED,  # the start failed
    (JobState.RUNNING, Step.GROW): JobState.GROWING,
    (JobState.RUNNING, Step.SHRINK): JobState.SHRINKING,
    (JobState.RUNNING, Step.ADJUST): JobState.ADJUSTING,
    (JobState.RUNNING, Step.KILL): JobState.ENDING,
    (JobState.RUNNING, Step.END): JobState.ENDED,
    (JobState.GROWING, Step.RESIZED): JobState.RUNNING,  # done or failed
    (JobState.GROWING, Step.KILL): JobState.ENDING,
    (JobState.GROWING, Step.END): JobState.ENDED,
    (JobState.SHRINKING, Step.RESIZED): JobState.RUNNING,
    (JobState.SHRINKING, Step.KILL): JobState.ENDING,
    (JobState.SHRINKING, Step.END): JobState.ENDED,
    (JobState.ADJUSTING, Step.RESIZED): JobState.RUNNING,
    (JobState.ADJUSTING, Step.KILL): JobState.ENDING,
    (JobState.ADJUSTING, Step.END): JobState.ENDED,
    (JobState.ENDING, Step.END): JobState.ENDED,
}

HOLDING: Final = frozenset(JobState) - {JobState.QUEUED, JobState.ENDED}
"""The states in which a job holds nodes."""

LIVE: Final = HOLDING - {JobState.ENDING}
"""The states in which a job holds nodes and is not on its way out."""


def allows(state: JobState, step: Step) -> bool:
    """Whether the table has the step."""
    return (state, step) in TRANSITIONS
