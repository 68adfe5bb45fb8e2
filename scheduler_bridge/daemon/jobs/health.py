"""Nodes that do not answer: out of service until they do, unless an operator decides otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from scheduler_bridge.core import JobState, NodeState
from scheduler_bridge.core import events as ev
from scheduler_bridge.daemon.jobs.orders import Handle
from scheduler_bridge.daemon.jobs.template import is_resilient
from scheduler_bridge.daemon.storage import log_entries
from scheduler_bridge.daemon.storage.ledger import Ledger


class Standing(StrEnum):
    """How a node stands: in service, out of it for not answering, or because an operator wants that.

    One that an operator has taken out may still have jobs; one that is away has none, and one that has left
    the cluster is gone.
    """

    SERVING = "serving"
    AILING = "ailing"
    OUT = "out"
    AWAY = "away"
    GONE = "gone"


class Health:
    """Takes nodes out of service that do not answer, and puts them back.

    Args:
        ledger: What is known.
        handle: Reports events.
    """

    def __init__(self, ledger: Ledger, handle: Handle) -> None:
        self._ledger = ledger
        self._handle = handle

    def standing(self, node: str) -> Standing:
        """How a node stands."""
        if node in self._ledger.ailing:
            return Standing.AILING
        try:
            state = self._ledger.core.node_state(node)
        except KeyError:
            return Standing.GONE
        if state is NodeState.LOST:
            return Standing.OUT
        return Standing.AWAY if state is NodeState.DOWN else Standing.SERVING

    def _is_out(self, node: str) -> bool:
        return self.standing(node) in (Standing.OUT, Standing.AWAY)

    def nodes_of(self, job_id: int) -> tuple[str, ...]:
        """Return the nodes of a job that is not being ended; none if there is no such job."""
        core = self._ledger.core
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
        """Put a node back into service."""
        self._handle(ev.NodeUp(node))

    def first(self, reasons: Mapping[str, str]) -> tuple[list[ev.Event], list[log_entries.AnyFact]]:
        """What there is to say of nodes that do not answer when the scheduler begins."""
        known = self._ledger.core.nodes
        nodes = [node for node in reasons if node not in known or self.standing(node) is Standing.SERVING]
        return [ev.NodeDrained(node) for node in nodes], [log_entries.Ailing(node, reasons[node]) for node in nodes]

    def _take_out(self, event: ev.NodeDown | ev.NodeDrained, reason: str) -> None:
        by_wish = self._is_out(event.node)
        self._handle(event, facts=[] if by_wish else [log_entries.Ailing(event.node, reason)])

    def _can_do_without(self, node: str) -> bool:
        """Whether all jobs on a node were started such that they survive the loss of it."""
        core = self._ledger.core
        return all(
            is_resilient(self._ledger.jobs[job_id].request)
            and core.nodes_of(job_id)[0] != node  # where place 0 is
            and core.state(job_id) not in (JobState.CLAIMING, JobState.STARTING)
            for job_id in core.holders(node)
        )
