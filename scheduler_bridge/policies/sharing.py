"""Backfilling that starts jobs on nodes of running ones, where both are better off so (SD-Policy)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Container, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from scheduler_bridge.model import Because, ClusterView, JobSpec, Reservation, RunningJob, wording
from scheduler_bridge.policies.backfill import IN_ORDER, too_few
from scheduler_bridge.policies.compose import StartSize
from scheduler_bridge.policies.mates import Mate, choose, penalty
from scheduler_bridge.policies.plan import Plan
from scheduler_bridge.policies.profile import Profile

DYNAMIC: Final = "dynamic"


@dataclass(frozen=True, slots=True)
class _Host:
    """A running job that could share its nodes, with what does not depend on whom it shares them with.

    Attributes:
        job: The job.
        wait_s: What it waited.
        increase_s: By how much it runs longer than it asked for, as it is.
        offer: The cores of each node that it could give.
        share: The part of a node's cores that it uses.
    """

    job: RunningJob
    wait_s: float
    increase_s: float
    offer: int
    share: float


class _Market:
    """The hosts of a pass that no newcomer has chosen yet.

    Args:
        limit: For penalties.
        hosts: Who ends last comes first.

    Attributes:
        offers: What hosts can give, most first.
    """

    def __init__(self, limit: float, hosts: list[_Host]) -> None:
        self.limit = limit
        self.hosts = hosts
        self._count()

    def _count(self) -> None:
        self.offers = sorted({host.offer for host in self.hosts}, reverse=True)
        self._sizes = Counter(host.job.nodes for host in self.hosts)
        self._pairs: dict[int, bool] = {}

    def has_pair(self, nodes: int) -> bool:
        """Whether there are one or two hosts with as many nodes."""
        if (found := self._pairs.get(nodes)) is None:
            sizes = self._sizes
            found = nodes in sizes or any(
                nodes - size in sizes and (2 * size != nodes or count > 1) for size, count in sizes.items()
            )
            self._pairs[nodes] = found
        return found

    def remove(self, job_ids: Container[int]) -> None:
        """Take hosts out."""
        self.hosts = [host for host in self.hosts if host.job.spec.job_id not in job_ids]
        self._count()


@dataclass(frozen=True, slots=True)
class Sharing:
    """Starts every job that can start beside the reservations of those before it; if not, on nodes of running jobs.

    A job that cannot start by itself starts on nodes of mates if by the estimates it ends earlier than if it waited.
    The estimates are those of the worst model: a job is as fast as on the node where it has the fewest cores. Each mate
    gives the same number of cores of all its nodes, and gets them back when the new job ends.

    [D] The reservations of a pass are made anew from walltimes, and mates' delays push those behind them back.

    Attributes:
        limit: A mate's penalty stays below it (MAX_SLOWDOWN); None: below the mean slowdown of the running jobs.
        factor: The part of a mate's cores that it gives (SharingFactor).
        cores_per_rank: A mate keeps at least so many cores of each node.
        mates: How many mates a job has at most (m).
        considered: Only so many candidates are looked at, those with the smallest penalties (nm); 0: all.
        free_nodes: Free nodes may make up for missing ones.
        jobs_per_node: How many jobs may share a node.
        tested: So many waiting jobs are looked at in a pass, as in Slurm.
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
        market: _Market | None = None
        reason = IN_ORDER
        for spec in islice(queue, self.tested):
            need = size.need(spec, plan.view.total_nodes)
            if profile is None and need <= plan.usable:
                plan.start(spec, need, reason)  # nobody is in its way
                continue
            profile = profile or plan.profile()
            start_s = profile.earliest(need, spec.walltime_s)
            if start_s <= plan.now and need <= plan.usable:
                plan.start(spec, need, reason)
                profile.take(plan.now, plan.now + spec.walltime_s, need)
                continue
            if spec.is_malleable and plan.view.cores_per_node > 1:
                if market is None:
                    limit = self._limit(plan.view)
                    market = _Market(limit, self._hosts(plan, limit))
                if market.hosts and self._share(plan, profile, spec, need, start_s, market):
                    continue
            reason = "backfilled: it delays nobody's reservation"
            if math.isfinite(start_s):
                spare = profile.take(start_s, start_s + spec.walltime_s, need)
                plan.reservations.append(Reservation(spec.job_id, start_s, need, max(0, spare)))

    def _hosts(self, plan: Plan, limit: float) -> list[_Host]:
        """The running jobs that could be mates now: on nodes of their own, which not too many share yet."""
        found = []
        all_cores = plan.view.cores_per_node
        for job in plan.view.running:
            cores = all_cores if job.cores is None else job.cores
            offer = min(math.floor(self.factor * cores), cores - self.cores_per_rank)
            if offer < 1 or job.neighbours + 2 > self.jobs_per_node or not job.is_host:
                continue
            if not job.spec.is_malleable or not job.takes_orders(plan.now):
                continue
            wait_s, increase_s = _wait_s(job), _increase_s(job)
            if penalty(wait_s, increase_s, job.spec.walltime_s) < limit:
                found.append(_Host(job, wait_s, increase_s, offer, cores / all_cores))
        return sorted(found, key=lambda host: -host.job.expected_end_s)

    def _limit(self, view: ClusterView) -> float:
        """MAX_SLOWDOWN, or DynAVGSD: the mean slowdown of the running jobs from requested times [section 3.2.2]."""
        if self.limit is not None:
            return self.limit
        slowdowns = [penalty(_wait_s(job), _increase_s(job), job.spec.walltime_s) for job in view.running]
        return sum(slowdowns) / len(slowdowns) if slowdowns else math.inf

    def _share(
        self, plan: Plan, profile: Profile, spec: JobSpec, need: int, static_start_s: float, market: _Market
    ) -> bool:
        """Start ``spec`` with mates if it ends earlier so than if it waited; return whether it starts."""
        all_cores, static_end_s = plan.view.cores_per_node, static_start_s + spec.walltime_s
        free_nodes = plan.usable if self.free_nodes else 0
        least, cores, mates = math.inf, 0, tuple[Mate, ...]()
        if self.mates == 2 and free_nodes == 0 and not market.has_pair(need):
            return False
        for offer in market.offers:
            duration_s = spec.walltime_s * all_cores / offer
            if plan.now + duration_s >= static_end_s:
                break  # with fewer cores it takes longer still
            candidates = self._candidates(plan, market, need, offer, duration_s)
            if not candidates:
                continue
            found = choose(candidates, need, at_most=self.mates, free_nodes=free_nodes)
            if found and (total := sum([mate.penalty for mate in found])) < least:
                least, cores, mates = total, offer, found
        if mates:
            end_s = plan.now + spec.walltime_s * all_cores / cores
            names = " and ".join(f"job {mate.job_id}" for mate in mates)
            story = "{} of {} cores of each node of {}: it ends at {:g} s, not at {:g} s"
            reason = Because(story, (cores, all_cores, names, end_s, static_end_s))
            free = need - sum([mate.nodes for mate in mates])
            plan.share(spec, tuple(mate.job_id for mate in mates), need, free, cores, reason)
            profile.take(plan.now, end_s, free)
            self._delay(plan, profile, {mate.job_id for mate in mates}, cores, end_s, market)
        return bool(mates)

    @staticmethod
    def _delay(plan: Plan, profile: Profile, mates: set[int], cores: int, end_s: float, market: _Market) -> None:
        """Take the mates from the market; their nodes come free later."""
        for host in [host for host in market.hosts if host.job.spec.job_id in mates]:
            added_s = _added_s(host, cores, plan.view.cores_per_node, end_s - plan.now)
            profile.take(host.job.expected_end_s, host.job.expected_end_s + added_s, host.job.nodes)
        market.remove(mates)

    def _candidates(self, plan: Plan, market: _Market, need: int, cores: int, duration_s: float) -> list[Mate]:
        """Those that could give so many cores for so long: the new job ends before they do, and they bear it."""
        all_cores, end_s, limit = plan.view.cores_per_node, plan.now + duration_s, market.limit
        longest_s = duration_s * self.factor  # nobody is delayed by more
        found = []
        for host in market.hosts:
            job = host.job
            if job.expected_end_s + longest_s < end_s:
                break  # those that follow end still earlier
            if host.offer < cores or job.nodes > need:
                continue
            added_s = _added_s(host, cores, all_cores, duration_s)
            if end_s <= job.expected_end_s + added_s:
                cost = penalty(host.wait_s, host.increase_s + added_s, job.spec.walltime_s)
                if cost < limit:
                    found.append(Mate(job.spec.job_id, job.nodes, cost))
        if self.considered:
            found = sorted(found, key=lambda mate: (mate.penalty, mate.job_id))[: self.considered]
        return found

    def why(self, need: int, view: ClusterView, reservation: Reservation | None, job: JobSpec) -> str:
        """Too few nodes, and nobody to share some with."""
        text = too_few(need, view, reservation)
        if need <= view.free_nodes and reservation is not None and reservation.job_id != job.job_id:
            text = f"it would delay others: {reservation}, {wording.are(reservation.spare_nodes)} spare"
        if not job.is_malleable or view.cores_per_node == 1:
            return text
        return f"{text}; no running jobs that could share nodes with it would let it end earlier, at a bearable cost"


def _wait_s(job: RunningJob) -> float:
    return job.start_s - job.spec.submit_s


def _increase_s(job: RunningJob) -> float:
    """By how much the job runs longer than it asked for, as its end is predicted now."""
    return max(0.0, job.expected_end_s - job.start_s - job.spec.walltime_s)


def _added_s(host: _Host, cores: int, all_cores: int, duration_s: float) -> float:
    """By how much later a mate ends if it gives so many cores for so long [equation 6, for one more slot]."""
    return duration_s * (cores / all_cores) / host.share
