"""An attempt to run a job: what whoever carries it out has to know."""

from __future__ import annotations

from dataclasses import dataclass

from scheduler_bridge.live.requests import JobRequest


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt to run a job.

    Attributes:
        job_id: Which job.
        number: How often it has been started, this time included.
        request: What was submitted.
        nodes: Where it runs.
        endpoint: Where its processes find the scheduler.
        core_ids: Which cores of each node it may use (bitsets of ids); none: all.
    """

    job_id: int
    number: int
    request: JobRequest
    nodes: tuple[str, ...]
    endpoint: str
    core_ids: tuple[int, ...] = ()

    @property
    def key(self) -> str:
        """Its name, by which its notes, its secret and its processes are found."""
        return attempt_key(self.job_id, self.number)


def attempt_key(job_id: int, number: int) -> str:
    """The name of an attempt."""
    return f"{job_id}.{number}"
