"""Nodes that do not answer: what the log makes of them, and which jobs are spared."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from scheduler_bridge.core import events as ev
from scheduler_bridge.core.events import Effect, KillJob
from scheduler_bridge.daemon import JobRequest, Standing
from scheduler_bridge.daemon.config import Limits
from scheduler_bridge.daemon.control.submission import Submissions
from scheduler_bridge.daemon.jobs.health import Health
from scheduler_bridge.daemon.storage import log_entries
from scheduler_bridge.daemon.storage.ledger import Ledger, spec_of
from scheduler_bridge.daemon.storage.log_entries import Entry, decode, encode
from scheduler_bridge.daemon.storage.store import Era

ERA = Era(
    nodes=("a", "b", "c"), policy="fcfs", parameters={}, cores_per_node=1, first_job=1,
    started_at="2026-01-01T00:00:00+00:00", wall_s=0.0, boot="", monotonic_s=0.0,
)  # fmt: skip


class Log:
    """A ledger, and what was written about it."""

    def __init__(self) -> None:
        self.ledger = Ledger(ERA)
        self.rows: list[log_entries.Row] = []
        self.health = Health(self.ledger, self.handle)

    def handle(
        self, *events: ev.Event, facts: Sequence[log_entries.AnyFact] = (), then: Callable[[], None] | None = None
    ) -> list[Effect]:
        entry = Entry(float(len(self.rows)), events, tuple(facts))
        effects = self.ledger.take(entry)
        self.rows.append(encode(entry, effects))
        return effects

    def run_job(self, number: int, nodes: int, *, resilient: bool = False) -> None:
        request = JobRequest(
            name="job", command=("x",), nodes=nodes, walltime_s=60.0,
            environment={"APGAS_RESILIENT": "1"} if resilient else {},
        )  # fmt: skip
        self.handle(ev.JobSubmitted(spec_of(number, request, 0.0)), facts=[log_entries.Requested(number, request)])
        self.handle(ev.JobStarted(number))

    def kills(self) -> list[int]:
        """The jobs that the last entry ended."""
        return [effect.job_id for effect in decode(self.rows[-1])[1] if isinstance(effect, KillJob)]

    def again(self) -> Ledger:
        """What another scheduler reads."""
        ledger = Ledger(ERA)
        for row in self.rows:
            ledger.replay(*decode(row))
        return ledger


@pytest.fixture
def log() -> Log:
    return Log()


def test_a_lost_node_loses_its_job_with_the_reason_and_comes_back(log: Log) -> None:
    log.run_job(1, 2)
    log.health.suspect("b", "no route")
    assert log.kills() == []
    assert log.health.standing("b") is Standing.AILING
    log.health.lose("b", "no route to b", spare=True)
    assert log.kills() == [1]
    log.handle(ev.JobEnded(1, "failed"))
    assert log.ledger.core.ended(1) == ("lost", "node b is out of service: no route to b")
    assert log.again().ailing == {"b": "no route to b"}
    assert Ledger.thaw(ERA, log.ledger.freeze()).ailing == {"b": "no route to b"}
    log.health.regain("b")
    assert log.health.standing("b") is Standing.SERVING
    assert log.again().ailing == {}


@pytest.mark.parametrize("out", [ev.NodeDrained("b"), ev.NodeDown("b")])
def test_what_an_operator_takes_out_is_out_by_wish_also_if_it_ails(log: Log, out: ev.Event) -> None:
    log.health.suspect("b", "no route")
    log.handle(out)
    assert log.health.standing("b") is Standing.AWAY
    log.health.lose("b", "no route", spare=False)
    assert log.health.standing("b") is Standing.AWAY
    assert log.again().ailing == {}


def test_a_drained_node_that_dies_loses_its_job_and_stays_out(log: Log) -> None:
    log.run_job(1, 2)
    log.handle(ev.NodeDrained("b"))
    assert log.health.standing("b") is Standing.OUT
    log.health.lose("b", "no route", spare=True)
    assert log.kills() == [1]
    assert log.ledger.ailing == {}


@pytest.mark.parametrize(("node", "resilient", "killed"), [("b", True, []), ("a", True, [1]), ("b", False, [1])])
def test_a_job_that_can_go_on_without_a_node_is_spared(log: Log, node: str, resilient: bool, killed: list[int]) -> None:
    log.run_job(1, 2, resilient=resilient)
    log.health.lose(node, "no route", spare=True)
    assert log.kills() == killed
    assert log.health.standing(node) is Standing.AILING
    log.health.lose(node, "no route", spare=False)
    assert log.kills() == ([] if killed else [1])


def test_nodes_that_do_not_answer_at_the_beginning_get_no_jobs_but_keep_them(log: Log) -> None:
    log.run_job(1, 1)
    log.handle(ev.NodeDrained("c"))
    events, facts = log.health.first({"a": "no route", "c": "no route", "new": "no route"})
    log.handle(ev.NodeUp("new"), *events, facts=facts)
    assert log.kills() == []
    assert sorted(log.ledger.ailing) == ["a", "new"]
    assert log.health.standing("c") is Standing.AWAY


def test_a_node_that_there_cannot_be_is_not_added(log: Log) -> None:
    submissions = Submissions(
        log.ledger, log.handle, lambda: 0.0, Limits(), None, lambda node: "" if node == "d" else "who is that?"
    )
    with pytest.raises(ValueError, match=r"node e is not added: who is that\?"):
        submissions.change_node("e", "add")
    submissions.change_node("d", "add")
    assert list(log.ledger.core.nodes) == ["a", "b", "c", "d"]
