"""Nodes that do not answer: what the log makes of them, and which jobs are spared."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from support.logged import encode

from scheduler_bridge.core import events as ev
from scheduler_bridge.core.events import Effect, KillJob
from scheduler_bridge.daemon import JobRequest, Standing
from scheduler_bridge.daemon.config import Limits
from scheduler_bridge.daemon.control.submission import Submissions
from scheduler_bridge.daemon.jobs.health import Health
from scheduler_bridge.daemon.storage import log_entries
from scheduler_bridge.daemon.storage.log_entries import Entry, decode
from scheduler_bridge.daemon.storage.log_state import LogState, spec_of
from scheduler_bridge.daemon.storage.store import Era

ERA = Era(
    nodes=("a", "b", "c"), policy="fcfs", parameters={}, cores_per_node=1, first_job=1,
    started_at="2026-01-01T00:00:00+00:00", wall_s=0.0, boot="", monotonic_s=0.0,
)  # fmt: skip


class Log:
    """A log_state, and what was written about it."""

    def __init__(self) -> None:
        self.log_state = LogState(ERA)
        self.rows: list[log_entries.Row] = []
        self.health = Health(self.log_state, self.handle)

    def handle(
        self, *events: ev.Event, facts: Sequence[log_entries.AnyFact] = (), then: Callable[[], None] | None = None
    ) -> list[Effect]:
        entry = Entry(float(len(self.rows)), events, tuple(facts))
        effects = self.log_state.take(entry)
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

    def again(self) -> LogState:
        """What another scheduler reads."""
        log_state = LogState(ERA)
        for row in self.rows:
            entry, effects = decode(row)
            assert log_state.take(entry) == effects
        return log_state


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
    assert log.log_state.core.ended(1) == ("lost", "node b is out of service: no route to b")
    assert log.again().ailing == {"b": "no route to b"}
    assert LogState.thaw(ERA, log.log_state.freeze()).ailing == {"b": "no route to b"}
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
    assert log.log_state.ailing == {}


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
    events, facts = log.health.first({"a": "no route", "c": "no route", "new": "no route"}, {})
    log.handle(ev.NodeUp("new"), *events, facts=facts)
    assert log.kills() == []
    assert sorted(log.log_state.ailing) == ["a", "new"]
    assert log.health.standing("c") is Standing.AWAY


def test_nodes_on_which_an_unknown_attempt_runs_get_no_jobs_until_it_is_over(log: Log) -> None:
    events, facts = log.health.first({"c": "no route"}, {"a": "7.1", "b": "7.1"})
    log.handle(*events, facts=facts)
    log.health.regain("a")  # it answers
    log.health.lose("b", "no route", spare=False)
    log.health.regain("b")
    for log_state in (log.log_state, log.again(), LogState.thaw(ERA, log.log_state.freeze())):
        assert sorted(log_state.ailing) == ["a", "b", "c"]
        assert log_state.ailing["a"] == "attempt 7.1 runs there, and the log does not know of it"
        assert log_state.occupied == {"a": "7.1", "b": "7.1"}
    log.health.vacate("8.1")
    assert log.health.standing("a") is Standing.AILING
    log.health.vacate("7.1")
    assert [log.health.standing(node) for node in "abc"] == [Standing.SERVING, Standing.SERVING, Standing.AILING]


def test_a_restart_puts_back_the_nodes_whose_unknown_attempt_is_over(log: Log) -> None:
    events, facts = log.health.first({}, {"a": "7.1", "b": "8.1", "c": "9.1"})
    log.handle(*events, facts=facts)
    log.handle(ev.NodeUp("c"))  # an operator wants it so
    events, facts = log.health.first({}, {"b": "8.1"})
    assert (events, facts) == ([ev.NodeUp("a")], [])


def test_a_node_that_there_cannot_be_is_not_added(log: Log) -> None:
    submissions = Submissions(
        log.log_state, log.handle, lambda: 0.0, Limits(), None, lambda node: "" if node == "d" else "who is that?"
    )
    with pytest.raises(ValueError, match=r"node e is not added: who is that\?"):
        submissions.change_node("e", "add")
    submissions.change_node("d", "add")
    assert list(log.log_state.core.pool.names) == ["a", "b", "c", "d"]
