"""A log leads to the same effects again."""

from __future__ import annotations

import math
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest
from numpy import float64

from scheduler_bridge import policies
from scheduler_bridge.core import Settings, events
from scheduler_bridge.core import events as ev
from scheduler_bridge.daemon.config import DaemonConfig, DaemonError
from scheduler_bridge.daemon.requests import JobRequest
from scheduler_bridge.daemon.storage.log_entries import (
    AnyFact,
    Configured,
    Entry,
    Held,
    Noted,
    Policy,
    Requested,
    Row,
    decode,
    draft,
)
from scheduler_bridge.daemon.storage.log_state import LogState, configured, spec_of
from scheduler_bridge.daemon.storage.restore import restore
from scheduler_bridge.daemon.storage.store import Era, Store
from scheduler_bridge.model import AdvanceReservation, Because, ClusterView, JobSpec, Reservation
from scheduler_bridge.policies import Decision, Reserve, Start, registry
from scheduler_bridge.record import use_by_user

ERA = Era(
    nodes=("a",), policy="sd-policy", parameters={"max_slowdown": "inf"}, first_job=1, started_at="", wall_s=0.0,
    boot="", monotonic_s=0.0, cores_per_node=4,
)  # fmt: skip


def submitted(number: int, walltime_s: float, at_s: float, name: str = "job") -> Entry:
    request = JobRequest(
        name=name, command=("x",), job_class="malleable", nodes=1, min_nodes=1, max_nodes=1, walltime_s=walltime_s
    )
    spec = spec_of(number, request, at_s)
    return Entry(at_s, (ev.JobSubmitted(spec),), (Requested(number, request),))


ENTRIES = (
    submitted(1, 1000.0, 0.0),
    Entry(1.0, (ev.JobStarted(1), ev.MalleableReady(1)), ()),
    submitted(2, 10.0, 2.0),
    Entry(3.0, (ev.WorkersChanged(1, 1),), ()),
)


def replayed(folder: Path, change: dict[str, object]) -> list[events.Effect]:
    """Restore a log that has other effects than what is decided now; returns the last ones of these."""
    now = LogState(ERA)
    rows: list[Row] = []
    effects: list[events.Effect] = []
    for entry in ENTRIES:
        effects = now.take(entry)
        logged = [
            msgspec.structs.replace(effect, **change) if getattr(effect, "core_ids", ()) else effect
            for effect in effects
        ]
        rows.append(draft(entry).with_effects(logged))
    with closing(Store(folder)) as store:
        store.begin_era(ERA)
        store.append(rows)
    with closing(Store(folder)) as store:
        _, read = restore(store, DaemonConfig(ERA.nodes, ERA.policy, state_dir=folder), 1)
    assert read == len(ENTRIES)
    return effects


def test_a_log_leads_to_the_same_effects(tmp_path: Path) -> None:
    assert replayed(tmp_path, {}) == [events.StartJob(2, ("a",), (0b1100,))]


def test_a_log_with_other_effects_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DaemonError, match="is decided otherwise by this policy, or by this version: at "):
        replayed(tmp_path, {"core_ids": (0b0110,)})


@dataclass
class Repairable:
    """A policy that is mistaken until somebody repairs its file."""

    repaired: bool
    name: str = "repairable"

    def decide(self, view: ClusterView, now: float) -> list[Decision]:
        queue = [spec for spec in view.queue if self.repaired or spec.name == "job"][: view.free_nodes]
        if not self.repaired and any(spec.name == "raises" for spec in view.queue):
            raise KeyError("my mistake")
        starts: list[Decision] = [Start(spec.job_id, spec.nodes, Because("it {}", ("fits",))) for spec in queue]
        if not self.repaired and any(spec.name == "too many" for spec in view.queue):
            never = Reservation(view.queue[-1].job_id, float64(math.inf), 1, 0)
            return [*starts, Start(view.queue[-1].job_id, 9, "too many"), Reserve(never)]
        return starts

    def why_waiting(self, view: ClusterView, job: JobSpec, reservation: Reservation | None) -> str:
        return "no"


@pytest.mark.parametrize("reserved", [False, True])
@pytest.mark.parametrize("how", ["raises", "too many"])
def test_a_log_with_what_a_policy_did_wrong_is_read_again_after_its_repair(
    how: str, reserved: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The passes that failed stay as they were; a scheduler that reads them decides as the repaired policy does."""
    monkeypatch.setattr(registry, "_FACTORIES", dict(registry._FACTORIES))
    repaired = False

    @policies.register
    def repairable() -> policies.Policy:
        """It is mistaken until it is repaired."""
        return Repairable(repaired)

    era = msgspec.structs.replace(ERA, nodes=("a", "b"), policy="repairable", parameters={})
    live, rows = LogState(era), list[Row]()
    booked = ev.ReservationMade(AdvanceReservation("later", 500.0, 1000.0, 1))
    entries = [Entry(0.0, (booked,))] if reserved else []
    entries += [submitted(1, 100.0, 1.0), submitted(2, 100.0, 2.0, how), submitted(3, 100.0, 3.0)]
    entries += [Entry(3.5, (), (Noted("no batch"),))]
    entries += [Entry(4.0, (ev.JobStarted(1),)), Entry(5.0, (ev.JobEnded(1, "completed"),))]
    for entry in entries:
        effects = live.take(entry)
        failed = live.policy_failed()
        rows.append(draft(entry).with_effects(effects, None if failed is None else (*entry.facts, failed)))
    assert live.core.policy_failure
    assert ["policy_failed" in row.facts for row in rows][-5:] == [True, True, False, True, True]

    repaired = True
    again = LogState(era)
    for row in rows:
        entry, logged = decode(row)
        assert again.take(entry) == logged
    assert again.core.policy_failure == live.core.policy_failure
    assert again.core.explain(2) == live.core.explain(2)
    decided = again.take(Entry(6.0, (ev.WakeUp(),)))
    assert ev.StartJob in map(type, decided)
    assert again.core.policy_failure == ""
    assert again.policy_failed() is None


def test_a_note_after_a_failure_does_not_spoil_the_next_pass() -> None:
    """What a failed policy answered is logged once, with its pass, and taken there alone."""
    live, again = easy("a"), easy("a")
    mistaken = Repairable(repaired=False)
    entries = [
        submitted(1, 10.0, 1.0, "raises"),
        Entry(2.0, (), (Noted("nothing happens"),)),
        Entry(3.0, (ev.CancelJob(1),)),
        submitted(2, 10.0, 4.0),
    ]
    for log_state in (live, again):
        log_state.core.use(mistaken, Settings())
    effects: list[ev.Effect] = []
    for entry in entries:
        effects, failed = live.take(entry), live.policy_failed()
        row = draft(entry).with_effects(effects, None if failed is None else (*entry.facts, failed))
        assert again.take(decode(row)[0]) == effects
    assert again.core.snapshot() == live.core.snapshot()
    assert ev.StartJob in map(type, effects)


def pauses(log_state: LogState) -> tuple[float | None, float]:
    settings = log_state.core.save()[0].settings
    return settings.pass_interval_s, settings.cooldown_s


def test_a_grace_after_walltimes_holds_for_jobs_that_run() -> None:
    # walltime 10 s from 1 s on; before 11 s it is said that jobs have 5 s more, after 16 s it has not been ended
    log_state = LogState(msgspec.structs.replace(ERA, policy="easy", parameters={}))
    log_state.take(submitted(1, 10.0, 0.0))
    log_state.take(Entry(1.0, (ev.JobStarted(1),), ()))
    given = Configured(("a",), "easy", {}, walltime_grace_s=5.0)
    log_state.take(Entry(9.0, (ev.WakeUp(),), (given,)))
    assert not any(isinstance(effect, events.KillJob) for effect in log_state.take(Entry(11.0, (ev.WakeUp(),), ())))
    assert any(isinstance(effect, events.KillJob) for effect in log_state.take(Entry(16.0, (ev.WakeUp(),), ())))


def test_a_shorter_grace_holds_at_once() -> None:
    log_state = LogState(msgspec.structs.replace(ERA, policy="easy", parameters={}))
    given = Configured(("a",), "easy", {}, walltime_grace_s=50.0)
    log_state.take(Entry(0.0, (ev.WakeUp(),), (given,)))
    log_state.take(submitted(1, 10.0, 0.0))
    log_state.take(Entry(1.0, (ev.JobStarted(1),), ()))
    assert not any(isinstance(effect, events.KillJob) for effect in log_state.take(Entry(12.0, (ev.WakeUp(),), ())))
    none = msgspec.structs.replace(given, walltime_grace_s=0.0)
    assert events.KillJob(1, "over its walltime of 10 s") in log_state.take(Entry(20.0, (ev.WakeUp(),), (none,)))


def test_pauses_are_the_policys_unless_others_are_given() -> None:
    log_state = LogState(ERA)
    compat = Policy("malleable-compat", {})
    as_meant = Configured(("a",), "malleable-compat", {})
    log: list[tuple[AnyFact, tuple[float | None, float]]] = [
        (compat, (5.0, 60.0)),
        (msgspec.structs.replace(as_meant, pass_interval_s=7.0, cooldown_s=0.0), (7.0, 0.0)),
        (Policy("easy", {}), (7.0, 0.0)),  # chosen at run time
        (compat, (7.0, 0.0)),
        (msgspec.structs.replace(as_meant, pass_interval_s=0.0), (None, 60.0)),
        (as_meant, (5.0, 60.0)),
    ]
    for number, (fact, expected) in enumerate(log):
        log_state.take(Entry(float(number), (ev.WakeUp(),), (fact,)))
        assert pauses(log_state) == expected, fact
        assert pauses(LogState.thaw(ERA, log_state.freeze())) == expected
    assert log_state.core.save()[0].settings.cores_per_node == 4
    assert log_state.policy == compat


def easy(*nodes: str) -> LogState:
    return LogState(msgspec.structs.replace(ERA, nodes=nodes, policy="easy", parameters={}, cores_per_node=1))


def test_ids_and_names_are_given_once_and_handlers_are_followed() -> None:
    log_state = easy("a", "b")
    request = JobRequest(name="job", command=("x",), hold=True)
    log_state.take(Entry(0.0, (), (Requested(1, request),)))
    assert log_state.next_job_id == 2, "also while a job is kept back"
    log_state.take(submitted(5, 10.0, 1.0))
    assert log_state.next_job_id == 6
    phases = []
    for event in (ev.JobStarted(5), ev.MalleableReady(5), ev.MalleableEnded(5)):
        log_state.take(Entry(1.5, (event,), ()))
        phases.append(log_state.jobs[5].phase)
    assert phases == ["silent", "ready", "disabled"]
    assert log_state.new_reservation() == "r1"
    log_state.take(Entry(2.0, (ev.ReservationMade(AdvanceReservation("r1", 50.0, 60.0, 1)),), ()))
    log_state.take(Entry(3.0, (ev.ReservationCancelled("r1"),), ()))
    assert log_state.new_reservation() == "r2"


def test_attempts_whose_ends_are_known() -> None:
    log_state = easy("a", "b")
    request = JobRequest(name="job", command=("x",), requeue=True)
    log_state.take(Entry(0.0, (), (Requested(1, request, admitted=1), Requested(2, request, admitted=1))))
    log_state.take(Entry(1.0, (ev.JobStarted(1), ev.JobStarted(2)), ()))
    log_state.take(Entry(2.0, (ev.JobEnded(1, "completed"), ev.JobEnded(2, "lost")), ()))
    assert log_state.has_end(1, 1)
    assert log_state.has_end(2, 1), "also if it waits to be run again"
    assert not log_state.has_end(2, 2)
    assert not log_state.has_end(3, 1)


def test_the_record_has_jobs_that_are_kept_back() -> None:
    log_state = easy("a", "b")
    log_state.take(submitted(1, 100.0, 0.0))
    log_state.take(Entry(5.0, (), (Requested(2, JobRequest(name="held", command=("x",), user="anna", hold=True)),)))
    log_state.take(Entry(6.0, (), (Requested(3, JobRequest(name="next", command=("x",), after_ok=(1,))),)))
    record = log_state.record()
    assert [(job.job_id, job.state, job.submit_s, job.reason) for job in record.jobs] == [
        (1, "waiting", 0.0, ""),
        (2, "waiting", 5.0, "its user holds it"),
        (3, "waiting", 6.0, "it waits for the end of job 1"),
    ]
    assert record.end_s == 6.0
    assert [(use.user, use.open) for use in use_by_user([record])] == [("", 2), ("anna", 1)]
    log_state.take(Entry(7.0, (ev.JobSubmitted(log_state.jobs[2].spec),), (Held(2, held=False, by="user"),)))
    assert [job.job_id for job in log_state.record().jobs] == [1, 2, 3]


def test_what_jobs_hold_is_added_up_in_seconds_of_nodes() -> None:
    log_state = easy("a", "b")
    log_state.take(submitted(1, 100.0, 10.0))
    log_state.take(Entry(12.0, (ev.JobStarted(1),), ()))
    log_state.take(Entry(40.0, (ev.JobEnded(1, "completed"),), ()))
    log_state.take(Entry(50.0, (ev.WakeUp(),), ()))
    assert (log_state.busy_node_s, log_state.node_s) == (30.0, 100.0)
    (job,) = log_state.recorder.record().jobs
    assert (job.state, job.end_s) == ("completed", 40.0)


def test_a_job_that_was_kept_back_is_judged_when_another_has_ended() -> None:
    log_state = easy("a")
    log_state.take(submitted(1, 100.0, 0.0))
    assert 1 not in log_state.kept
    after = JobRequest(name="job", command=("x",), after_any=(1,))
    log_state.take(Entry(1.0, (ev.JobStarted(1),), (Requested(2, after),)))
    assert log_state.admissions(None) == []
    log_state.take(Entry(2.0, (ev.JobEnded(1, "failed"),), ()))
    assert [(job.spec.job_id, why) for job, why in log_state.admissions(None)] == [(2, "")]


def test_a_job_is_judged_when_it_comes() -> None:
    log_state = easy("a")
    assert log_state.admissions(None) == []
    log_state.take(Entry(1.0, (), (Requested(1, JobRequest(name="job", command=("x",))),)))
    assert [(job.spec.job_id, why) for job, why in log_state.admissions(None)] == [(1, "")]


def test_what_a_restart_changes_is_remembered_and_nothing_else(tmp_path: Path) -> None:
    config = DaemonConfig(("a", "b"), state_dir=tmp_path, policy="easy")
    (now,) = configured(Configured(("a",), "easy", {}), config)
    assert isinstance(now, Configured)
    assert now.nodes == ("a", "b")
    assert configured(now, config) == []
    assert configured(msgspec.structs.replace(now, policy="fcfs"), config) == [now, Policy("easy", {})]
