"""SD-Policy."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import islice
from typing import Final

from scheduler_bridge.model import Because, ClusterView, JobSpec, NodeFilter, Reservation, wording
from scheduler_bridge.policies.backfill import IN_ORDER, too_few
from scheduler_bridge.policies.base import Policy, Share
from scheduler_bridge.policies.compose import ComposedPolicy, OnlyPreferred, StartSize, by_submission
from scheduler_bridge.policies.plan import Plan
from scheduler_bridge.policies.profile import Profile
from scheduler_bridge.policies.registry import InvalidParameterError, register
from scheduler_bridge.policies.sharing_candidates import Candidates, Mate, Slowdowns, Terms, choose


@register
def sd_policy(
    max_slowdown: str = "10",
    sharing_factor: float = 0.5,
    mates: int = 2,
    considered: int = 0,
    free_nodes: str = "no",
    jobs_per_node: int = 2,
    nodes: str = "*",
    cores_per_rank: int = 1,
    tested: int = 100,
) -> Policy:
    """SD-Policy: backfilling, and jobs that would wait share the nodes of running jobs if they end earlier so.

    Every job is first tried by itself: it starts if that delays no reservation of the jobs before it. A malleable job
    that cannot start looks for mates: running malleable jobs, at most ``mates``, whose nodes are exactly as many as it
    needs, with the smallest sum of penalties. A penalty is (wait + increase + requested time) / requested time, below
    MAX_SLOWDOWN. Each mate gives the new job ``sharing_factor`` of the cores of each of its nodes, keeps at least one
    per rank, and gets them back when the new job ends; if a mate ends first, the new job takes its cores. The new job
    starts so only if it ends earlier than if it waited, and before its mates.

    Parameters: ``max_slowdown``: the limit for penalties, a number, inf, or dynamic (the mean slowdown of the running
    jobs from requested times). ``sharing_factor``, ``mates`` (m). ``considered`` (nm): how many candidates are looked
    at, those with the smallest penalties; 0: all. ``free_nodes``: yes lets free nodes make up for missing ones.
    ``jobs_per_node``: how many jobs share a node. ``nodes``: which nodes jobs may share, by name: patterns such as big*
    or n00[0-3]?, with commas between; who has others, too, is no mate. ``cores_per_rank``: what a mate keeps of each
    node. ``tested``: waiting jobs looked at in a pass.

    Source: D'Amico, Jokanovic, Corbalan, "Holistic Slowdown Driven Scheduling and Resource Management for Malleable
    Jobs", ICPP 2019, section 3, listings 1 to 3.
    [D] The estimates use the worst model of section 3.4, and a job's end is when the sum of elapsed time x rate is its
    requested time: equations 5 and 6 as printed give totals. [D] A mate's increase counts what sharing has cost it
    before. [D] The new job may end with its mates as slowed down by it, not later. [D] Malleable jobs run on as many
    nodes as they ask for; cores are what moves. [D] Only a job on nodes of its own can be a mate; of a node that two
    share already, the first one gives. [D] The reservations before a job are made anew in every pass, from walltimes;
    the mates' delays may push them back. [D] The paper filters nodes by what a job asks of them: name, architecture,
    memory, network. Here jobs ask for numbers of nodes, so the filter is the site's, by names. [D] Ties go to the
    smaller penalty and then the smaller job id. It needs to know the cores of a node.
    """
    try:
        limit = None if max_slowdown == DYNAMIC else float(max_slowdown)
    except ValueError:
        raise InvalidParameterError(
            f"sd-policy: max_slowdown is {max_slowdown!r}, must be a number or dynamic"
        ) from None
    if free_nodes not in ("yes", "no"):
        raise InvalidParameterError(f"sd-policy: free_nodes is {free_nodes!r}, must be yes or no")
    if not 0 < sharing_factor < 1:
        raise InvalidParameterError(f"sd-policy: sharing_factor is {sharing_factor}, must be between 0 and 1")
    try:
        shared = NodeFilter.parse(nodes)
    except ValueError as error:
        raise InvalidParameterError(f"sd-policy: nodes: {error}") from None
    for name, value, least in (
        ("mates", mates, 1),
        ("considered", considered, 0),
        ("jobs_per_node", jobs_per_node, 1),
        ("cores_per_rank", cores_per_rank, 1),
        ("tested", tested, 1),
    ):
        if value < least:
            raise InvalidParameterError(f"sd-policy: {name} is {value}, must be at least {least}")
    sharing = Sharing(
        limit, sharing_factor, cores_per_rank, mates, considered, free_nodes == "yes", jobs_per_node, tested
    )
    return ComposedPolicy(
        "sd-policy", by_submission, sharing, OnlyPreferred(), jobs_per_node=jobs_per_node, shared_nodes=shared
    )


# Backfilling onto the nodes of running jobs ---------------------------------------------------------------------------

DYNAMIC: Final = "dynamic"


@dataclass(frozen=True, slots=True)
class Sharing:
    """Starts every job that can start beside the reservations of those before it; if not, on nodes of running jobs.

    A job that cannot start by itself starts on nodes of mates if by the estimates it ends earlier than if it waited.
    The estimates are those of the worst model: a job is as fast as on the node where it has the fewest cores. Each mate
    gives the same number of cores of all its nodes, and gets them back when the new job ends.

    [D] The reservations of a pass are made anew from walltimes, and mates' delays push those behind them back.

    Attributes:
        limit: A mate's penalty stays below it (MAX_SLOWDOWN); None: below the mean slowdown of the running jobs
            (DynAVGSD).
        factor: The part of a mate's cores that it gives (SharingFactor).
        cores_per_rank: A mate keeps at least this number of cores of each node.
        mates: How many mates a job has at most (m).
        considered: How many candidates are looked at, those with the smallest penalties (nm); 0: all.
        free_nodes: Free nodes may make up for missing ones.
        jobs_per_node: How many jobs may share a node.
        tested: The number of waiting jobs that a pass looks at, as in Slurm.
    """

    limit: float | None
    factor: float
    cores_per_rank: int
    mates: int
    considered: int
    free_nodes: bool
    jobs_per_node: int
    tested: int

    def start(self, plan: Plan, queue: Sequence[JobSpec], size: StartSize) -> None:
        """Try each job by itself, then with mates; what still waits gets a reservation [listing 1]."""
        profile: Profile | None = None
        candidates: Candidates | None = None
        reason = IN_ORDER
        for spec in islice(queue, self.tested):
            need = size.need(spec, plan.view.total_nodes)
            if profile is None and need <= plan.usable:
                plan.start(spec, need, reason)  # no other job is in its way
                continue
            profile = profile or plan.profile()
            start_s = profile.earliest(need, spec.walltime_s)
            if start_s <= plan.now and need <= plan.usable:
                plan.start(spec, need, reason)
                profile.take(plan.now, plan.now + spec.walltime_s, need)
                continue
            if spec.is_malleable and plan.view.cores_per_node > 1:
                candidates = self._candidates(plan) if candidates is None else candidates
                if mates := self._share(plan, profile, spec, need, start_s, candidates):
                    candidates = candidates.without([mate.job_id for mate in mates])
                    continue
            reason = "backfilled: it delays no reservation"
            if math.isfinite(start_s):
                spare = profile.take(start_s, start_s + spec.walltime_s, need)
                plan.reservations.append(Reservation(spec.job_id, start_s, need, max(0, spare)))

    def _candidates(self, plan: Plan) -> Candidates:
        """The running jobs that could be mates now."""
        view = plan.view
        limit = view.index(Slowdowns).mean if self.limit is None else self.limit
        if not view.paused(plan.now):
            candidates = view.index(_index(self, math.inf if self.limit is None else limit, view.cores_per_node))
            candidates.lower(limit)
            return candidates
        candidates = Candidates(self.terms(limit, view.cores_per_node))
        for job in view.running:
            if job.takes_orders(plan.now):
                candidates.put(job.spec.job_id, job)
        return candidates

    def terms(self, limit: float, all_cores: int) -> Terms:
        """Who may be a mate if penalties stay below ``limit`` and nodes have ``all_cores`` cores."""
        return Terms(limit, self.factor, self.cores_per_rank, self.jobs_per_node, all_cores)

    def _share(
        self, plan: Plan, profile: Profile, spec: JobSpec, need: int, static_start_s: float, candidates: Candidates
    ) -> tuple[Mate, ...]:
        """Start ``spec`` with mates if it ends earlier so than if it waited; return them."""
        all_cores, static_end_s = plan.view.cores_per_node, static_start_s + spec.walltime_s
        free_nodes = plan.usable if self.free_nodes else 0
        least, cores, mates = math.inf, 0, tuple[Mate, ...]()
        for offer in candidates.offers:
            duration_s = spec.walltime_s * all_cores / offer
            if plan.now + duration_s >= static_end_s:
                break  # with fewer cores it takes longer still
            found = self._search(candidates, need, offer, duration_s, plan.now, free_nodes)
            if found and (total := sum([mate.penalty for mate in found])) < least:
                least, cores, mates = total, offer, found
        if mates:
            end_s = plan.now + spec.walltime_s * all_cores / cores
            names = " and ".join(f"job {mate.job_id}" for mate in mates)
            story = "{} of {} cores of each node of {}: it ends at {:.10g} s, not at {:.10g} s"
            reason = Because(story, (cores, all_cores, names, round(end_s, 1), round(static_end_s, 1)))
            free = need - sum([mate.nodes for mate in mates])
            plan.share(Share(spec.job_id, need, tuple(mate.job_id for mate in mates), cores, free, reason))
            profile.take(plan.now, end_s, free)
            for mate in mates:  # their nodes come free later
                mate_end_s = candidates[mate.job_id].job.expected_end_s
                added_s = candidates[mate.job_id].added_s(cores / all_cores, end_s - plan.now)
                profile.take(mate_end_s, mate_end_s + added_s, mate.nodes)
        return mates

    def _search(
        self, candidates: Candidates, need: int, cores: int, duration_s: float, now: float, free_nodes: int
    ) -> tuple[Mate, ...]:
        """The best mates that give ``cores`` cores for ``duration_s``, if there are any."""
        pairs = self.mates == 2 and free_nodes == 0
        if pairs and not candidates.partners(need):
            return ()
        remembers = pairs and not self.considered
        if remembers and candidates.fails(need, cores, duration_s):
            return ()
        sizes = candidates.partners(need) if remembers else None
        mates = candidates.mates(cores, duration_s, now, sizes, need)
        if self.considered:
            mates = sorted(mates, key=lambda mate: (mate.penalty, mate.job_id))[: self.considered]
        found = choose(mates, need, at_most=self.mates, free_nodes=free_nodes)
        if remembers and not found:
            candidates.note_failure(need, cores, duration_s)
        return found

    def why(self, need: int, view: ClusterView, reservation: Reservation | None, job: JobSpec) -> str:
        """Too few nodes, and no job to share some with."""
        text = too_few(need, view, reservation)
        if need <= view.free_nodes and reservation is not None and reservation.job_id != job.job_id:
            text = f"it would delay others: {reservation}, {wording.are(reservation.spare_nodes)} spare"
        if not job.is_malleable or view.cores_per_node == 1:
            return text
        return f"{text}; no running jobs that could share nodes with it would let it end earlier, at a bearable cost"


@cache
def _index(sharing: Sharing, limit: float, all_cores: int) -> Callable[[], Candidates]:
    return partial(Candidates, sharing.terms(limit, all_cores))
