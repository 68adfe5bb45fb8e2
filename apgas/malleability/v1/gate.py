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

from apgas.errors import ApgasError
from apgas.malleability import orders as wire
from apgas.malleability.communicator import SocketCommunicator, from_environment
from apgas.malleability.v1 import lines
from apgas.malleability.v1.communicator import ENV_LISTEN, ENV_SCHEDULER
from apgas.malleability.v1.ports import CONNECT_S, LinePort, address, read_line
from apgas.malleability.v1.translator import GROW_REPORT_S, SHRINK_LINE_S, SHRINK_S, Dial, Translator

_logger = logging.getLogger(__name__)

ENV_HOSTS = "MALLEABLE_HOSTS"
END_S = 10.0
"""How long the job may take to end when the scheduler is lost; then it is killed."""
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
        lost: Set when the scheduler is lost: nobody knows any more whose the nodes are, and the job has to end.

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
        """Tell the scheduler. Needs ``_changed``."""
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
    """Return a port that nobody has now. Somebody else may take it first; then the job says so and ends."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


_V2 = frozenset({wire.ENV_SCHEDULER, wire.ENV_JOB, wire.ENV_TOKEN})
"""The child is not to speak for the job in v2 as well."""

if __name__ == "__main__":
    sys.exit(main())
