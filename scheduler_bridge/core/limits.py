"""A limit on the nodes that the jobs of one user hold together, under every policy.

What a policy must not do it is not shown: a job that would take its user above the limit is not in its queue, and a
malleable one appears with as many nodes at most as its user may still have. So whatever the policy decides for others
it decides as if that job had not been submitted yet: it holds no reservation, and no job waits for it [D, as Slurm does
with jobs that a limit of their QOS holds back].

Each job may be within the limit where several are not, so what the policy decides is judged, user by user, in the order
of the queue; what is too much is shown smaller, or not at all, and the policy decides again. A promise to a job counts
like a start, but for jobs of its user that end before it: so it is not broken by the limit later [D]. A job for which
running jobs are to shrink is judged as if it started now [D]: else they might shrink for a job that the limit lets no
policy start, or starts beside other promises only, grow again, and shrink again, without end.

A running malleable job does not grow while the limit holds other jobs of its user back, nor into what it leaves to one
that waits [D]: what a policy does for that one, and for a smaller one or none, might have no end. It is not shrunk for
them. For the same reason it does not grow after it has shrunk, before anything else has happened: what policies are
shown depends on what they decided, so a job may be there when others shrink for it, and gone when they have [D].
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from msgspec import structs

from scheduler_bridge.core.state import SchedulerState
from scheduler_bridge.core.tracked import TrackedJob
from scheduler_bridge.model import ClusterView, JobSpec, Reservation, wording
from scheduler_bridge.policies import Decision, Grow, Policy, PolicyError, Reserve, Share, Shrink, Stand, Start, in_full
from scheduler_bridge.policies.base import Around
from scheduler_bridge.policies.mistakes import MISTAKES, legible, makes_sense


def under(state: SchedulerState, policy: Policy) -> Policy:
    """What decides: the policy itself, or within the limit if there is one, and without its mistakes if those count."""
    if state.tolerant:
        policy = Tolerated(state, policy)
    return policy if state.settings.user_nodes is None else Limited(state, policy, state.settings.user_nodes)


def used(state: SchedulerState) -> Counter[str]:
    """The nodes that each user's jobs hold; a node counts for each job that holds it."""
    nodes: Counter[str] = Counter()
    for job in state.active.values():
        nodes[job.spec.user] += len(job.allocation)
    return nodes


def left(state: SchedulerState, job: TrackedJob) -> int:
    """How many nodes more the job's user may have."""
    limit, user = state.settings.user_nodes, job.spec.user
    if limit is None:
        return sys.maxsize
    return max(0, limit - sum([len(other.allocation) for other in state.active.values() if other.spec.user == user]))


@dataclass(frozen=True, slots=True)
class Tolerated(Around):
    """A policy whose mistakes cost a pass, and not the scheduler, on which running jobs rely."""

    state: SchedulerState
    policy: Policy

    def decide(self, view: ClusterView, now: float) -> list[Decision]:
        """Decide, or nothing if that fails, or makes no sense."""
        if self.state.script:
            return list(self.state.script.popleft())
        try:
            decided = self.policy.decide(view, now)
            if not makes_sense(decided) or not all(map(self._knows, decided)):
                raise PolicyError.nonsense(self.name, decided)
        except MISTAKES as error:
            said = error if isinstance(error, PolicyError) else PolicyError.raised(self.name, error)
            self.state.failure = str(said)
            decided = []
        self.state.answers.append(list(decided))
        return decided

    def why_waiting(self, view: ClusterView, job: JobSpec, reservation: Reservation | None) -> str:
        """What has failed, or else what the policy says."""
        try:
            return self.state.failure or legible(str(self.policy.why_waiting(view, job, reservation)))
        except MISTAKES as error:
            return str(PolicyError.raised(self.name, error))

    def _knows(self, decision: Decision) -> bool:
        """Whether it is about jobs that can be decided about."""
        match decision:
            case Stand():
                return True
            case Reserve():
                return decision.reservation.job_id in self.state.queue
            case Grow() | Shrink():
                return decision.job_id in self.state.active
            case _:
                mates = decision.mates if isinstance(decision, Share) else ()
                return decision.job_id in self.state.queue and self.state.active.keys() >= set(mates)


@dataclass(frozen=True, slots=True)
class Limited(Around):
    """A policy within the limit, the most nodes of a user."""

    state: SchedulerState
    policy: Policy
    limit: int

    def decide(self, view: ClusterView, now: float) -> list[Decision]:
        """Decide, and again with less to decide about until no user gets too much."""
        rooms = {user: self.limit - nodes for user, nodes in used(self.state).items()}
        caps: dict[int, int] = {}
        while True:
            shown = self._shown(view, rooms, caps)
            decisions = self.policy.decide(shown, now)
            found = self._judged(shown, in_full(decisions, shown.reservations), rooms, now)
            if all(caps.get(job_id, math.inf) <= most for job_id, most in found.items()):
                return decisions  # nothing is too much; or the policy does not heed what it is shown, and is refused
            caps.update(found)

    def why_waiting(self, view: ClusterView, job: JobSpec, reservation: Reservation | None) -> str:
        """The limit, or else what the policy says."""
        held = used(self.state)[job.user]
        if job.min_nodes > self.limit - held:
            of = f"its user's jobs have {wording.nodes(held)}" if held else "a user"
            return f"it needs {wording.nodes(job.min_nodes)}; {of}{' and' if held else ''} may have {self.limit}"
        return self.policy.why_waiting(view, job, reservation)

    def _shown(self, view: ClusterView, rooms: Mapping[str, int], caps: Mapping[int, int]) -> ClusterView:
        """The view with the jobs at most as large as they may become."""
        queue, behind, changed = [], set[str](), False
        for spec in view.queue:
            most = min(caps.get(spec.job_id, spec.max_nodes), rooms.get(spec.user, self.limit))
            if most >= spec.max_nodes:
                queue.append(spec)
                continue
            changed = True
            if most >= spec.min_nodes:
                queue.append(_smaller(spec, most, view))
            elif spec.min_nodes <= self.limit:
                behind.add(spec.user)
        running = []
        for job in view.running:
            user = job.spec.user
            stays = user in behind or job.spec.job_id in self.state.shrunk
            most = job.nodes + (0 if stays else max(0, rooms.get(user, self.limit)))
            most = min(job.max_nodes, max(job.nodes, min(most, caps.get(job.spec.job_id, most))))
            lower = most < job.max_nodes and job.spec.is_malleable
            changed = changed or lower
            running.append(structs.replace(job, max_nodes=most) if lower else job)
        if not changed:
            return view
        return replace(view.snapshot(), queue=tuple(queue), running=tuple(running))

    def _judged(
        self, view: ClusterView, decisions: Sequence[Decision], rooms: Mapping[str, int], now: float
    ) -> dict[int, int]:
        """The most nodes of the jobs that got too many, or were promised too many; by id."""
        claims: dict[str, list[_Claim]] = {}
        specs = {spec.job_id: (place, spec) for place, spec in enumerate(view.queue)}
        started = {decision.job_id: decision.nodes for decision in decisions if isinstance(decision, Start | Share)}
        shrinks = (decision for decision in decisions if isinstance(decision, Shrink))
        to_start = {job_id: nodes for shrink in shrinks for job_id, nodes in shrink.for_jobs}
        running = {job.spec.job_id: job for job in view.running}
        for job_id, nodes in (to_start | started).items():
            if job_id in specs:  # else it is refused
                place, spec = specs[job_id]
                claim = _Claim(place, job_id, nodes, end_s=now + view.walltime_s(spec, nodes))
                claims.setdefault(spec.user, []).append(claim)
        for decision in decisions:
            if isinstance(decision, Reserve):
                promise = decision.reservation
                if promise.job_id in to_start:
                    continue  # it is judged as if it started now
                place, spec = specs[promise.job_id]
                claim = _Claim(place, promise.job_id, promise.nodes, start_s=promise.start_s)
            elif isinstance(decision, Grow):
                job = running[decision.job_id]
                place, spec = len(specs), job.spec
                claim = _Claim(place, decision.job_id, decision.nodes, has=job.nodes, end_s=job.expected_end_s)
            else:
                continue
            claims.setdefault(spec.user, []).append(claim)
        waiting: dict[str, int] = {}
        for _, spec in specs.values():
            if spec.job_id not in started:
                waiting[spec.user] = max(spec.max_nodes, waiting.get(spec.user, 0))
        found: dict[int, int] = {}
        for user, of_user in claims.items():
            found.update(_excess(sorted(of_user), rooms.get(user, self.limit), waiting.get(user, 0)))
        return found


@dataclass(frozen=True, slots=True, order=True)
class _Claim:
    """Nodes that a job is to get now, until ``end_s`` at the latest, or, if it has ``start_s``, then."""

    place: int
    job_id: int
    nodes: int
    has: int = 0
    end_s: float = math.inf
    start_s: float | None = None


def _excess(claims: Sequence[_Claim], room: int, waiting: int) -> dict[int, int]:
    """Which of one user's claims, in their order, are too much beside those before them, and what would not be.

    Grows leave the nodes that a ``waiting`` job of the user may have at most.
    """
    promised: list[tuple[float, int]] = []
    found = {}
    for claim in claims:
        kept = sum([nodes for start_s, nodes in promised if claim.start_s is not None or claim.end_s > start_s])
        kept = max(kept, waiting) if claim.has else kept
        if claim.nodes > room - kept:
            found[claim.job_id] = claim.has + max(0, room - kept)
        elif claim.start_s is not None:
            promised.append((claim.start_s, claim.nodes))
        else:
            room -= claim.nodes
    return found


def _smaller(spec: JobSpec, most: int, view: ClusterView) -> JobSpec:
    """The job as if its user had asked for at most this number of nodes."""
    if spec.nodes <= most:
        return structs.replace(spec, max_nodes=most)
    return structs.replace(spec, nodes=most, max_nodes=most, walltime_s=view.walltime_s(spec, most))
