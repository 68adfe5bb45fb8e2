"""Jobs that come after others are kept back until these have ended, as the live scheduler does."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from scheduler_bridge.sim.models import SimJob


class Gate:
    """Keeps jobs back.

    Args:
        jobs: All jobs, in the order of submission.

    Attributes:
        free: Those that come after no other.

    Raises:
        ValueError: A job comes after one that there is not, or two have the same id.
    """

    def __init__(self, jobs: Iterable[SimJob]) -> None:
        self.free: deque[SimJob] = deque()
        self._kept: dict[int, SimJob] = {}
        self._missing: dict[int, set[int]] = {}
        self._followers: dict[int, list[int]] = {}
        there = set()
        for sim in jobs:
            job_id = sim.spec.job_id
            if job_id in there:
                raise ValueError(f"two jobs have the id {job_id}")
            there.add(job_id)
            before = set() if sim.after is None else {*sim.after.ok, *sim.after.any}
            if not before:
                self.free.append(sim)
                continue
            self._kept[job_id], self._missing[job_id] = sim, before
            for other in before:
                self._followers.setdefault(other, []).append(job_id)
        if unknown := self._followers.keys() - there:
            other = min(unknown)
            raise ValueError(f"job {self._followers[other][0]} comes after job {other}, which there is not")

    def ended(self, job_id: int, *, completed: bool, now: float) -> Iterator[tuple[float, SimJob, str]]:
        """A job has ended: yield when which jobs are submitted, and why they are cancelled at once, if they are."""
        for follower in self._followers.pop(job_id, ()):
            if (sim := self._kept.get(follower)) is None or sim.after is None:
                continue  # it has no hope any more
            self._missing[follower].discard(job_id)
            if not completed and job_id in sim.after.ok:
                del self._kept[follower]
                yield max(sim.spec.submit_s, now), sim, f"job {job_id} did not complete"
            elif not self._missing[follower]:
                del self._kept[follower]
                yield max(sim.spec.submit_s, now + sim.after.think_s), sim, ""

    def kept(self) -> Iterable[SimJob]:
        """Those that still wait for others."""
        return self._kept.values()
