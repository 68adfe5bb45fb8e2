"""Jobs that go on after some of their nodes' processes died."""

from __future__ import annotations

import pytest

from apgas.malleability import orders as wire
from scheduler_bridge import policies
from scheduler_bridge.core import SchedulerCore
from scheduler_bridge.core.events import (
    Effect,
    JobEnded,
    JobStarted,
    JobSubmitted,
    KillJob,
    MalleableReady,
    NodesLost,
    SendOrder,
    ShrinkCompleted,
    StartJob,
    WakeAt,
)
from scheduler_bridge.daemon.config import Limits
from scheduler_bridge.daemon.jobs.session import Heard, JobLink, Send, Session
from scheduler_bridge.model import JobSpec

TOKEN = "x" * 32
NODES = ("a", "b", "c", "d")


def job(job_id: int, low: int, high: int) -> JobSpec:
    if low < high:
        return JobSpec(job_id, "j", "u", "malleable", low, low, high, 1000.0, 0.0)
    return JobSpec(job_id, "j", "u", "rigid", low, low, high, 1000.0, 0.0)


def running(spec: JobSpec) -> SchedulerCore:
    core = SchedulerCore(NODES, policies.get("malleable"))
    core.handle(JobSubmitted(spec), 0.0)
    core.handle(JobStarted(spec.job_id), 0.0)
    return core


def without_alarms(effects: list[Effect]) -> list[Effect]:
    return [effect for effect in effects if not isinstance(effect, WakeAt)]


def test_a_lost_node_is_free_and_the_job_goes_on() -> None:
    core = running(job(1, 4, 4))
    core.handle(JobSubmitted(job(2, 1, 1)), 1.0)
    assert without_alarms(core.handle(NodesLost(1, ("c",), "its place died"), 2.0)) == [StartJob(2, ("c",))]
    core.check()
    assert "its place died" in core.explain(1)
    core.handle(JobEnded(1, "completed"), 3.0)
    core.check()


def test_a_loss_while_a_shrink_is_under_way() -> None:
    core = running(job(1, 1, 4))
    core.handle(MalleableReady(1), 0.0)
    orders = without_alarms(core.handle(JobSubmitted(job(2, 2, 2)), 1.0))
    assert [(order.kind, order.count) for order in orders if isinstance(order, SendOrder)] == [("shrink", 2)]
    core.handle(NodesLost(1, ("d",)), 2.0)
    core.check()
    assert StartJob(2, ("b", "c")) in core.handle(ShrinkCompleted(1, 1, ("b", "c")), 3.0)
    core.check()


@pytest.mark.parametrize("nodes", [(), ("x",), ("a", "b", "c", "d")])
def test_a_loss_that_cannot_be_ends_the_job(nodes: tuple[str, ...]) -> None:
    core = running(job(1, 4, 4))
    (kill,) = without_alarms(core.handle(NodesLost(1, nodes), 1.0))
    assert isinstance(kill, KillJob)
    core.check()


def said(session: Session, message: wire.Message) -> list[object]:
    return list(session.receive(wire.encode(message), 1.0))


def attached(link: JobLink) -> Session:
    session = Session({link.job_id: link}, Limits(), 0.0)
    said(session, wire.Hello(version=2, job=link.job_id, token=TOKEN))
    return session


def test_the_session_reports_a_loss_once() -> None:
    link = JobLink(1, TOKEN, frozenset("abc"))
    session = attached(link)
    loss = wire.Lost(0, ("b",), "its place died")
    assert said(session, loss) == [Heard(1, loss)]
    assert link.held == {"a", "c"}
    assert said(session, loss) == []
    assert said(attached(link), loss) == []
    again = wire.Lost(1, ("c",))
    assert said(session, again) == [Heard(1, again)]


@pytest.mark.parametrize("nodes", [(), ("x",), ("a", "b", "c")])
def test_the_session_refuses_losses_that_cannot_be(nodes: tuple[str, ...]) -> None:
    session = attached(JobLink(1, TOKEN, frozenset("abc")))
    (refused,) = said(session, wire.Lost(0, nodes))
    assert isinstance(refused, Send)
    assert isinstance(refused.message, wire.Refused)
