"""The communicator of a job under a v1 scheduler: takes orders on the job's port, reports to the scheduler."""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from typing import Final, TypeAlias

import msgspec

from apgas.errors import ApgasError, UsageError
from apgas.malleability import ENV_V1_SCHEDULER
from apgas.malleability import orders as wire
from apgas.malleability.communicator import OrderListener, address, pauses, shown
from apgas.malleability.v1 import lines
from apgas.malleability.v1.lines import CONNECT_S, LinePort, callers_of

_logger = logging.getLogger(__name__)

ENV_SCHEDULER: Final = ENV_V1_SCHEDULER
ENV_LISTEN: Final = "MALLEABLE_V1_LISTEN"

_CLOSE_S = 1.0
_READY_S = 60.0
"""How long the scheduler may take to be there for the first report; others are tried once."""


class V1Communicator:
    """Connects a job, which takes orders at ``listen``, ``host:port`` or a ``port`` of loopback, to a v1 scheduler.

    Raises:
        UsageError: An address is malformed; the text names the variable that has it.
    """

    def __init__(self, scheduler: str, listen: str = str(lines.DEFAULT_PORT)) -> None:
        self._scheduler = address(scheduler, ENV_SCHEDULER)
        self._listen = address(listen, ENV_LISTEN, "127.0.0.1")
        self._listener: OrderListener | None = None
        self._port: LinePort | None = None
        self._changed = threading.Condition()
        # All below is guarded by _changed.
        self._side = JobSide()
        self._waiting: dict[int, socket.socket] = {}
        self._pending: deque[lines.Report] = deque()
        self._closed = False

    def start(self, listener: OrderListener) -> None:
        """Open the job's port and begin to deliver orders to ``listener``.

        Raises:
            ApgasError: The port is not to be had, or the scheduler's name is unknown.
            UsageError: Called twice.
        """
        if self._listener is not None:
            raise UsageError("the communicator was started already")
        self._listener = listener
        host, port = self._scheduler
        try:
            # Nothing in v1 proves who speaks; so at least the machine has to be the scheduler's.
            self._port = LinePort(self._listen, self._take, callers_of(host, port))
        except OSError as error:
            what = f"cannot take orders of the v1 scheduler {host}:{port} on {shown(self._listen)}"
            raise ApgasError(f"{what}: {error}") from None
        threading.Thread(target=self._report_all, name="v1-reports", daemon=True).start()

    def send(self, message: wire.Message) -> None:
        """Say in v1 what can be said there; never blocks."""
        answers: list[wire.Answer] = []
        with self._changed:
            if self._closed:
                return
            for action in self._side.said(message):
                match action:
                    case Reply(order=order, hosts=hosts):
                        self._reply(order, hosts)
                    case wire.Answer():
                        answers.append(action)
                    case _:
                        self._pending.append(action)
            self._changed.notify_all()
        for answer in answers:
            assert self._listener is not None
            # On a thread of its own: the program waits for what this call is part of.
            threading.Thread(target=self._listener.answer, args=(answer,), daemon=True).start()

    def close(self) -> None:
        """Deliver what is pending (at most 1 s) and close the job's port. Idempotent."""
        with self._changed:
            self._changed.wait_for(lambda: not self._pending, timeout=_CLOSE_S)
            self._closed = True
            waiting, self._waiting = list(self._waiting.values()), {}
            self._changed.notify_all()
        for caller in waiting:
            caller.close()
        if self._port is not None:
            self._port.close()

    # orders ---------------------------------------------------------------------------------------------------------

    def _take(self, line: bytes, caller: socket.socket) -> bool:
        with self._changed:
            order = self._side.ordered(line)
            keep = isinstance(order, wire.Shrink) and not self._closed
            if keep:
                self._waiting[order.order] = caller
        assert self._listener is not None
        self._listener.order(order)
        return keep

    def _reply(self, order: int, hosts: tuple[str, ...]) -> None:
        """Answer a shrink. Needs ``_changed``; a few short lines fit into what the system buffers."""
        caller = self._waiting.pop(order, None)
        if caller is None:
            return
        with suppress(OSError):  # the caller has hung up
            caller.settimeout(CONNECT_S)
            caller.sendall("".join(f"{host}\n" for host in hosts).encode())
        caller.close()

    # reports --------------------------------------------------------------------------------------------------------

    def _report_all(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closed or bool(self._pending))
                if not self._pending:
                    return
                report = self._pending[0]
            self._report(report)
            with self._changed:
                self._pending.popleft()
                self._changed.notify_all()

    def _report(self, report: lines.Report) -> None:
        until_s = time.monotonic() + (_READY_S if isinstance(report, lines.Ready) else 0.0)
        for pause_s in pauses():
            try:
                with socket.create_connection(self._scheduler, timeout=CONNECT_S) as connection:
                    connection.sendall(lines.report_line(report, str(connection.getsockname()[0])))
                return
            except OSError as error:
                with self._changed:
                    if self._closed or time.monotonic() > until_s:
                        _logger.warning("the v1 scheduler did not take %r: %s", report, error)
                        return
                    self._changed.wait_for(lambda: self._closed, timeout=pause_s)


def from_environment(environ: Mapping[str, str] = os.environ) -> V1Communicator | None:
    """Return the communicator that the variables of a v1 scheduler describe; None if there is none.

    Raises:
        UsageError: A variable is malformed; the text names it.
    """
    scheduler = environ.get(ENV_SCHEDULER)
    return V1Communicator(scheduler, environ.get(ENV_LISTEN) or str(lines.DEFAULT_PORT)) if scheduler else None


# The pure machine in it: the scheduler's lines become orders, our messages become its lines --------------------------
#
# =================  ===============================================================================================
# the scheduler      we
# =================  ===============================================================================================
# ``grow N h...``    order a grow; when it is done, report its times (v1 knows no other answer)
# ``shrink N``       order a shrink; when it is done, answer N lines and report its times; when it is not, hang up,
#                    so that the scheduler need not wait for its 20 s
# anything else      hang up
# =================  ===============================================================================================
#
# What v1 cannot say is not said: refusals, deferrals, progress, losses of nodes, the end of the handler.

UNANSWERED = "protocol v1 gives no answer; nodes that are granted come with an order"


class Reply(msgspec.Struct, frozen=True):
    """Write ``hosts`` on the connection that brought ``order`` (none: it failed), and close it."""

    order: int
    hosts: tuple[str, ...]


Action: TypeAlias = lines.Report | Reply | wire.Answer
"""Send the scheduler a report; reply to it; or answer the program's own request, because the scheduler never will."""


class JobSide:
    """What is known of the job and its orders."""

    def __init__(self) -> None:
        self._next = 0
        self._nodes: list[str] = []

    def ordered(self, line: bytes) -> wire.Grow | wire.Shrink:
        """Take a line of the scheduler; returns the order that it is.

        Raises:
            lines.BadLineError: It is no order.
        """
        order = lines.parse_order(line, self._next)
        self._next += 1
        return order

    def said(self, message: wire.Message) -> list[Action]:
        """Take a message of the job and say what becomes of it."""
        match message:
            case wire.Ready():
                self._nodes = list(message.nodes)
                return [lines.Ready()]
            case wire.Outcome(kind="grow" | "shrink"):
                return self._outcome(message)
            case wire.Evolving():
                return [*self._evolving(message), wire.Answer(message.request, 0, UNANSWERED)]
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
        # Ours end with the commit, or with the leavers; v1's with all of it, the program's part included.
        whole_s = outcome.seconds + outcome.phases.get("post", 0.0)
        for name, (kind, phase) in lines.PHASES.items():
            if kind == outcome.kind and outcome.nodes:
                seconds = outcome.phases.get(phase, 0.0) if phase else whole_s
                actions.append(lines.Took(name, len(outcome.nodes), round(seconds * 1e9)))
        return actions

    def _evolving(self, message: wire.Evolving) -> list[Action]:
        if message.delta > 0:
            return [lines.Request(message.delta)]
        # The job would choose itself which nodes it gives; v1 wants a name, so it is those that came last.
        return [lines.Release(node) for node in reversed(self._nodes[1:][message.delta :])]
