"""Requests of users and operators become events: submissions, cancellations, holds, priorities, nodes, the policy."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from scheduler_bridge.core import Explanation, JobState
from scheduler_bridge.core import events as ev
from scheduler_bridge.daemon import requests
from scheduler_bridge.daemon.admission import JobFacts, admitted, ahead_of, blocked, crowded
from scheduler_bridge.daemon.config import Limits
from scheduler_bridge.daemon.jobs.orders import Handle
from scheduler_bridge.daemon.jobs.template import check_command
from scheduler_bridge.daemon.requests import JobRequest, SubmitError
from scheduler_bridge.daemon.storage import log_entries
from scheduler_bridge.daemon.storage.log_state import LogState, spec_of
from scheduler_bridge.model import AdvanceReservation, InvalidJobError, JobSpec, wording

_CHANGES: Final[dict[requests.NodeChange, Callable[[str], ev.Event]]] = {
    "add": ev.NodeUp, "resume": ev.NodeUp, "drain": ev.NodeDrained, "down": ev.NodeDown, "remove": ev.NodeRemoved,
}  # fmt: skip
"""What happens to a node that is changed so."""


class Submissions:
    """Takes what users and operators ask for: checks it, and has the core or the log take it as events and facts.

    What is asked of a job raises ``KeyError`` if there never was one, and ``ValueError`` if it waits or runs no more.

    Args:
        log_state: What is known.
        handle: Reports events.
        now_s: The scheduler's clock.
        limits: How many jobs wait and run at most, and what one user's requests take.
        user_jobs: How many jobs of one user wait and run at most.
        lacks: Says why there can be no node of a name; empty if there can.
        log_behind: Says why the log cannot be written; empty if it can.
    """

    def __init__(
        self,
        log_state: LogState,
        handle: Handle,
        now_s: Callable[[], float],
        limits: Limits,
        user_jobs: int | None,
        lacks: Callable[[str], str] = lambda _: "",
        log_behind: Callable[[], str] = lambda: "",
    ) -> None:
        self._log_state = log_state
        self._lacks = lacks
        self._log_behind = log_behind
        self._limits = limits
        self._now_s = now_s
        self._handle = handle
        self._user_jobs = user_jobs
        self._judging = False

    def submit(self, request: JobRequest, array: Sequence[int] = ()) -> list[int]:
        """Queue jobs in one decision; see ``Daemon.submit_array``."""
        self._check_log("job")
        if twice := [number for number, often in Counter(array).items() if often > 1]:
            raise SubmitError(
                f"the array has number {twice[0]} more than once",
                field="array",
                why="its jobs differ by their numbers alone",
                hint="give each number once, for example 0-3,5",
            )
        # The jobs of an array ask for the same: what is right for the first one is right for all.
        first = self._log_state.next_job_id
        asked = log_entries.Requested(first, request, tuple(array))
        ids = [job_id for job_id, _ in asked.jobs()]
        self._check_room(asked, len(ids))
        check_command(requests.array_job(request, array[0] if array else None))
        spec = self._spec(first, request)
        asked = msgspec.structs.replace(asked, admitted=self._admitted_of(request, len(ids)))
        ahead = self._placed(JobFacts(request, spec, priority=request.priority)) if asked.admitted else None
        moves = () if ahead is None else [ev.JobMoved(job_id, ahead) for job_id in ids[: asked.admitted]]
        self._handle(*moves, facts=[asked])
        return ids

    def retract(self, job_ids: Sequence[int]) -> None:
        """End jobs that were taken, but whose submission could not be written; their user gets an error."""
        events = [event for job_id in job_ids if job_id in self._log_state.jobs for event in self.cancelled(job_id)]
        if events:
            self._handle(*events)

    def _check_log(self, what: str) -> None:
        if behind := self._log_behind():
            raise log_error(behind, what)

    def _check_room(self, asked: log_entries.Requested, jobs: int) -> None:
        """See that a request is of a size that is kept, for ``jobs`` jobs, beside those that wait or run."""
        open_jobs, limits = len(self._log_state.jobs), self._limits
        if open_jobs + jobs > limits.open_jobs:
            more = f", {jobs} more are asked for" if asked.array else ""
            raise SubmitError(f"{open_jobs} jobs wait or run{more}", why=f"{limits.open_jobs} are taken")
        if (size := len(msgspec.json.encode(asked))) > requests.REQUEST_MOST_BYTES:
            raise SubmitError(
                f"the request has {size} bytes, more than {requests.REQUEST_MOST_BYTES}",
                why="the log keeps command and environment of each job",
                hint="give large input to the job in a file",
            )
        if (taken := self._log_state.request_bytes[asked.request.user]) + size > limits.user_bytes:
            raise SubmitError(
                f"the requests of {asked.request.user or 'a user without a name'} have {taken} bytes, this one {size}",
                why=f"{limits.user_bytes} bytes are kept of a user's jobs that wait or run",
                hint="submit it when some of them are over, or many jobs of one request as an array",
            )

    def _spec(self, job_id: int, request: JobRequest) -> JobSpec:
        try:
            spec = spec_of(job_id, request, self._now_s())
        except InvalidJobError as error:
            raise SubmitError(str(error)) from None
        if spec.min_nodes > (nodes := self._log_state.core.pool.staying):
            raise _too_large(spec, f"job {job_id} needs {wording.nodes(spec.min_nodes)}, the cluster has {nodes}")
        if (most := self._log_state.core.settings.user_nodes) is not None and spec.min_nodes > most:
            raise _too_large(spec, f"job {job_id} needs {wording.nodes(spec.min_nodes)}, a user may have {most}")
        if request.reservation:
            self._check_reservation(spec)
        return spec

    def _check_reservation(self, spec: JobSpec) -> None:
        """See that a job can run as the reservation's that it asks for."""
        name = spec.reservation
        kept = self._log_state.core.reservation(name)
        if kept is None:
            raise SubmitError(
                f"there is no reservation {name}",
                field="reservation",
                why="it was never made, was cancelled, or is over",
                hint="malleable reserve list shows those that there are",
            )
        if not kept.admits(spec.user):
            raise SubmitError(
                f"reservation {name} is not for {spec.user or 'a user without a name'}",
                field="reservation",
                why=f"it is for {', '.join(kept.users)}",
                hint="submit without it, or have it made for this user, too",
            )
        if spec.min_nodes > kept.nodes:
            needs = wording.nodes(spec.min_nodes)
            raise _too_large(spec, f"the job needs {needs}, reservation {name} has {kept.nodes}")
        left_s = kept.end_s - max(kept.start_s, self._now_s())
        if spec.walltime_s > left_s:
            raise SubmitError(
                f"the walltime of {spec.walltime_s:g} s is more than reservation {name} leaves, {left_s:.0f} s",
                field="walltime_s",
                why="a job of a reservation ends with it at the latest",
                hint=f"give a walltime of at most {left_s:.0f} s",
            )

    def reserve(self, request: requests.Reserve) -> str:
        """Keep nodes for a later time, as ``Daemon.reserve`` does; return the reservation's name."""
        self._check_log("reservation")
        for text in (request.name, *request.users):
            if not text.isprintable():
                raise ValueError(f"{text!r} cannot be printed")
        nodes = request.nodes if request.nodes is not None else len(request.named)
        start_s = self._now_s() + request.in_s
        name = request.name or self._log_state.new_reservation()
        wanted = AdvanceReservation(
            name, start_s, start_s + request.duration_s, nodes, request.named, request.users, request.jobs
        )
        for effect in self._handle(ev.ReservationMade(wanted)):
            if isinstance(effect, ev.RefuseReservation) and effect.name == name:
                raise ValueError(effect.reason)
        return name

    def unreserve(self, name: str) -> None:
        """Keep the nodes of a reservation no longer.

        Raises:
            ValueError: There is none of this name.
        """
        if self._log_state.core.reservation(name) is None:
            raise ValueError(f"there is no reservation {name}")
        self._handle(ev.ReservationCancelled(name))

    def _admitted_of(self, request: JobRequest, jobs: int) -> int:
        """Return how many of ``jobs`` jobs the core is to hear of at once; raises if it never could of any."""
        for field, others in (("after_ok", request.after_ok), ("after_any", request.after_any)):
            for other in others:
                if other not in self._log_state.jobs and self._log_state.ended(other) is None:
                    raise SubmitError(f"there is no job {other} to come after", field=field)
        if request.hold or request.after_ok or request.after_any:
            return 0
        if self._user_jobs is None:
            return jobs
        return min(jobs, max(0, self._user_jobs - self._admitted().get(request.user, 0)))

    def _placed(self, job: JobFacts) -> int | None:
        """Return the waiting job, one of lower priority, before which a job comes into the queue; None: it is last."""
        if not (self._log_state.prioritised or job.priority):
            return None
        return ahead_of(job, self._log_state.core.waiting, self._log_state.jobs)

    def judge(self) -> None:
        """Let jobs that were kept back into the queue, or end them, where that is due."""
        if self._judging:  # What an admission leads to is decided when all of its time are carried out
            return
        self._judging = True
        try:
            while admissions := self._log_state.admissions(self._user_jobs):
                for job, hopeless in admissions:
                    events: list[ev.Event] = [ev.JobSubmitted(job.spec)]
                    if hopeless:
                        events.append(ev.CancelJob(job.spec.job_id, hopeless))
                    elif (ahead := self._placed(job)) is not None:
                        events.append(ev.JobMoved(job.spec.job_id, ahead))
                    self._handle(*events)
        finally:
            self._judging = False

    def hold(self, job_id: int, held: bool, by: requests.HeldBy = "operator") -> None:
        """Keep a waiting job back, or release it. Its user's hold adds nothing to an operator's."""
        job = self._waiting(job_id)
        events = [ev.JobWithdrawn(job_id)] if held and job_id not in self._log_state.kept else []
        self._handle(*events, facts=[log_entries.Held(job_id, held, "operator" if job.held_by == "operator" else by)])

    def prioritise(self, job_id: int, priority: int) -> None:
        """Give a waiting job another priority."""
        job = self._waiting(job_id)
        events: list[ev.Event] = []
        if job_id not in self._log_state.kept:
            moved = dataclasses.replace(job, priority=priority)
            events = [ev.JobMoved(job_id, ahead_of(moved, self._log_state.core.waiting, self._log_state.jobs))]
        self._handle(*events, facts=[log_entries.Prioritised(job_id, priority)])

    def change_node(self, node: str, to: requests.NodeChange) -> None:
        """Add a node or remove it, drain it, put it back into service, or take it down at once.

        Raises:
            ValueError: There is such a node already, there is or can be none, or no other one would be left.
        """
        core = self._log_state.core
        if (node in core.pool) == (to == "add"):
            raise ValueError(f"there is a node {node} already" if to == "add" else f"there is no node {node}")
        if to == "add" and (why := self._lacks(node)):
            raise ValueError(f"node {node} is not added: {why}")
        if to == "remove" and core.pool.staying < 2 and not core.pool.is_leaving(node) and node not in core.lent:
            raise ValueError(f"node {node} is not removed: it is the last one")
        self._handle(_CHANGES[to](node))

    def _waiting(self, job_id: int) -> JobFacts:
        self.require_open(job_id)
        job = self._log_state.jobs[job_id]
        if job_id not in self._log_state.kept and self._log_state.core.state(job_id) is not JobState.QUEUED:
            raise ValueError(f"job {job_id} does not wait any more, it is {self._log_state.core.state(job_id)}")
        return job

    def cancel(self, job_id: int) -> None:
        """See ``Daemon.cancel``."""
        self.require_open(job_id)
        self._handle(*self.cancelled(job_id))

    def cancelled(self, job_id: int) -> list[ev.Event]:
        """The events that end a job."""
        job, kept = self._log_state.jobs[job_id], job_id in self._log_state.kept
        submitted = [ev.JobSubmitted(job.spec)] if kept else []  # So that the record has it.
        return [*submitted, ev.CancelJob(job_id)]

    def require_open(self, job_id: int) -> None:
        """See that a job has not ended."""
        if job_id not in self._log_state.jobs and (ended := self._log_state.core.ended(job_id)) is not None:
            raise ValueError(f"job {job_id} has ended already ({ended[0]})")

    def why_kept(self) -> dict[int, str]:
        """Say of each job that does not reach the core yet why that is."""
        counts = self._admitted()
        return {job_id: self._why_kept(self._log_state.jobs[job_id], counts) for job_id in self._log_state.kept}

    def explain(self, job_id: int) -> Explanation:
        """Explain a job, at the time of the last decision; see ``Daemon.explain``."""
        core = self._log_state.core
        if job_id not in self._log_state.kept:
            explanation = core.explanation(job_id)
            silence = self._silence(explanation)
            return msgspec.structs.replace(explanation, text="; ".join([explanation.text, *silence]))
        job = self._log_state.jobs[job_id]
        why = self._why_kept(job, self._admitted())
        moments = core.moments(job_id)
        return Explanation(job_id, job.spec.name, JobState.QUEUED, self._log_state.at_s, why, (), None, (), moments)

    def _silence(self, explanation: Explanation) -> list[str]:
        """Say of malleable jobs that are not resized, for they have never said that they can be, that this is so.

        They are the job itself, or those that a job waits for, which make no room.
        """
        silent = []
        for job_id in dict.fromkeys([explanation.job_id, *(claim.job_id for claim in explanation.counts_on)]):
            job = self._log_state.jobs.get(job_id)
            if job is None or job.phase != "silent" or not job.spec.is_malleable:
                continue
            if self._log_state.core.state(job_id) is not JobState.RUNNING:
                continue
            own = job_id == explanation.job_id
            said = f"{'it' if own else f'job {job_id}'} has not said that it is ready to be resized"
            if own and job.request.protocol == "v1":
                said += " (APGAS-Ready, of which its error output says more)"
            silent.append(said)
        return silent

    def _why_kept(self, job: JobFacts, counts: Mapping[str, int]) -> str:
        return blocked(job, self._log_state.ended) or crowded(job.request, counts, self._user_jobs)

    def _admitted(self) -> Mapping[str, int]:
        """How many jobs each user has in the queue and running, if that counts: counting takes a look at every job."""
        return {} if self._user_jobs is None else admitted(self._log_state.jobs, self._log_state.kept)


def _too_large(spec: JobSpec, reason: str) -> SubmitError:
    return SubmitError(reason, field="min_nodes" if spec.is_malleable else "nodes", hint="ask for fewer nodes")


def log_error(behind: str, what: str = "job") -> SubmitError:
    """Return why nothing is taken while the log cannot be written, because of ``behind``."""
    return SubmitError(
        f"no {what} is taken now: the log cannot be written: {behind}",
        why=f"a {what} is taken when the log has it on the disk",
        hint="make room where the state folder is, and try again",
    )
