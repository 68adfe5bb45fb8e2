"""A job of ours under a v1 scheduler, as a pure machine: its lines become orders, our messages become its lines.

=================  ===============================================================================================
the scheduler      we
=================  ===============================================================================================
``grow N h...``    order a grow; when it is done, report its times (v1 knows no other answer)
``shrink N``       order a shrink; when it is done, answer N lines and report its times; when it is not, hang up,
                   so that the scheduler need not wait for its 20 s
anything else      hang up
=================  ===============================================================================================

What v1 cannot say is not said: refusals, deferrals, progress, losses of nodes, the end of the handler.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from apgas.malleability import orders as wire
from apgas.malleability.v1 import lines

UNANSWERED = "protocol v1 gives no answer; nodes that are granted come with an order"


@dataclass(frozen=True, slots=True)
class Give:
    """Hand an order to the runtime."""

    order: wire.Grow | wire.Shrink


@dataclass(frozen=True, slots=True)
class Report:
    """Tell the scheduler on a connection of its own."""

    report: lines.Report


@dataclass(frozen=True, slots=True)
class Reply:
    """Write ``hosts`` on the connection that brought ``order`` (none: it failed), and close it."""

    order: int
    hosts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AnswerSelf:
    """Answer the program's own request, because the scheduler never will."""

    answer: wire.Answer


Action: TypeAlias = Give | Report | Reply | AnswerSelf


class JobSide:
    """What is known of the job and its orders."""

    def __init__(self) -> None:
        self._next = 0
        self._nodes: list[str] = []

    def ordered(self, line: bytes) -> Give:
        """Take a line of the scheduler.

        Raises:
            lines.BadLineError: It is no order.
        """
        order = lines.parse_order(line)
        number = self._next
        self._next += 1
        if isinstance(order, lines.Grow):
            return Give(wire.Grow(order=number, count=len(order.hosts), nodes=order.hosts))
        return Give(wire.Shrink(order=number, count=order.count))

    def said(self, message: wire.Message) -> list[Action]:
        """Take a message of the job and say what becomes of it."""
        match message:
            case wire.Ready():
                self._nodes = list(message.nodes)
                return [Report(lines.Ready())]
            case wire.Outcome(kind="grow" | "shrink"):
                return self._outcome(message)
            case wire.Evolving():
                return [*self._evolving(message), AnswerSelf(wire.Answer(message.request, 0, UNANSWERED))]
            case wire.Lost():
                self._nodes = [node for node in self._nodes if node not in message.nodes]
                return []
            case _:
                return []

    def _outcome(self, outcome: wire.Outcome) -> list[Action]:
        done = outcome.outcome == "done"
        actions: list[Action] = []
        if outcome.kind == "shrink":
            actions.append(Reply(outcome.order, outcome.nodes if done else ()))
        if not done:
            return actions
        if outcome.kind == "grow":
            self._nodes += outcome.nodes
        else:
            self._nodes = [node for node in self._nodes if node not in outcome.nodes]
        own_s = outcome.seconds - outcome.phases.get("pre", 0.0) - outcome.phases.get("post", 0.0)
        for name, (kind, phase) in lines.PHASES.items():
            if kind == outcome.kind and outcome.nodes:
                seconds = outcome.phases.get(phase, 0.0) if phase else max(0.0, own_s)
                actions.append(Report(lines.Took(name, len(outcome.nodes), round(seconds * 1e9))))
        return actions

    def _evolving(self, message: wire.Evolving) -> list[Action]:
        if message.delta > 0:
            return [Report(lines.Request(message.delta))]
        # The job would choose itself which nodes it gives; v1 wants a name, so it is those that came last.
        return [Report(lines.Release(node)) for node in reversed(self._nodes[1:][message.delta :])]
