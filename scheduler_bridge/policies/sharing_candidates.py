"""Which running jobs could share their nodes with a new job, and which of them suffer least."""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from scheduler_bridge.model import RunningJob

# Index of the candidates, by what they could give, by size and by end -------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """A running job that could share its nodes, with what does not depend on whom it shares them with.

    Attributes:
        job: The job.
        offer: The cores of each node that it could give.
        share: The part of a node's cores that it uses.
        wait_s: What it waited.
        increase_s: By how much it runs longer than it asked for, as it is.
    """

    job: RunningJob
    offer: int
    share: float
    wait_s: float
    increase_s: float

    def added_s(self, part: float, duration_s: float) -> float:
        """By how much later it ends if it gives this part of its nodes for so long [equation 6, for one more slot]."""
        return duration_s * part / self.share


def wait_s(job: RunningJob) -> float:
    """What the job waited, in seconds."""
    return job.start_s - job.spec.submit_s


def increase_s(job: RunningJob) -> float:
    """By how much the job runs longer than it asked for, as its end is predicted now, in seconds."""
    return max(0.0, job.expected_end_s - job.start_s - job.spec.walltime_s)


@dataclass(frozen=True)
class Terms:
    """Who is a candidate.

    Attributes:
        limit: A candidate's penalty stays below it.
        factor: The part of its cores that a candidate gives.
        cores_per_rank: The fewest cores of each node that a candidate keeps.
        jobs_per_node: How many jobs may share a node.
        all_cores: Cores of a node.
    """

    limit: float
    factor: float
    cores_per_rank: int
    jobs_per_node: int
    all_cores: int

    def candidate(self, job: RunningJob) -> Candidate | None:
        """The job as a candidate: on nodes of its own, which may be shared by more, and it takes orders if not now."""
        cores = self.all_cores if job.cores is None else job.cores
        offer = min(math.floor(self.factor * cores), cores - self.cores_per_rank)
        if offer < 1 or job.neighbours + 2 > self.jobs_per_node or not job.is_host:
            return None
        if not job.spec.is_malleable or not job.ready or job.order is not None or not job.may_share:
            return None
        waited_s, longer_s = wait_s(job), increase_s(job)
        if penalty(waited_s, longer_s, job.spec.walltime_s) >= self.limit:
            return None
        return Candidate(job, offer, cores / self.all_cores, waited_s, longer_s)


class Candidates:
    """All candidates: an index.

    It remembers which searches failed, of those whose outcome depends on nothing but the candidates and the time. Such
    a search fails for a longer time, too, since a candidate's end moves by at most ``factor`` of it, and it fails later
    on, until there is another candidate.

    Attributes:
        limit: The penalty of one that shares its nodes stays below it: that of the terms, or a lower one.
    """

    def __init__(self, terms: Terms) -> None:
        self._terms = terms
        self.limit = terms.limit
        self._known: dict[int, Candidate] = {}
        # and by size; who ends last is first
        self._by_offer: dict[int, dict[int, list[tuple[float, int, Candidate]]]] = {}
        self._sizes: Counter[int] = Counter()
        self._partners: dict[int, list[int]] = {}
        self._failed: dict[tuple[int, int], float] = {}

    def __len__(self) -> int:
        return len(self._known)

    def put(self, job_id: int, job: RunningJob | None) -> None:
        """Enter the job as it is now, or leave it out."""
        if (before := self._known.get(job_id)) is not None:
            if job is before.job:
                return
            self._drop(before)
        candidate = None if job is None else self._terms.candidate(job)
        if candidate is None:
            return
        nodes = candidate.job.nodes
        self._known[job_id] = candidate
        insort(self._by_offer.setdefault(candidate.offer, {}).setdefault(nodes, []), _entry(candidate))
        if self._sizes[nodes] < 2:  # the first one, or the first that has one like it
            self._partners.clear()
        self._sizes[nodes] += 1
        self._failed.clear()

    def _drop(self, candidate: Candidate) -> None:
        nodes, some = candidate.job.nodes, self._by_offer[candidate.offer]
        del self._known[candidate.job.spec.job_id]
        del some[nodes][bisect_left(some[nodes], _entry(candidate))]
        if not some[nodes]:
            del some[nodes]
        if not some:
            del self._by_offer[candidate.offer]
        self._sizes[nodes] -= 1
        if self._sizes[nodes] < 2:
            self._partners.clear()
        if not self._sizes[nodes]:
            del self._sizes[nodes]

    def without(self, job_ids: Collection[int]) -> Candidates:
        """The others."""
        made = Candidates(self._terms)
        made.limit = self.limit
        made._known = dict(self._known)
        made._by_offer = {o: {size: list(them) for size, them in some.items()} for o, some in self._by_offer.items()}
        made._sizes = self._sizes.copy()
        made._failed = dict(self._failed)
        for job_id in job_ids:
            made._drop(made._known[job_id])
        return made

    def lower(self, limit: float) -> None:
        """Let another limit hold from now on, not above that of the terms.

        Who is above it is never a candidate, for the penalty of one that shares is its own or more.
        """
        if limit > self.limit:
            self._failed.clear()
        self.limit = limit

    def __getitem__(self, job_id: int) -> Candidate:
        return self._known[job_id]

    @property
    def offers(self) -> list[int]:
        """What candidates below the limit can give, most first."""
        offers = sorted(self._by_offer, reverse=True)
        return offers if self.limit == self._terms.limit else [offer for offer in offers if self._has(offer)]

    def _has(self, offer: int) -> bool:
        """Whether a candidate below the limit can give so much."""
        for some in self._by_offer[offer].values():
            for _, _, candidate in some:
                if penalty(candidate.wait_s, candidate.increase_s, candidate.job.spec.walltime_s) < self.limit:
                    return True
        return False

    def partners(self, nodes: int) -> list[int]:
        """The sizes of candidates that have ``nodes`` nodes alone or together with another one."""
        if (found := self._partners.get(nodes)) is None:
            sizes = self._sizes
            found = [
                size
                for size, count in sizes.items()
                if size == nodes or (nodes - size in sizes and (2 * size != nodes or count > 1))
            ]
            self._partners[nodes] = found
        return found

    def mates(
        self, cores: int, duration_s: float, now: float, sizes: Collection[int] | None, most_nodes: int
    ) -> list[Mate]:
        """Those that could give ``cores`` cores for ``duration_s``: a new job ends before they do, and they bear it."""
        part, limit, end_s = cores / self._terms.all_cores, self.limit, now + duration_s
        longest_s = duration_s * self._terms.factor  # no job is delayed by more
        found = []
        for offer, by_size in self._by_offer.items():
            if offer < cores:
                continue
            for size in by_size if sizes is None else sizes:
                if size > most_nodes:
                    continue
                for _, job_id, candidate in by_size.get(size, ()):
                    job = candidate.job
                    if job.expected_end_s + longest_s < end_s:
                        break  # those that follow end still earlier
                    added_s = candidate.added_s(part, duration_s)
                    if end_s <= job.expected_end_s + added_s:
                        cost = penalty(candidate.wait_s, candidate.increase_s + added_s, job.spec.walltime_s)
                        if cost < limit:
                            found.append(Mate(job_id, size, cost))
        return found

    def fails(self, nodes: int, cores: int, duration_s: float) -> bool:
        """Whether it is known that no candidates fit."""
        known_s = self._failed.get((nodes, cores))
        return known_s is not None and duration_s >= known_s

    def note_failure(self, nodes: int, cores: int, duration_s: float) -> None:
        """Take down that no candidates fit."""
        self._failed[nodes, cores] = duration_s


class Slowdowns:
    """The slowdowns of the running jobs from requested times [2019 paper, section 3.2.2]: an index."""

    def __init__(self) -> None:
        self._turn_of: dict[int, int] = {}
        self._turns: list[tuple[int, int]] = []  # and ids: in order, for a sum depends on the order in its last digits
        self._values: list[float] = []

    def put(self, job_id: int, job: RunningJob | None) -> None:
        """Enter the job as it is now, or leave it out."""
        if (before := self._turn_of.pop(job_id, None)) is not None:
            position = bisect_left(self._turns, (before, job_id))
            del self._turns[position], self._values[position]
        if job is not None:
            position = bisect_left(self._turns, (job.turn, job_id))
            self._turns.insert(position, (job.turn, job_id))
            self._values.insert(position, penalty(wait_s(job), increase_s(job), job.spec.walltime_s))
            self._turn_of[job_id] = job.turn

    @property
    def mean(self) -> float:
        """Their mean; infinite if no job runs."""
        return sum(self._values) / len(self._values) if self._values else math.inf


def _entry(candidate: Candidate) -> tuple[float, int, Candidate]:
    return -candidate.job.expected_end_s, candidate.job.spec.job_id, candidate


# Choice of the mates: those that suffer least, with as many nodes as the new job needs --------------------------------


@dataclass(frozen=True, slots=True)
class Mate:
    """A running job that could give cores of all its nodes to a new one.

    Attributes:
        nodes: How many nodes it has: its weight [2019 paper, section 3.2.3].
        penalty: Its slowdown if it does, estimated from requested times [equation 4].
    """

    job_id: int
    nodes: int
    penalty: float


def penalty(wait_s: float, increase_s: float, requested_s: float) -> float:
    """The slowdown of a job that waited, and runs longer than it asked for, by that number of seconds [equation 4]."""
    return (wait_s + increase_s + requested_s) / requested_s


def choose(mates: Iterable[Mate], nodes: int, *, at_most: int, free_nodes: int = 0) -> tuple[Mate, ...]:
    """Choose the mates with the smallest sum of penalties whose nodes are exactly as many as needed [equations 1-3].

    Args:
        mates: The candidates; each is under the limit for penalties already.
        nodes: The nodes that the new job needs.
        at_most: How many mates it may have.
        free_nodes: How many free nodes may make up for missing ones; at least one mate gives its nodes all the same.

    Returns:
        The mates, smallest penalty first; none if no choice fits. Among equal choices, the one whose mates come
        first by penalty and id.
    """
    by_nodes = _useful(mates, nodes, at_most)
    if at_most == 2 and free_nodes == 0:
        return _pair(by_nodes, nodes)
    candidates = sorted([mate for some in by_nodes.values() for mate in some], key=_rank)
    best: tuple[float, tuple[Mate, ...]] = (math.inf, ())

    def extend(chosen: tuple[Mate, ...], first: int, missing: int, total: float) -> None:
        nonlocal best
        for index in range(first, len(candidates)):
            mate = candidates[index]
            if total + mate.penalty >= best[0]:
                return  # those that follow cost as much or more
            left = missing - mate.nodes
            if 0 <= left <= free_nodes:
                best = (total + mate.penalty, (*chosen, mate))
            elif left > 0 and len(chosen) + 1 < at_most:
                extend((*chosen, mate), index + 1, left, total + mate.penalty)

    if at_most > 0:
        extend((), 0, nodes, 0.0)
    return best[1]


def _rank(mate: Mate) -> tuple[float, int]:
    return mate.penalty, mate.job_id


def _useful(mates: Iterable[Mate], nodes: int, at_most: int) -> dict[int, list[Mate]]:
    """Leave out who can be in no best choice: of those with equally many nodes, only the first ``at_most`` can."""
    by_nodes: dict[int, list[Mate]] = {}
    for mate in mates:
        if mate.nodes <= nodes:
            by_nodes.setdefault(mate.nodes, []).append(mate)
    for size, some in by_nodes.items():
        if len(some) > 1:
            by_nodes[size] = sorted(some, key=_rank)[:at_most]
    return by_nodes


def _pair(by_nodes: Mapping[int, Sequence[Mate]], nodes: int) -> tuple[Mate, ...]:
    """The best choice of one or two, the usual case, without a search."""
    choices: list[tuple[Mate, ...]] = [(by_nodes[nodes][0],)] if nodes in by_nodes else []
    for size, some in by_nodes.items():
        other = by_nodes.get(nodes - size, ())
        if 2 * size < nodes and other:
            choices.append((some[0], other[0]) if _rank(some[0]) < _rank(other[0]) else (other[0], some[0]))
        elif 2 * size == nodes and len(some) > 1:
            choices.append((some[0], some[1]))
    return min(choices, key=lambda chosen: (sum([m.penalty for m in chosen]), [_rank(m) for m in chosen]), default=())
