"""Nodes that do not answer, or are in use unknown to the log: out of service meanwhile, unless an operator decides."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from scheduler_bridge.core import JobState
from scheduler_bridge.core import events as ev
from scheduler_bridge.daemon.jobs.orders import Handle
from scheduler_bridge.daemon.requests import is_resilient
from scheduler_bridge.daemon.storage import log_entries
from scheduler_bridge.daemon.storage.log_state import LogState


class Standing(StrEnum):
    """How a node stands: in service, out of it for not answering or being in use, or because an operator wants that.

    One that an operator has taken out may still have jobs; one that is away has none, and one that has left
    the cluster is gone.
    """

    SERVING = "serving"
    AILING = "ailing"
    OUT = "out"
    AWAY = "away"
    GONE = "gone"


class Health:
    """Takes nodes out of service that do not answer, and puts them back."""

    def __init__(self, log_state: LogState, handle: Handle) -> None:
        self._log_state = log_state
        self._handle = handle

    def standing(self, node: str) -> Standing:
        """How a node stands."""
        if node in self._log_state.ailing:
            return Standing.AILING
        try:
            state = self._log_state.core.pool.state(node)
        except KeyError:
            return Standing.GONE
        if state == "draining":
            return Standing.OUT
        return Standing.AWAY if state == "down" else Standing.SERVING

    def nodes_of(self, job_id: int) -> tuple[str, ...]:
        """Return the nodes of a job that is not being ended; none if there is no such job."""
        core = self._log_state.core
        try:
            return core.nodes_of(job_id) if core.state(job_id) is not JobState.ENDING else ()
        except KeyError:
            return ()

    def suspect(self, node: str, reason: str) -> None:
        """Give a node no further jobs until it is regained; those that it has go on."""
        self._take_out(ev.NodeDrained(node), reason)

    def lose(self, node: str, reason: str, *, spare: bool) -> None:
        """Take a node out of service; its jobs are ended, unless they are to be spared and can go on without it."""
        if spare and self._can_do_without(node):
            self.suspect(node, reason)
        else:
            self._take_out(ev.NodeDown(node, reason), reason)

    def regain(self, node: str) -> None:
        """Put a node back into service, unless an unknown attempt runs there."""
        if node not in self._log_state.occupied:
            self._handle(ev.NodeUp(node))

    def first(
        self, silent: Mapping[str, str], occupied: Mapping[str, str]
    ) -> tuple[list[ev.Event], list[log_entries.AnyFact]]:
        """What there is to say of nodes when the scheduler begins.

        Args:
            silent: Those that do not answer, and what they failed with.
            occupied: Those on which attempts run that the log does not know, and these.
        """
        known = self._log_state.core.pool
        reasons = {
            **silent,
            **{node: f"attempt {key} runs there, and the log does not know of it" for node, key in occupied.items()},
        }
        nodes = [node for node in reasons if node not in known or self.standing(node) is Standing.SERVING]
        again = [node for node in self._log_state.occupied if node not in reasons]
        facts = [log_entries.Ailing(node, reasons[node], occupied.get(node, "")) for node in nodes]
        return [*map(ev.NodeUp, again), *map(ev.NodeDrained, nodes)], [*facts]

    def vacate(self, attempt: str) -> None:
        """Put the nodes of an attempt back into service that the log does not know and that is over."""
        if nodes := [node for node, key in self._log_state.occupied.items() if key == attempt]:
            self._handle(*map(ev.NodeUp, nodes))

    def _take_out(self, event: ev.NodeDown | ev.NodeDrained, reason: str) -> None:
        by_wish = self.standing(event.node) in (Standing.OUT, Standing.AWAY)
        attempt = self._log_state.occupied.get(event.node, "")
        self._handle(event, facts=[] if by_wish else [log_entries.Ailing(event.node, reason, attempt)])

    def _can_do_without(self, node: str) -> bool:
        """Whether all jobs on a node were started such that they survive the loss of it."""
        core = self._log_state.core
        return all(
            is_resilient(self._log_state.jobs[job_id].request)
            and core.nodes_of(job_id)[0] != node  # where place 0 is
            and core.state(job_id) not in (JobState.CLAIMING, JobState.STARTING)
            for job_id in core.pool.holders(node)
        )
