"""Starting jobs on nodes of others: mates make room, the newcomer starts, and what comes free goes to the host.

A newcomer claims the nodes of its mates; each is ordered to use fewer cores. When all have done so, the newcomer is
ordered to start. If one of them cannot, or ends first, the newcomer waits again, and the others get their cores back.
Cores that a job is ordered to take are its when it has taken them; no other job is given them meanwhile.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from scheduler_bridge.core.events import Effect, StartJob
from scheduler_bridge.core.node_sharing import Change, Claim
from scheduler_bridge.core.state import SchedulerState
from scheduler_bridge.core.tracked import LIVE, JobState, PendingOrder, Step, TrackedJob
from scheduler_bridge.model import Allocation, Because, Reason, wording
from scheduler_bridge.model.allocation import highest, listed, members
from scheduler_bridge.policies import Share


def infeasible(state: SchedulerState, decision: Share, now: float) -> str:
    """Why the decision cannot be carried out; empty if it can."""
    job = state.queue.get(decision.job_id)
    mates = [state.active.get(mate) for mate in decision.mates]
    if job is None or not job.spec.is_malleable:
        return "the job is not waiting, or rigid"
    if not mates or len(set(decision.mates)) < len(mates) or decision.cores < 1:
        return "no mates, or no cores"
    sharing = state.sharing
    nodes = decision.free_nodes
    for mate in mates:
        if mate is None or not mate.spec.is_malleable or not mate.view().takes_orders(now):
            return "a mate takes no orders"
        job_id = mate.spec.job_id
        if not sharing.is_host(job_id) or sharing.fewest(job_id) <= decision.cores:
            return f"job {job_id} cannot give that number of cores"
        if not mate.may_share:
            return f"jobs may share {', '.join(sharing.nodes.patterns)}; job {job_id} has others"
        if max([len(stack.cores) for stack in sharing.of(job_id)], default=1) >= sharing.jobs_per_node:
            return f"{sharing.jobs_per_node} jobs may share a node"
        nodes += len(mate.allocation)
    if nodes != decision.nodes or not job.spec.min_nodes <= nodes <= job.spec.max_nodes:
        return f"the mates and the free nodes are {nodes}"
    if not 0 <= decision.free_nodes <= state.pool.free:
        return f"{state.pool.free} nodes are free"
    return ""


def claim(state: SchedulerState, decision: Share, now: float) -> list[Effect]:
    """Order the mates of a feasible decision to make room for the newcomer."""
    job, mates = state.queue.pop(decision.job_id), [state.jobs[mate] for mate in decision.mates]
    state.reservations.pop(decision.job_id, None)
    job_id = decision.job_id
    job.step(Step.CLAIM)
    job.starts, job.start_ordered_s = 1, now
    state.sharing.claims[job_id] = Claim(decision.cores, set(decision.mates), decision.mates, decision.reason)
    chunks, effects = [], []
    for mate in mates:
        chunks.append(mate.allocation.ranks)
        state.pool.share(job_id, mate.allocation.ranks)
        stacks = state.sharing.join(job_id, mate)
        room = [Change(s, highest(s.cores[mate.spec.job_id], decision.cores), takes=False) for s in stacks]
        effects += _send(state, mate, room, Because("makes room for job {} on its nodes", (job_id,)))
    if decision.free_nodes:
        chunks.append(state.pool.take(job_id, decision.free_nodes))
    job.allocation = Allocation(tuple(chunks))
    job.note = Because("waits for {} to make room", (" and ".join(f"job {mate}" for mate in decision.mates),))
    state.activate(job)
    _unsettle(state, (job_id, *decision.mates))
    state.note(job)
    return effects


def _send(state: SchedulerState, job: TrackedJob, changes: list[Change], reason: Reason) -> list[Effect]:
    state.sharing.ordered[job.spec.job_id] = changes
    ids = core_ids(state, job, changes)
    count, all_cores, which = min([cores.bit_count() for cores in ids]), state.sharing.all_cores, _which(ids, " ({})")
    note = Because("ordered to use {} of {} cores of each node{}: {}", (count, all_cores, which, reason))
    return state.send(job, "workers", job.allocation, count, note, ids)


def core_ids(state: SchedulerState, job: TrackedJob, changes: Sequence[Change] = ()) -> tuple[int, ...]:
    """The cores of each of a job's nodes, in the order of its allocation, after ``changes``."""
    by_rank = {rank: cores for ranks, cores in state.sharing.per_node(job, changes) for rank in members(ranks)}
    return tuple([by_rank[rank] for chunk in job.allocation.chunks for rank in members(chunk)])


def _which(ids: tuple[int, ...], text: str) -> str:
    """Name the cores of each node, if they are the same ones."""
    return text.format(listed(ids[0])) if len(set(ids)) == 1 else ""


def takes(state: SchedulerState, job: TrackedJob) -> bool:
    """Whether the job is ordered to use more cores."""
    return any(change.takes for change in state.sharing.ordered.get(job.spec.job_id, ()))


def adjusted(state: SchedulerState, job: TrackedJob, order: PendingOrder, now: float) -> list[Effect]:
    """The job uses the cores that it was ordered to; if it was the last to make room, the newcomer starts."""
    sharing, job_id = state.sharing, job.spec.job_id
    for change in sharing.ordered.pop(job_id, ()):
        sharing.change(job_id, change)
    which = _which(order.core_ids, " ({})")
    job.note = Because("uses {} of {} cores of each node{}", (order.count, sharing.all_cores, which))
    _unsettle(state, (job_id,))
    for newcomer, waiting in sharing.claims.items():
        if job_id in waiting.waits_for:
            waiting.waits_for.discard(job_id)
            return [] if waiting.waits_for else _start(state, state.jobs[newcomer], waiting, now)
    return []


def _start(state: SchedulerState, job: TrackedJob, waiting: Claim, now: float) -> list[Effect]:
    sharing, job_id = state.sharing, job.spec.job_id
    del sharing.claims[job_id]
    sharing.seat(job_id, waiting.cores)
    job.step(Step.START)
    job.start_ordered_s = now
    state.expect(job)
    start = start_of(state, job)
    mates = " and ".join(f"job {mate}" for mate in waiting.mates)
    which = _which(start.core_ids, " (cores {} of each)")
    job.note = Because("started on {} with {}{}: {}", (wording.nodes(len(start.nodes)), mates, which, waiting.reason))
    _unsettle(state, (job_id, *waiting.mates))
    state.note(job)
    return [start]


def start_of(state: SchedulerState, job: TrackedJob) -> StartJob:
    """Return the order to start a job, perhaps anew, on the nodes and cores that are its own."""
    job_id, nodes = job.spec.job_id, state.pool.name(job.allocation)
    return StartJob(job_id, nodes, core_ids(state, job) if state.sharing.of(job_id) else ())


def refused(state: SchedulerState, job: TrackedJob, reason: str) -> None:
    """The job goes on with the cores that it had; if it was to make room, the newcomer waits again."""
    job_id = job.spec.job_id
    state.sharing.ordered.pop(job_id, None)
    _unsettle(state, (job_id,))
    for newcomer, waiting in list(state.sharing.claims.items()):
        if job_id in waiting.mates:
            abandon(state, state.jobs[newcomer], f"job {job_id} makes no room: {reason or 'no reason given'}")


def left(state: SchedulerState, job: TrackedJob, ranks: int) -> None:
    """A job is about to give back nodes; what others may use of them becomes theirs, and claims on them are void."""
    sharing, job_id = state.sharing, job.spec.job_id
    if (own := sharing.claims.pop(job_id, None)) is not None:
        _unsettle(state, own.mates)
    beside = sharing.connected((job_id,)) if ranks != job.allocation.ranks else ()
    for newcomer, waiting in list(sharing.claims.items()):
        if job_id in waiting.mates or newcomer in beside:
            abandon(state, state.jobs[newcomer], f"job {job_id} gives nodes back")
    _unsettle(state, sharing.leave(job_id, ranks))
    if ranks == job.allocation.ranks:
        sharing.ordered.pop(job_id, None)
        sharing.forget(job_id)
        sharing.unsettled.discard(job_id)


def abandon(state: SchedulerState, job: TrackedJob, reason: str) -> None:
    """Put a newcomer whose mates have not all made room back into its place in the queue."""
    sharing, job_id = state.sharing, job.spec.job_id
    _unsettle(state, sharing.claims.pop(job_id).mates)
    sharing.leave(job_id, job.allocation.ranks)
    sharing.forget(job_id)
    state.pool.release(job_id, job.allocation.ranks)
    job.step(Step.RETURN)
    job.allocation, job.shares = Allocation(), None
    job.starts, job.start_ordered_s = 0, None
    job.note = f"waits again: {reason}"
    state.active.pop(job_id)
    state.requeue(job)


def _unsettle(state: SchedulerState, job_ids: Collection[int]) -> None:
    """Note that spare cores may have to be given to these jobs, and that their ends have to be predicted anew."""
    state.sharing.unsettled.update(job_ids)
    state.sharing.moved.update(job_ids)


def settle(state: SchedulerState, now: float) -> list[Effect]:
    """Give spare cores to the hosts that can take them, and predict the ends of all whose cores have changed."""
    sharing = state.sharing
    effects: list[Effect] = []
    for job_id in sorted(sharing.unsettled):
        job, stacks = state.jobs[job_id], sharing.of(job_id)
        if job.state not in LIVE or job.state is JobState.CLAIMING:
            sharing.unsettled.discard(job_id)
        elif job.order is None and not any(sharing.claimed(stack) for stack in stacks):
            hosted = [stack for stack in stacks if stack.host == job_id]
            back = [Change(stack, spare, takes=True) for stack in hosted if (spare := sharing.spare(stack))]
            if not back:
                sharing.dissolve(job_id)
                sharing.unsettled.discard(job_id)
            elif job.view().takes_orders(now):
                effects += _send(state, job, back, "others do not use them any more")
    _predict(state, now)
    return effects


def _predict(state: SchedulerState, now: float) -> None:
    sharing = state.sharing
    ids = sharing.connected(sharing.moved)
    sharing.moved.clear()
    jobs = [state.active[job_id] for job_id in ids if job_id in state.active]
    for job in jobs:
        sharing.run_on(job, now)
    growing = {job_id for job_id, changes in sharing.ordered.items() if any(change.takes for change in changes)}
    for job_id, shares in sharing.shares(jobs, now, growing).items():
        job = state.active[job_id]
        changes, job.shares = shares != job.shares, shares
        if changes:
            state.note(job)
        if job.started_s is not None and (changes or job.expected_end_s <= now):
            state.watch(job, job.expected_end_s + state.settings.walltime_grace_s)
