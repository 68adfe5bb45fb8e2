"""What events do to the state: a job's life, its answers to orders and its requests, and nodes that come and go."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, assert_never

from scheduler_bridge.core import advance_reservations, co_scheduling, limits
from scheduler_bridge.core import events as ev
from scheduler_bridge.core.orders import send_grow, send_shrink
from scheduler_bridge.core.state import SchedulerState
from scheduler_bridge.core.tracked import HOLDING, LIVE, UP, JobState, PendingOrder, Step, TrackedJob
from scheduler_bridge.model import Because, JobSpec, wording
from scheduler_bridge.model.allocation import NOTHING, lowest

PAST: Final = frozenset({JobState.ENDING, JobState.ENDED})
"""States in which a job's reports come too late to matter."""


def apply(state: SchedulerState, event: ev.Event, now: float) -> list[ev.Effect]:
    """Let one event change the state; a report that contradicts the state is an anomaly and changes nothing."""
    if state.shrunk and not isinstance(event, ev.Answer | ev.WakeUp):
        state.shrunk.clear()
    match event:  # the most frequent ones first
        case ev.JobSubmitted():
            return _submitted(state, event.job)
        case ev.OfJob():
            if (job := state.jobs.get(event.job_id)) is not None:
                return _of_job(state, job, event, now)
            runs = isinstance(event, ev.NodesLost | ev.EvolvingRequest)
            state.anomalies.append(f"{event} is about {'a job that does not run' if runs else 'an unknown job'}")
        case ev.WakeUp():
            state.armed_s = None  # a caller that wakes the core early has forgotten the time asked for
        case ev.OfNode():
            return _of_node(state, event)
        case ev.ReservationMade():
            return advance_reservations.make(state, event.reservation, now)
        case ev.ReservationCancelled():
            advance_reservations.cancel(state, event.name)
        case ev.UserNodesLimited():
            state.adopt(replace(state.settings, user_nodes=event.user_nodes))  # jobs that run keep what they have
            state.changed = True
        case _:
            assert_never(event)
    return []


def _of_job(state: SchedulerState, job: TrackedJob, event: ev.JobEvent, now: float) -> list[ev.Effect]:
    match event:
        case ev.JobEnded():
            if job.state in HOLDING and job.state is not JobState.CLAIMING:
                end(state, job, event.outcome, event.reason, now)
            else:
                state.anomalies.append(f"{event}, but the job is {job.state}")
        case ev.JobInterrupted():
            return _interrupted(state, job, event, now)
        case ev.JobWithdrawn() | ev.JobMoved():
            _place(state, job, event)
        case ev.CancelJob():
            return _cancel(state, job, event.reason, now)
        case _ if job.state in PAST:
            pass  # it comes too late
        case ev.JobStarted():
            _started(state, job, now)
        case ev.MalleableReady() | ev.MalleableEnded():
            _set_ready(state, job, ready=isinstance(event, ev.MalleableReady))
        case ev.NodesLost() | ev.EvolvingRequest():
            if job.state is JobState.QUEUED:
                state.anomalies.append(f"{event} is about a job that does not run")
            elif isinstance(event, ev.NodesLost):
                return _nodes_lost(state, job, event, now)
            else:
                return _evolving_request(state, job, event, now)
        case _:
            return _order_answered(state, job, event, now)
    return []


# A job's life ---------------------------------------------------------------------------------------------------------


def _submitted(state: SchedulerState, spec: JobSpec) -> list[ev.Effect]:
    """Let a job wait, unless no cluster of this size could ever hold it."""
    if (before := state.jobs.get(spec.job_id)) is not None and before.state is not JobState.ENDED:
        state.anomalies.append(f"job {spec.job_id} is submitted twice")
        return []
    if spec.min_nodes > state.pool.known:
        reason = f"job {spec.job_id} needs {wording.nodes(spec.min_nodes)}, the cluster has {state.pool.staying}"
        return [ev.Refuse(spec.job_id, reason)]
    state.enqueue(TrackedJob(spec, max_nodes=spec.max_nodes))
    return []


def _place(state: SchedulerState, job: TrackedJob, event: ev.JobWithdrawn | ev.JobMoved) -> None:
    """Take a waiting job out of the queue, or put it elsewhere."""
    if job.state is not JobState.QUEUED:
        state.anomalies.append(f"{event}, but the job is {job.state}")
    elif isinstance(event, ev.JobMoved):
        state.move(job, event.ahead_of)
    else:
        state.withdraw(job)


def _started(state: SchedulerState, job: TrackedJob, now: float) -> None:
    """The walltime begins. No pass follows: nothing became possible that was not before."""
    if job.state is not JobState.STARTING:
        state.anomalies.append(f"job {job.spec.job_id} reports its start, but it is {job.state}")
        return
    state.run(job, now)
    if job.shares is not None:
        state.sharing.moved.add(job.spec.job_id)
    if job.ready:
        state.changed = True


def _interrupted(state: SchedulerState, job: TrackedJob, event: ev.JobInterrupted, now: float) -> list[ev.Effect]:
    """Start a job anew on the nodes that it holds; an order under way is as if the job had not carried it out.

    Its nodes are known here alone, and nothing runs on them. Those that were to arrive come back.
    """
    if job.state not in UP:
        state.anomalies.append(f"{event}, but the job is {job.state}")
        return []
    if job.order is not None:
        _failed(state, job, job.order, ev.ResizeFailed(job.spec.job_id, job.order.order, event.reason), now)
    job.step(Step.RESTART)
    job.ready = False
    job.restarts += 1
    state.evolving_requests.pop(job.spec.job_id, None)
    nodes = wording.nodes(len(job.allocation))
    job.note = f"{event.reason}; started again on its {nodes}, {wording.ordinal(job.restarts)} time"
    state.touch(job)
    return [co_scheduling.start_of(state, job)]


def _set_ready(state: SchedulerState, job: TrackedJob, *, ready: bool) -> None:
    if job.state not in LIVE or not job.spec.is_malleable:
        state.anomalies.append(f"job {job.spec.job_id} ({job.spec.job_class}, {job.state}) reports a malleable handler")
        return
    job.ready = ready
    state.touch(job)


def _cancel(state: SchedulerState, job: TrackedJob, reason: str, now: float) -> list[ev.Effect]:
    if job.state is JobState.ENDED:
        return []
    if job.state in (JobState.QUEUED, JobState.CLAIMING):
        end(state, job, "cancelled", reason, now)
        return []
    return state.kill(job, "cancelled", "cancelled")


def end(state: SchedulerState, job: TrackedJob, outcome: ev.Outcome, reason: str, now: float) -> None:
    """Take the job's end down and its nodes back.

    What the core killed it for wins over what its processes' end looked like, unless it completed all the same.
    """
    job.step(Step.END)
    if job.kill is not None and outcome != "completed":
        outcome, reason = job.kill
    job.outcome, job.reason, job.ended_s = outcome, reason, now
    job.note = f"{outcome}: {reason}" if reason not in ("", outcome) else outcome
    if outcome in ("completed", "timeout") and job.started_s is not None:
        state.note_use(job.spec.user, min(1.0, (now - job.started_s) / job.spec.walltime_s))
    job.ready, job.order = False, None
    job_id = job.spec.job_id
    if state.sharing.by_job:
        co_scheduling.left(state, job, job.allocation.ranks)
    state.pool.release(job_id, job.allocation.ranks)
    job.allocation = NOTHING
    if state.active.pop(job_id, None) is None:
        state.queue.pop(job_id, None)
    state.reservations.pop(job_id, None)
    state.over.append(job)
    state.note(job)
    state.changed = True


# Answers to orders, and evolving requests -----------------------------------------------------------------------------


def _order_answered(state: SchedulerState, job: TrackedJob, event: ev.Answer, now: float) -> list[ev.Effect]:
    """Apply a job's answer to its order. An answer that does not fit the order changes nothing."""
    order = job.order
    if order is None or order.order != event.order:
        state.anomalies.append(f"{event}, but the order under way is {order}")
        return []
    match event:
        case ev.GrowCompleted():
            return _grown(state, job, order, event, now)
        case ev.ShrinkCompleted():
            return _shrunk(state, job, order, event, now)
        case ev.WorkersChanged():
            return _adjusted(state, job, order, event, now)
        case ev.ResizeFailed():
            _failed(state, job, order, event, now)
        case ev.ResizeDeferred():
            job.order = replace(order, deferred=True)
            job.note = f"put the {order.kind} order off: {event.reason}"
            state.touch(job)
        case _:
            assert_never(event)
    return []


def _close(state: SchedulerState, job: TrackedJob, now: float, pause_s: float, *, allows: bool = True) -> None:
    """The order is done with; the next one may follow after ``pause_s``; ``allows``: a decision may follow at once.

    One that is to leave lent nodes, and was not ordered to yet, makes no pause: they will be gone.
    """
    recalled = job.allocation.ranks & state.pool.lent & state.pool.leaving
    refused = job.order.ranks if job.order is not None and job.order.kind == "shrink" else 0
    urgent = recalled & ~job.keeps & ~refused
    job.step(Step.RESIZED)
    job.order = None
    if pause_s > 0 and not urgent:
        job.resizable_from_s = now + pause_s
        state.watch(job, job.resizable_from_s)
    if allows:
        state.touch(job)
    else:
        state.note(job)


def _grown(
    state: SchedulerState, job: TrackedJob, order: PendingOrder, event: ev.GrowCompleted, now: float
) -> list[ev.Effect]:
    gained = _ranks(state, order, event.nodes)
    if order.kind != "grow" or gained is None or gained & ~order.ranks:
        return _broken(state, job, f"it reports to have grown by {event.nodes}, ordered was {order}")
    if unused := order.ranks & ~gained:
        job.allocation = job.allocation.minus(unused)
        state.pool.release(job.spec.job_id, unused)
    state.expect_again(job, len(job.allocation) - gained.bit_count(), now)
    job.grows += 1
    job.last_resize = "grow"
    job.note = Because("grew by {} to {}", (gained.bit_count(), wording.nodes(len(job.allocation))))
    _close(state, job, now, state.settings.cooldown_s)
    return []


def _shrunk(
    state: SchedulerState, job: TrackedJob, order: PendingOrder, event: ev.ShrinkCompleted, now: float
) -> list[ev.Effect]:
    released = _ranks(state, order, event.nodes)
    held = job.allocation.ranks
    if order.kind != "shrink" or released is None or released.bit_count() != order.count or released & ~held:
        return _broken(state, job, f"it reports to have released {event.nodes}, ordered was {order}")
    job.allocation = job.allocation.minus(released)
    state.pool.release(job.spec.job_id, released)
    state.expect_again(job, len(job.allocation) + order.count, now)
    job.keeps |= order.ranks & ~released & state.pool.leaving
    job.shrinks += 1
    job.last_resize = "shrink"
    state.shrunk.add(job.spec.job_id)
    job.note = Because("shrank by {} to {}", (order.count, wording.nodes(len(job.allocation))))
    _close(state, job, now, state.settings.cooldown_s)
    return []


def _adjusted(
    state: SchedulerState, job: TrackedJob, order: PendingOrder, event: ev.WorkersChanged, now: float
) -> list[ev.Effect]:
    """[D] Another number of cores is no reason for a pause."""
    if order.kind != "workers":
        return _broken(state, job, f"it reports {event}, ordered was {order}")
    allows = state.sharing.jobs_per_node > 2 or co_scheduling.takes(state, job)  # else it has become no mate
    effects = co_scheduling.adjusted(state, job, order, now)
    _close(state, job, now, 0.0, allows=allows)
    return effects


def _ranks(state: SchedulerState, order: PendingOrder, nodes: tuple[str, ...]) -> int | None:
    """The ranks of ``nodes``, which mostly are those of the order."""
    return order.ranks if nodes == order.nodes else state.pool.rank(nodes)


def _broken(state: SchedulerState, job: TrackedJob, story: str) -> list[ev.Effect]:
    """End a job that used or released other nodes than ordered: it is not known any more where it runs."""
    state.anomalies.append(f"job {job.spec.job_id}: {story}")
    return state.kill(job, "failed", f"the job broke the protocol: {story}")


def _failed(state: SchedulerState, job: TrackedJob, order: PendingOrder, event: ev.ResizeFailed, now: float) -> None:
    """The job goes on at its old size; nodes that were to arrive come back. A pause follows what it could have done."""
    if order.kind == "grow":
        job.allocation = job.allocation.minus(order.ranks)
        state.pool.release(job.spec.job_id, order.ranks)
    what = f"{order.kind} by {wording.nodes(order.count)}" if order.kind != "workers" else f"use {order.count} cores"
    job.note = f"did not {what}: {event.reason or 'no reason given'}"
    _close(state, job, now, 0.0 if order.disturbed else state.settings.failure_backoff_s)
    if order.kind == "workers":
        co_scheduling.refused(state, job, event.reason)


def _nodes_lost(state: SchedulerState, job: TrackedJob, event: ev.NodesLost, now: float) -> list[ev.Effect]:
    """The job goes on without nodes that it held. They are free: its processes there died, not they.

    It may fall below its minimum so; an order under way goes on without them.
    """
    gone = state.pool.rank(event.nodes)
    arriving = job.order.ranks if job.order is not None and job.order.kind == "grow" else 0
    if not gone or gone & ~(job.allocation.ranks & ~arriving) or gone == job.allocation.ranks:
        return _broken(state, job, f"it reports to have lost {event.nodes} of {state.pool.name(job.allocation)}")
    if state.sharing.by_job:
        co_scheduling.left(state, job, gone)
    job.allocation = job.allocation.minus(gone)
    state.pool.release(job.spec.job_id, gone)
    for node in event.nodes if gone & state.pool.lent else ():
        if (state.pool.rank((node,)) or 0) & state.pool.lent:  # it is gone
            state.pool.expel(node)
    if job.order is not None:
        left = job.order if job.order.kind == "grow" else _without(job.order, event.nodes, gone)
        job.order = replace(left, disturbed=True)
    count = gone.bit_count()
    state.expect_again(job, len(job.allocation) + count, now)
    job.losses += count
    job.note = f"lost {wording.nodes(count)}, goes on with {len(job.allocation)}: {event.reason or 'no reason given'}"
    state.touch(job)
    return []


def _without(order: PendingOrder, nodes: tuple[str, ...], ranks: int) -> PendingOrder:
    """What is left of an order when the job has lost nodes."""
    lost_nodes = set(nodes)
    left = tuple([node for node in order.nodes if node not in lost_nodes])
    core_ids = order.core_ids  # of each node, or none
    if core_ids:
        core_ids = tuple([ids for node, ids in zip(order.nodes, core_ids, strict=True) if node not in lost_nodes])
    return replace(order, nodes=left, ranks=order.ranks & ~ranks, core_ids=core_ids)


def _evolving_request(state: SchedulerState, job: TrackedJob, event: ev.EvolvingRequest, now: float) -> list[ev.Effect]:
    """Take an offer at once, or note a request for more for after the pass: queued jobs come first.

    An offer also lowers the job's maximum, so that it is not given the nodes back right away; a request raises it.
    """
    if event.delta == 0 or job.state is not JobState.RUNNING or not job.view().resizable(now):
        return [ev.Refuse(event.job_id, f"job {event.job_id} is {job.state} and takes no order now")]
    if event.delta > 0:
        state.evolving_requests[event.job_id] = event.delta
        job.max_nodes = min(job.spec.max_nodes, max(job.max_nodes, len(job.allocation) + event.delta))
        state.touch(job)
        return []
    count = min(-event.delta, len(job.allocation) - job.spec.min_nodes)
    if count <= 0:
        return [ev.Refuse(event.job_id, f"job {event.job_id} is at its minimum of {wording.nodes(job.spec.min_nodes)}")]
    job.max_nodes = len(job.allocation) - count
    return send_shrink(state, job, count, "the job offered them back")


def grant_evolving_requests(state: SchedulerState, now: float) -> list[ev.Effect]:
    """Answer the evolving requests for more nodes with what the pass left free. [D] Waiting jobs come first."""
    effects: list[ev.Effect] = []
    for job_id, delta in state.evolving_requests.items():
        job = state.jobs[job_id]
        if job.order is not None and job.order.kind == "grow":
            continue  # the pass itself has granted it
        if state.bookings:
            state.pool.confine(advance_reservations.allowed(state, job))
        count = min(delta, state.pool.free, job.max_nodes - len(job.allocation), limits.left(state, job))
        if count <= 0 or advance_reservations.has_rivals(state, job) or not job.view().resizable(now):
            effects.append(ev.Refuse(job_id, f"job {job_id} asked for {wording.nodes(delta)}; none can be given now"))
        else:
            effects += send_grow(state, job, state.pool.take(job_id, count), "the job asked for them")
    state.evolving_requests.clear()
    state.pool.confine(None)
    return effects


# Nodes that come and go -----------------------------------------------------------------------------------------------
#
# Those that are *lent* can be taken back at any time. Policies know nothing of them: jobs appear to them without these
# nodes, which they can always do without. After each pass lent nodes are given to jobs that can leave them again at
# once: malleable ones, which take orders and survive the loss of nodes. No job starts on them, so place 0 is on none,
# and no job that is rigid or survives no loss ever has one. [D] That is the simplest rule that is sound under every
# policy; what is promised never depends on nodes that may be gone.


def _of_node(state: SchedulerState, event: ev.NodeEvent) -> list[ev.Effect]:
    """Put a node into service or take it out; jobs on one that fails are ended, on one that is drained they go on."""
    node, pool = event.node, state.pool
    if isinstance(event, ev.NodeUp):
        if event.lent and node in pool and pool.holders(node):
            state.anomalies.append(f"{event} is about a node that a job holds")
        else:
            pool.restore(node, lent=event.lent)
            state.changed = True
    elif node not in pool:
        state.anomalies.append(f"{event} is about an unknown node")
    else:
        state.changed = True
        if isinstance(event, ev.NodeRemoved):
            pool.expel(node)
            _ask_anew(state, node)
        else:
            pool.fail(node)
            return _lose(state, node, event.reason) if isinstance(event, ev.NodeDown) else []
    return []


def _lose(state: SchedulerState, node: str, why: str) -> list[ev.Effect]:
    """End the jobs on a node; one that is only about to start there waits again."""
    effects: list[ev.Effect] = []
    reason = f"node {node} is out of service" + (f": {why}" if why else "")
    for job_id in state.pool.holders(node):
        job = state.jobs[job_id]
        if job.state is JobState.CLAIMING:
            co_scheduling.abandon(state, job, reason)
        else:
            effects += state.kill(job, "lost", reason)
    return effects


def _ask_anew(state: SchedulerState, node: str) -> None:
    """Forget which jobs kept the node when they were asked for it before; they leave a lent one without a pause."""
    bit = state.pool.rank((node,)) or 0
    for job_id in state.pool.holders(node):
        job = state.jobs[job_id]
        job.keeps &= ~bit
        if bit & job.lent:
            job.resizable_from_s = 0.0
            job.order = replace(job.order, disturbed=True) if job.order is not None else None
            state.note(job)


def _takers(state: SchedulerState) -> list[TrackedJob]:
    """The jobs that may be given lent nodes, now or after a pause."""
    return [
        job
        for job in state.active.values()
        if job.spec.resilient and job.ready and job.state in LIVE and not job.view().shares
    ]


def room_for_lent(state: SchedulerState) -> int:
    """How many lent nodes the jobs could use besides those that they have."""
    return sum([max(0, min(job.max_nodes - len(job.allocation), limits.left(state, job))) for job in _takers(state)])


def lend(state: SchedulerState, now: float) -> list[ev.Effect]:
    """Give the idle nodes that are lent to jobs that can leave them again, one each to the smallest."""
    idle = state.pool.idle_lent
    given: dict[int, int] = {}
    takers = {job.spec.job_id: job for job in _takers(state) if job.view().resizable(now)} if idle else {}
    rooms = {job.spec.user: limits.left(state, job) for job in takers.values()}
    while idle and takers:
        size, _, job_id = min(
            [
                (len(job.allocation) + given.get(job_id, 0).bit_count(), job.turn, job_id)
                for job_id, job in takers.items()
            ]
        )
        job = takers[job_id]
        if size >= job.max_nodes or rooms[job.spec.user] <= 0:
            del takers[job_id]
            continue
        bit = idle & -idle
        idle ^= bit
        rooms[job.spec.user] -= 1
        given[job_id] = given.get(job_id, 0) | bit
    effects: list[ev.Effect] = []
    for job_id, ranks in given.items():
        state.pool.lend(job_id, ranks)
        effects += send_grow(state, state.jobs[job_id], ranks, "idle nodes are lent")
    return effects


def vacate(state: SchedulerState, now: float) -> list[ev.Effect]:
    """Let nodes leave that are to do so and that no job holds; ask malleable jobs for those that they hold.

    A job is asked under every policy, for an operator wants it. It is not asked for its first node, where its place 0
    is, nor below its minimum, and for each node only once, unless it refuses altogether: the nodes that it releases are
    its own choice, and it would become ever smaller. What it does not give back it leaves when it ends.
    """
    effects: list[ev.Effect] = []
    for job in list(state.active.values()):
        if not (asked := job.allocation.ranks & state.pool.leaving & ~job.keeps) or not job.view().resizable(now):
            continue
        first = job.allocation.chunks[0]
        asked &= ~(first & -first)
        count = min(asked.bit_count(), len(job.allocation) - job.spec.min_nodes)
        if count > 0:  # a job that has lost nodes may be below its minimum
            effects += send_shrink(state, job, count, "nodes are to leave the cluster", lowest(asked, count))
    effects += [ev.NodeLeft(node) for node in state.pool.vacated()]
    return effects
