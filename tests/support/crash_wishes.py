"""What users and operators want of a scheduler whose deaths are simulated, drawn from the world's seed."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import msgspec

from scheduler_bridge.core.events import UserNodesLimited
from scheduler_bridge.daemon import JobRequest
from scheduler_bridge.daemon.control.access import Caller, NotPermittedError, permitted
from scheduler_bridge.daemon.requests import Hold, Reserve, SubmitError

if TYPE_CHECKING:
    from support.crashes import World

NODES = tuple("abcdef")
JOBS = 12
NO_ROOM = "the log cannot be written: no room"
CALLERS = (Caller("anna"), Caller("olga", operator=True))


def submit(world: World) -> None:
    request = _request(world)
    array = range(min(world.rng.randint(2, 4), JOBS - world.submitted)) if world.rng.random() < 0.1 else ()
    try:
        taken = world.driver.submissions.submit(request, array)
    except SubmitError as error:
        if not any(why in str(error) for why in ("the cluster has", "a user may have", NO_ROOM)):
            raise
        return
    world.answered += taken
    world.submitted += len(taken)
    world.requests |= dict.fromkeys(taken, request)


def _request(world: World) -> JobRequest:
    draw = world.rng.random
    low, wanted, high = sorted(world.rng.randint(1, len(NODES)) for _ in range(3))
    earlier = tuple(job_id for job_id in world.answered if draw() < 0.1)
    wishes: dict[str, Any] = {
        "user": "anna",
        "hold": draw() < 0.1,
        "requeue": draw() < 0.6,
        "resilient": draw() < 0.6,
        "priority": world.rng.choice([0, 0, 0, 5, -5]),
        "after_any" if draw() < 0.7 else "after_ok": earlier,
    }
    if draw() < 0.5:
        wishes |= {"job_class": "malleable", "min_nodes": low, "max_nodes": high}
    request = JobRequest(name=f"j{world.submitted}", command=(sys.executable,), nodes=wanted, **wishes)
    kept = world.driver.core.advance()
    if kept and draw() < 0.5 and low <= len(kept[0].nodes) and wanted <= len(kept[0].nodes):
        return msgspec.structs.replace(request, reservation=kept[0].name)
    return request


def cancel(world: World) -> None:
    job_id = world.rng.choice(world.answered)
    if job_id in world.log_state.jobs:
        world.driver.submissions.cancel(job_id)


def wish(world: World) -> None:
    """Hold, release or move a job that waits; one that does not is left alone with a word."""
    job_id = world.rng.choice(world.answered)
    try:
        if world.rng.random() < 0.6:
            hold(world, job_id)
        else:
            world.driver.submissions.prioritise(job_id, world.rng.randint(-9, 9))
    except ValueError as error:
        if "wait" not in str(error) and "ended" not in str(error):
            raise


def hold(world: World, job_id: int) -> None:
    """Hold or release a job, as its user or as an operator."""
    caller = world.rng.choice(CALLERS)
    asked = Hold(job=job_id, held=world.rng.random() < 0.5)
    before = world.log_state.jobs.get(job_id)
    try:
        request = permitted(asked, caller, world.log_state.jobs.get)
    except NotPermittedError:
        assert before is not None
        assert (before.held_by, caller.operator) == ("operator", False)
        return
    assert isinstance(request, Hold)
    world.held.pop(job_id, None)
    world.driver.submissions.hold(job_id, request.held, "user" if request.as_user else "operator")


def reserve(world: World) -> None:
    """Keep nodes from now on or later, or keep them no longer; where too many are in use it is refused."""
    kept = world.driver.core.advance()
    if kept and world.rng.random() < 0.5:
        world.driver.submissions.unreserve(kept[-1].name)
        return
    late_s = world.rng.choice([0.0, 0.001, 7200.0])
    try:
        world.driver.submissions.reserve(Reserve(in_s=late_s, duration_s=7200.0, nodes=world.rng.randint(1, 2)))
    except ValueError as error:
        if "can be free" not in str(error) and NO_ROOM not in str(error):
            raise


def change_nodes(world: World) -> None:
    """Let a node leave, drain it or take it down, or put back one that is away."""
    away = absent(world)
    if away and world.rng.random() < 0.7:
        put_back(world, away[0])
    elif len(away) < 2:
        present = [node for node in NODES if node not in away]
        world.driver.submissions.change_node(world.rng.choice(present), world.rng.choice(["remove", "drain", "down"]))


def absent(world: World) -> list[str]:
    """The nodes that are out of the cluster, or out of service because somebody wants that, or are to be."""
    core = world.log_state.core
    gone = [node for node in NODES if node not in core.pool or core.pool.is_leaving(node)]
    out = [node for node in core.pool.names if core.pool.state(node) in ("down", "draining")]
    return gone + [node for node in out if node not in world.log_state.ailing and node not in gone]


def put_back(world: World, node: str) -> None:
    world.driver.submissions.change_node(node, "resume" if node in world.log_state.core.pool else "add")


def limit(world: World) -> None:
    """Let users have more or fewer nodes; jobs that need more wait, or are not taken."""
    world.driver.handle(UserNodesLimited(world.rng.choice([2, 4, None])))


def relent(world: World) -> None:
    """Take back what may keep jobs from running."""
    world.broken.clear()
    world.look()
    world.driver.handle(UserNodesLimited(None))
    for node in absent(world):
        put_back(world, node)
    world.held.clear()
    for job_id, job in list(world.log_state.jobs.items()):
        if job.held_by is not None:
            world.driver.submissions.hold(job_id, held=False)
    for kept in world.driver.core.advance():
        world.driver.submissions.unreserve(kept.name)
