"""A v1 job under a scheduler of ours, as a pure machine: between v2's messages and v1's lines.

An order at a time; each ends in exactly one outcome. v1 has no answer to a grow but the report of its time, and none at
all to one that failed. So a grow that was sent and not reported in time counts as done: nodes that may be in use are
not to be given to others. A shrink is done when all hosts were named. If only some were, the order is aborted, and
those count as lost by the job: it runs there no more. A job whose answer makes no sense gets no further orders.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from apgas.malleability import orders as wire
from apgas.malleability.v1 import lines

GROW_REPORT_S = 45.0
"""How long a grow may take until it is reported; with the time to connect, less than a scheduler waits (60 s)."""
SHRINK_LINE_S = 20.0
"""How long each host of a shrink may take to be named."""
SHRINK_S = 50.0
"""How long all of them together may; likewise less than a scheduler waits."""


@dataclass(frozen=True, slots=True)
class Dial:
    """Connect to the job, say ``line``, and read ``answers`` lines."""

    order: int
    line: bytes
    answers: int


class Translator:
    """The state of one v1 job.

    Args:
        nodes: Those that it starts on, place 0 on the first.
    """

    def __init__(self, nodes: Sequence[str]) -> None:
        self._nodes = list(nodes)
        self._open: wire.Grow | wire.Shrink | None = None
        self._phases: dict[str, float] = {}
        self._ready = False
        self._over = False
        self._requests = 0
        self._losses = 0

    @property
    def open(self) -> int | None:
        """The order that has no outcome yet."""
        return self._open.order if self._open is not None else None

    # the job's reports ----------------------------------------------------------------------------------------------

    def reported(self, line: bytes) -> list[wire.Message]:
        """Take a line that came on the report port.

        Raises:
            lines.BadLineError: It is no report.
        """
        report, _ = lines.parse_report(line)
        match report:
            case lines.Ready():
                return self._got_ready()
            case lines.Took():
                return self._took(report)
            case lines.Request():
                return self._asks(report.count)
            case lines.Release():
                return self._asks(-1)

    def _got_ready(self) -> list[wire.Message]:
        if self._ready:
            return []  # It says so again after a resize.
        self._ready = True
        return [wire.Ready(nodes=tuple(self._nodes))]

    def _asks(self, delta: int) -> list[wire.Message]:
        if not self._ready or self._over:
            return []
        self._requests += 1
        return [wire.Evolving(request=self._requests, delta=delta)]

    def _took(self, report: lines.Took) -> list[wire.Message]:
        kind, phase = lines.PHASES[report.name]
        order = self._open
        if order is None or kind != ("grow" if isinstance(order, wire.Grow) else "shrink"):
            return []  # Of an order that is over.
        self._phases[phase or ("spawn" if kind == "grow" else "release")] = report.nanoseconds / 1e9
        if isinstance(order, wire.Grow) and not phase:
            return self._close("done", "", order.nodes)
        return []

    # the scheduler's orders -----------------------------------------------------------------------------------------

    def ordered(self, order: wire.Order) -> Dial | list[wire.Message]:
        """Take an order: dial the job, or answer at once. There must be no open one."""
        if isinstance(order, wire.Workers):
            reason = "protocol v1 has no such order"
            return [wire.Outcome(order=order.order, kind="workers", outcome="refused", reason=reason)]
        kind: Literal["grow", "shrink"] = "grow" if isinstance(order, wire.Grow) else "shrink"
        refusal = self._refusal(order)
        if refusal:
            return [wire.Outcome(order=order.order, kind=kind, outcome="refused", reason=refusal)]
        self._open = order
        self._phases = {}
        if isinstance(order, wire.Grow):
            return Dial(order.order, lines.order_line(lines.Grow(order.nodes)), 0)
        return Dial(order.order, lines.order_line(lines.Shrink(order.count)), order.count)

    def _refusal(self, order: wire.Grow | wire.Shrink) -> str:
        if self._open is not None:
            return f"order {self._open.order} has not ended"
        if not self._ready or self._over:
            return "the job takes no orders"
        if isinstance(order, wire.Grow) and len(order.nodes) != order.count:
            return "protocol v1 wants a name for every node"
        if isinstance(order, wire.Shrink) and order.count >= len(self._nodes):
            return f"the job has {len(self._nodes)} nodes"
        return ""

    def unreachable(self, order: int, reason: str) -> list[wire.Message]:
        """The order could not be said: nothing has happened."""
        return self._close("aborted", f"the job cannot be reached: {reason}") if order == self.open else []

    def overdue(self, order: int) -> list[wire.Message]:
        """A grow was said, and no report of it came."""
        if order != self.open or not isinstance(self._open, wire.Grow):
            return []
        reason = f"not reported within {GROW_REPORT_S:g} s; its nodes count as used"
        return self._close("done", reason, self._open.nodes)

    def answered(self, order: int, answer: Sequence[bytes], trouble: str, seconds: float) -> list[wire.Message]:
        """A shrink was answered within ``seconds`` by these lines, and then by ``trouble`` if they are too few."""
        shrink = self._open
        if shrink is None or order != shrink.order or not isinstance(shrink, wire.Shrink):
            return []
        released: list[str] = []
        for line in answer:
            try:
                name = lines.parse_host(line)
            except lines.BadLineError as error:
                trouble = str(error)
                break
            if name not in self._nodes or name in released:
                trouble = f"{name} is not a node of this job"
                break
            released.append(name)
        if len(released) == shrink.count:
            return self._close("done", "", tuple(released), seconds)
        reason = trouble or f"only {len(released)} of {shrink.count} hosts were named"
        messages = self._close("aborted", f"the job's answer ended: {reason}")
        kept = [node for node in self._nodes if node not in released]
        if released and kept:
            self._nodes = kept
            messages.append(wire.Lost(loss=self._losses, nodes=tuple(released), reason="released in part of a shrink"))
            self._losses += 1
        self._over = True
        return [*messages, wire.Disable()]

    def _close(
        self, outcome: wire.OutcomeKind, reason: str, nodes: tuple[str, ...] = (), seconds: float = 0.0
    ) -> list[wire.Message]:
        order, self._open = self._open, None
        assert order is not None
        grow = isinstance(order, wire.Grow)
        if outcome == "done":
            self._nodes = [*self._nodes, *nodes] if grow else [node for node in self._nodes if node not in nodes]
        done = wire.Outcome(
            order=order.order,
            kind="grow" if grow else "shrink",
            outcome=outcome,
            reason=reason,
            nodes=nodes if outcome == "done" else (),
            seconds=max(seconds, sum(self._phases.values())),
            phases=dict(self._phases),
        )
        return [done]
