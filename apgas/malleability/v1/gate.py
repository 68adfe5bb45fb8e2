"""Runs a v1 job as a job of a v2 scheduler: ``python -m apgas.malleability.v1.gate --nodes a,b -- COMMAND``.

The gate is the job as far as the scheduler knows: it speaks v2, with reconnection, and holds the token. The command is
its child and speaks v1 with it: it reports to ``MALLEABLE_V1_SCHEDULER`` and takes orders at ``MALLEABLE_V1_LISTEN``,
both on loopback unless they were set before. ``{v1_scheduler}`` and ``{v1_port}`` in the command stand for the same.
"""

from __future__ import annotations

import argparse
import logging
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from apgas.errors import ApgasError
from apgas.malleability import orders as wire
from apgas.malleability.communicator import SocketCommunicator, from_environment
from apgas.malleability.v1 import lines
from apgas.malleability.v1.communicator import ENV_LISTEN, ENV_SCHEDULER
from apgas.malleability.v1.lines import CONNECT_S, LinePort, address, read_line

_logger = logging.getLogger(__name__)

ENV_HOSTS = "MALLEABLE_HOSTS"
END_S = 10.0
"""How long the job may take to end when the scheduler is lost; then it is killed."""
GROW_REPORT_S = 45.0
"""How long a grow may take until it is reported; with the time to connect, less than a scheduler waits (60 s)."""
SHRINK_LINE_S = 20.0
"""How long each host of a shrink may take to be named."""
SHRINK_S = 50.0
"""How long all of them together may; likewise less than a scheduler waits."""
_LINE_BYTES = 1024


class Gate:
    """Between a v2 scheduler and one v1 job.

    Args:
        nodes: Those that the job starts on.
        communicator: The way to the scheduler.
        job: Where the job takes orders.
        reports: Where it is to report; port 0 for a free one.
        grow_s: Time for a grow to be reported.
        line_s: Time for each line of the answer to a shrink.

    Attributes:
        reports: Where the job is to report.
        lost: Set when the scheduler is lost: it is not known any more whose the nodes are, and the job has to end.

    Raises:
        OSError: The port for reports is not to be had.
    """

    def __init__(
        self,
        nodes: Sequence[str],
        communicator: SocketCommunicator,
        job: tuple[str, int],
        reports: tuple[str, int] = ("127.0.0.1", 0),
        *,
        grow_s: float = GROW_REPORT_S,
        line_s: float = SHRINK_LINE_S,
    ) -> None:
        self._communicator = communicator
        self._job = job
        self._grow_s = grow_s
        self._line_s = line_s
        self._translator = Translator(nodes)
        self._changed = threading.Condition()  # Guards the translator.
        self._orders: queue.SimpleQueue[wire.Order | None] = queue.SimpleQueue()
        self._port = LinePort(reports, self._reported)
        self.reports = (reports[0], self._port.port)
        self.lost = threading.Event()

    def start(self) -> None:
        """Connect to the scheduler, and carry its orders to the job from now on.

        Raises:
            ApgasError: The scheduler cannot be reached, or refuses.
        """
        self._communicator.start(self)
        threading.Thread(target=self._carry, name="v1-orders", daemon=True).start()

    def close(self) -> None:
        """Deliver what is pending and disconnect."""
        self._orders.put(None)
        self._port.close()
        self._communicator.close()

    # the scheduler's side (OrderListener) ---------------------------------------------------------------------------

    def order(self, order: wire.Order) -> None:
        """Take an order of the scheduler."""
        self._orders.put(order)

    def withdraw(self, order: wire.Withdraw) -> None:
        """v1 cannot take orders back: what was said to the job is carried out."""

    def answer(self, answer: wire.Answer) -> None:
        """v1 gives no answers; what is granted comes as an order."""

    def scheduler_lost(self, reason: str) -> None:
        """The job has to end."""
        _logger.error("the scheduler is lost: %s", reason)
        self.lost.set()

    # the job's side -------------------------------------------------------------------------------------------------

    def _reported(self, line: bytes, caller: socket.socket) -> bool:
        del caller
        with self._changed:
            self._send(self._translator.reported(line))
        return False

    def _carry(self) -> None:
        while (order := self._orders.get()) is not None:
            with self._changed:
                due = self._translator.ordered(order)
                if not isinstance(due, Dial):
                    self._send(due)
                    continue
            self._dial(due)

    def _dial(self, due: Dial) -> None:
        began_s = time.monotonic()
        try:
            connection = socket.create_connection(self._job, timeout=CONNECT_S)
        except OSError as error:
            with self._changed:
                self._send(self._translator.unreachable(due.order, str(error)))
            return
        with connection:
            answer, trouble = self._say(connection, due)
        with self._changed:
            if due.answers:
                self._send(self._translator.answered(due.order, answer, trouble, time.monotonic() - began_s))
                return
            if not self._changed.wait_for(lambda: self._translator.open != due.order, timeout=self._grow_s):
                self._send(self._translator.overdue(due.order))

    def _say(self, connection: socket.socket, due: Dial) -> tuple[list[bytes], str]:
        """Say an order and hear its answer; return the lines that came, and what went wrong then."""
        answer: list[bytes] = []
        end_s = time.monotonic() + SHRINK_S
        try:
            connection.sendall(due.line)
            while len(answer) < due.answers:
                answer.append(read_line(connection, min(end_s, time.monotonic() + self._line_s), _LINE_BYTES))
        except TimeoutError:
            return answer, f"no host was named within {self._line_s:g} s"
        except (OSError, lines.BadLineError) as error:
            return answer, str(error) or type(error).__name__
        return answer, ""

    def _send(self, messages: Sequence[wire.Message]) -> None:
        """Send the scheduler a message. Needs ``_changed``."""
        for message in messages:
            self._communicator.send(message)
        self._changed.notify_all()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status (128 + n if signal n ended it)."""
    parser = argparse.ArgumentParser(
        prog="python -m apgas.malleability.v1.gate", description="Runs a v1 job as a job of a v2 scheduler."
    )
    parser.add_argument("--nodes", required=True, help="the job's nodes, separated by commas")
    parser.add_argument("command", nargs="+", help="the v1 job, behind --")
    options = parser.parse_args(arguments)
    try:
        nodes = [lines.host(node) for node in options.nodes.split(",")]
    except lines.BadLineError as error:
        parser.error(f"--nodes: {error}")
    communicator = from_environment()
    if communicator is None:
        parser.error(f"this is no job of a scheduler: {wire.ENV_SCHEDULER} is not set")
    try:
        reports = address(os.environ.get(ENV_SCHEDULER) or "127.0.0.1:0", ENV_SCHEDULER)
        job = address(os.environ.get(ENV_LISTEN) or f"127.0.0.1:{_free_port()}", ENV_LISTEN, "127.0.0.1")
        gate = Gate(nodes, communicator, job, reports)
        try:
            gate.start()
            return _run(gate, options.command, nodes, job)
        finally:
            gate.close()
    except (ApgasError, OSError) as error:
        sys.stderr.write(f"v1 gate: {error}\n")
        return 1


def _run(gate: Gate, command: Sequence[str], nodes: Sequence[str], job: tuple[str, int]) -> int:
    scheduler = f"{gate.reports[0]}:{gate.reports[1]}"
    words = [word.replace("{v1_scheduler}", scheduler).replace("{v1_port}", str(job[1])) for word in command]
    inherited = {name: value for name, value in os.environ.items() if name not in _V2}
    environment = {
        **inherited, ENV_SCHEDULER: scheduler, ENV_LISTEN: f"{job[0]}:{job[1]}", ENV_HOSTS: ",".join(nodes)
    }  # fmt: skip
    child = subprocess.Popen(words, env=environment)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _: child.send_signal(number))
    over = threading.Event()
    threading.Thread(target=_end_when_lost, args=(gate, child, over), name="v1-end", daemon=True).start()
    status = child.wait()
    over.set()
    return status if status >= 0 else 128 - status


def _end_when_lost(gate: Gate, child: subprocess.Popen[bytes], over: threading.Event) -> None:
    gate.lost.wait()
    child.terminate()
    if not over.wait(END_S):
        child.kill()


def _free_port() -> int:
    """Return a port that is free now. Another process may take it first; then the job says so and ends."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


_V2 = frozenset({wire.ENV_SCHEDULER, wire.ENV_JOB, wire.ENV_TOKEN})
"""The child is not to speak for the job in v2 as well."""


# The pure machine in it, between v2's messages and v1's lines --------------------------------------------------------
#
# An order at a time; each ends in exactly one outcome. v1 has no answer to a grow but the report of its time, and none
# at all to one that failed. So a grow that was sent and not reported in time counts as done: nodes that may be in use
# are not to be given to others. A shrink is done when all hosts were named. If only some were, the order is aborted,
# and those count as lost by the job: it runs there no more. A job whose answer makes no sense gets no further orders.


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


if __name__ == "__main__":
    sys.exit(main())
