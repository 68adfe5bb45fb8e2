"""The scratch pad of one pass: what the components of a policy have decided so far."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from scheduler_bridge.model import ClusterView, JobSpec, Reservation, RunningJob
from scheduler_bridge.policies.decision import Decision, Grow, Reserve, Shrink, Start
from scheduler_bridge.policies.profile import Profile

Floor: TypeAlias = Callable[[JobSpec], int]
"""The size down to which running malleable jobs may be asked to shrink."""


class Plan:
    """Counts nodes while a pass decides; the view itself stays as it is.

    Nodes are in one of three piles: free now, being released (a shrink is under way), or held. ``soon`` counts the
    first two, less what is promised to jobs that wait for released nodes; ``usable`` is what may be used at once.

    Attributes:
        view: The cluster at the beginning of the pass.
        now: Time of the pass, in seconds.
        free: Free nodes that no decision of this pass uses.
        soon: Nodes that are free or about to be released, and promised to nobody.
        reservations: Those made in this pass, the first blocked job's first.
        spare: Nodes that jobs running beyond the reservation may still take.
    """

    def __init__(self, view: ClusterView, now: float) -> None:
        self.view = view
        self.now = now
        self.free = view.free_nodes
        self.soon = view.free_nodes + sum(job.releasing_nodes for job in view.running)
        self.reservations: list[Reservation] = []
        self.spare = 0
        self._starts: dict[int, tuple[JobSpec, int, str]] = {}
        self._resizes: dict[int, Grow | Shrink] = {}
        self._promised: set[int] = set()

    @property
    def reservation(self) -> Reservation | None:
        """The first blocked job's, once there is one."""
        return self.reservations[0] if self.reservations else None

    @property
    def usable(self) -> int:
        """Nodes that are free now and promised to nobody."""
        return max(0, min(self.free, self.soon))

    @property
    def started(self) -> Iterable[tuple[JobSpec, int]]:
        """The jobs started in this pass, with their sizes."""
        return [(spec, nodes) for spec, nodes, _ in self._starts.values()]

    def start(self, spec: JobSpec, nodes: int, reason: str) -> None:
        """Start a waiting job."""
        self.free -= nodes
        self.soon -= nodes
        self._starts[spec.job_id] = (spec, nodes, reason)

    def enlarge(self, spec: JobSpec, nodes: int, reason: str) -> None:
        """Let a job that starts in this pass start with ``nodes`` more: no order is sent."""
        _, before, why = self._starts[spec.job_id]
        self.start(spec, before + nodes, f"{why}; {reason}")
        self.free += before
        self.soon += before

    def grow(self, job: RunningJob, nodes: int, reason: str) -> None:
        """Give free nodes to a running job."""
        self.free -= nodes
        self.soon -= nodes
        self._resizes[job.spec.job_id] = Grow(job.spec.job_id, nodes, reason)

    def shrink(self, job: RunningJob, nodes: int, reason: str) -> None:
        """Take nodes from a running job, on top of what this pass takes from it already."""
        before = self._resizes.get(job.spec.job_id)
        if before is not None:
            nodes, reason = nodes + before.nodes, f"{before.reason}; {reason}"
            self.soon -= before.nodes
        self.soon += nodes
        self._resizes[job.spec.job_id] = Shrink(job.spec.job_id, nodes, reason)

    def promise(self, spec: JobSpec, nodes: int) -> None:
        """Keep ``nodes`` of those that are free or being released for a job that starts when they are all free."""
        self.soon -= nodes
        self._promised.add(spec.job_id)

    def is_promised(self, spec: JobSpec) -> bool:
        """Whether the job only waits for nodes that are being released."""
        return spec.job_id in self._promised

    def is_resized(self, job: RunningJob) -> bool:
        """Whether this pass resizes the job."""
        return job.spec.job_id in self._resizes

    def waiting(self, queue: Sequence[JobSpec]) -> list[JobSpec]:
        """The jobs of ``queue`` that this pass did not start, in its order."""
        return [spec for spec in queue if spec.job_id not in self._starts]

    def reserve(self, spec: JobSpec, nodes: int, *, floor: Floor | None) -> Reservation:
        """Find the earliest time at which ``nodes`` nodes are free if all walltimes hold.

        Nodes of jobs that end exactly then count, also as spare ones.

        Args:
            spec: The job to reserve for.
            nodes: How many nodes it needs.
            floor: Count nodes that malleable jobs hold above it as available from their next possible order on.
        """
        available = self.free + sum(job.releasing_nodes for job in self.view.running)
        releases = self._releases(floor)
        position, start_s = 0, self.now
        while position < len(releases) and (available < nodes or releases[position][0] <= start_s):
            start_s = max(self.now, releases[position][0])
            available += releases[position][1]
            position += 1
        return Reservation(spec.job_id, start_s if available >= nodes else math.inf, nodes, max(0, available - nodes))

    def profile(self) -> Profile:
        """The nodes free from now on if all walltimes hold; those about to be released count at once."""
        free = self.free + sum(job.releasing_nodes for job in self.view.running)
        return Profile(self.now, free, self._releases(None))

    def _releases(self, floor: Floor | None) -> list[tuple[float, int]]:
        """When which number of held nodes comes free, earliest first."""
        releases = [(self.now + spec.walltime_s, nodes) for spec, nodes, _ in self._starts.values()]
        for job in self.view.running:
            held = job.nodes - job.releasing_nodes
            if floor is not None and (reclaimable := job.reclaimable_nodes(floor(job.spec))) > 0:
                releases.append((max(self.now, job.resizable_from_s), reclaimable))
                held -= reclaimable
            releases.append((max(self.now, job.expected_end_s), held))
        releases.sort()
        return releases

    def admits(self, spec: JobSpec, nodes: int) -> bool:
        """Whether starting ``spec`` on ``nodes`` nodes now leaves the reservation as it is."""
        return nodes <= self.room(spec, nodes)

    def room(self, spec: JobSpec, nodes: int) -> int:
        """How many of ``nodes`` nodes ``spec`` may take now without delaying the reservation."""
        return self.room_until(self.now + spec.walltime_s, nodes)

    def room_until(self, end_s: float, nodes: int) -> int:
        """How many of ``nodes`` nodes may be taken now until ``end_s`` without delaying the reservation."""
        if self.reservation is None or end_s <= self.reservation.start_s:
            return nodes
        return min(nodes, max(0, self.spare))

    def charge(self, spec: JobSpec, nodes: int) -> None:
        """Note that ``spec`` takes ``nodes`` nodes, from the spare ones if it runs beyond the reservation."""
        self.charge_until(self.now + spec.walltime_s, nodes)

    def charge_until(self, end_s: float, nodes: int) -> None:
        """Note that ``nodes`` nodes are taken until ``end_s``."""
        if self.reservation is not None and end_s > self.reservation.start_s:
            self.spare -= nodes

    def decisions(self) -> list[Decision]:
        """All that was decided: the reservation, then starts, then resizes."""
        found: list[Decision] = [Reserve(reservation) for reservation in self.reservations]
        found += [Start(job_id, nodes, reason) for job_id, (_, nodes, reason) in self._starts.items()]
        found += self._resizes.values()
        return found
