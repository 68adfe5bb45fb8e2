"""How a simulated job carries an order out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from scheduler_bridge.core.effects import SendOrder
from scheduler_bridge.core.events import (
    Event,
    GrowCompleted,
    ResizeDeferred,
    ResizeFailed,
    ShrinkCompleted,
    WorkersChanged,
)
from scheduler_bridge.sim.running import Change, Run

PATIENCE_S: Final = 1.0
"""A job that waits for the beginning of its computation tells so after this time, as the runtime does."""


def answers(order: SendOrder, run: Run, now: float) -> Iterator[tuple[float, Event | Change]]:
    """Yield what becomes of ``order``, given to ``run`` at ``now``, and when; the run remembers what it was told."""
    sim = run.sim
    fails = run.orders in sim.failing_orders
    run.orders += 1
    if sim.defer_s > 0:
        yield now, ResizeDeferred(order.job_id, order.order, "not in this phase")
    if run.computes_s > now + PATIENCE_S:
        yield now + PATIENCE_S, ResizeDeferred(order.job_id, order.order, "it does not compute yet")
    begin_s = run.next_point_s(max(now + sim.defer_s, run.computes_s))
    if order.kind == "workers":
        run.told_cores = order.cores
        failed = ResizeFailed(order.job_id, order.order, "aborted") if fails else None
        yield begin_s + sim.workers_s, failed or WorkersChanged(order.job_id, order.order)
        return
    yield from _resize(order, run, now, begin_s, fails=fails)


def _resize(
    order: SendOrder, run: Run, now: float, begin_s: float, *, fails: bool
) -> Iterator[tuple[float, Event | Change]]:
    sim, grows = run.sim, order.kind == "grow"
    before = len(run.nodes)
    after = before + (order.count if grows else -order.count)
    done_s = begin_s + (sim.grow_s if grows else sim.shrink_s)
    if grows:
        run.growing = (now, order.count)
    if sim.cost is not None:
        done_s += sim.cost(before, after, sim.spec.overhead)
        if sim.cost.stops and done_s > begin_s:
            yield begin_s, Change(order.job_id, 0)
    if fails:
        yield done_s, ResizeFailed(order.job_id, order.order, "aborted")
    elif grows:
        yield done_s, GrowCompleted(order.job_id, order.order, order.nodes)
    else:
        released = run.nodes[1 : 1 + order.count] if sim.own_choice else order.nodes
        yield done_s, ShrinkCompleted(order.job_id, order.order, released)
        if sim.defer_s == 0 and not (sim.cost is not None and sim.cost.stops):
            yield begin_s, Change(order.job_id, after)
