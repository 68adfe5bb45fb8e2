"""Runs a v1 job as a job of a v2 scheduler: ``python -m apgas.malleability.v1.gate --nodes a,b -- COMMAND``.

The gate is the job as far as the scheduler knows: it speaks v2, with reconnection, and holds the token. The command is
its child and speaks v1 with it. The published Java system has one number for the port to which it reports and the one
on which it listens, and tells them apart by address: so the gate listens at a loopback address of its own, and finds
the job at the address that it gives when it is ready, with the same port. The variables ``MALLEABLE_V1_SCHEDULER`` and
``MALLEABLE_V1_LISTEN`` choose others if they were set before. What the command finds of all that is in ``_words`` and
``variables``.
"""

from __future__ import annotations

import argparse
import ipaddress
import logging
import os
import queue
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Final, Literal

import msgspec
from msgspec.structs import replace

from apgas.errors import ApgasError
from apgas.malleability import orders as wire
from apgas.malleability.communicator import SocketCommunicator, address, from_environment, shown
from apgas.malleability.v1 import lines
from apgas.malleability.v1.communicator import ENV_LISTEN, ENV_SCHEDULER
from apgas.malleability.v1.lines import LinePort, is_ours, read_line

_logger = logging.getLogger(__name__)

ENV_HOSTS = "MALLEABLE_HOSTS"
END_S = 10.0
"""How long the job may take to end when the scheduler is lost; then it is killed."""
DEADLINE_S = 60.0
"""How long the scheduler waits for an outcome, unless it says otherwise."""
LATE_S = 600.0
"""How long a job may take to name the hosts of a shrink; before that, but after its deadline, they come free late."""
SILENT_S = 60.0
"""A malleable job that has not said for so long that it is ready may be waited for in vain: its log says so."""
_LINE_BYTES = 1024
_LOOPBACK: Final = "127.0.0.1"
_FIRST_PORT: Final = 5701
_PORTS_EACH: Final = 32
"""Places of the published system on one machine have ports one behind the other; so jobs get some each."""


class Times(msgspec.Struct, frozen=True):
    """How long an order may take, so that its outcome is there before the scheduler gives it up.

    Attributes:
        connect_s: To connect to the job.
        grow_s: Until a grow is reported.
        shrink_s: Until all hosts of a shrink are named; the first one may come as late as the last.
        late_s: Until they are named after all.
    """

    connect_s: float
    grow_s: float
    shrink_s: float
    late_s: float = LATE_S

    @classmethod
    def within(cls, deadline_s: float) -> Times:
        """Return them for a scheduler that waits for ``deadline_s``."""
        return cls(deadline_s / 12, deadline_s * 3 / 4, deadline_s * 5 / 6)


class Gate:
    """Between a v2 scheduler and one v1 job, which takes orders at ``job``.

    Without a host that is the address that the job gives when it is ready. ``reports`` is where it is to report, port 0
    for a free one; or what listens there.

    Attributes:
        reports: Where the job is to report.
        lost: Set when the scheduler is lost: it is not known any more whose the nodes are, and the job has to end.

    Raises:
        OSError: The port for reports is not to be had.
    """

    def __init__(
        self,
        translator: Translator,
        communicator: SocketCommunicator,
        job: tuple[str, int],
        reports: tuple[str, int] | socket.socket = (_LOOPBACK, 0),
        times: Times | None = None,
    ) -> None:
        self._communicator = communicator
        self._job = job
        self._times = times or Times.within(DEADLINE_S)
        self._translator = translator
        self._changed = threading.Condition()  # Guards the translator and the connections.
        self._orders: queue.SimpleQueue[wire.Order | None] = queue.SimpleQueue()
        self._shrinks: set[socket.socket] = set()
        self._peer = ""
        self._port = LinePort(reports, self._reported)
        host = reports.getsockname()[0] if isinstance(reports, socket.socket) else reports[0]
        self.reports = (str(host), self._port.port)
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
        with self._changed:
            for connection in self._shrinks:
                with suppress(OSError):  # the job has hung up
                    connection.shutdown(socket.SHUT_RDWR)  # wakes the thread that reads
        self._communicator.close()

    def silent(self) -> bool:
        """Whether the job has not said yet that it is ready."""
        with self._changed:
            return self._translator.ip is None

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
        with self._changed:
            first = self._translator.ip is None
            self._send(self._translator.reported(line))
            if first and self._translator.ip is not None:
                with suppress(OSError):  # it has hung up
                    self._peer = str(caller.getpeername()[0])
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
            connection = socket.create_connection(self._where(), timeout=self._times.connect_s)
        except OSError as error:
            with self._changed:
                self._send(self._translator.unreachable(due.order, str(error)))
            return
        most_s = self._times.shrink_s if due.answers else self._times.grow_s
        if due.answers:
            with self._changed:
                self._shrinks.add(connection)
            threading.Thread(
                target=self._hear, args=(connection, due, began_s), name=f"v1-shrink-{due.order}", daemon=True
            ).start()
        else:  # the job reports later what has become of a grow, on another connection
            with connection, suppress(OSError):  # then no report comes either
                connection.sendall(due.line)
        with self._changed:
            if not self._changed.wait_for(lambda: self._translator.open != due.order, timeout=most_s):
                self._send(self._translator.overdue(due.order, most_s))

    def _where(self) -> tuple[str, int]:
        host, port = self._job
        if host:
            return host, port
        with self._changed:
            given = self._translator.ip or ""
        # The address of a machine that has not called would be any stranger's word.
        return given if given == self._peer or (_is_ip(given) and is_ours(given)) else _LOOPBACK, port

    def _hear(self, connection: socket.socket, due: Dial, began_s: float) -> None:
        """Say a shrink and hear its answer, also after its deadline."""
        with connection:
            try:
                connection.sendall(due.line)
                for _ in range(due.answers):
                    line = read_line(connection, began_s + self._times.late_s, _LINE_BYTES)
                    with self._changed:
                        self._send(self._translator.named(due.order, line, time.monotonic() - began_s))
            except (OSError, lines.BadLineError) as error:
                with self._changed:
                    self._send(self._translator.ended(due.order, str(error) or type(error).__name__))
            with self._changed:
                self._shrinks.discard(connection)

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
    parser.add_argument(
        "--emulated", action="store_true", help="all nodes are this machine: the job is given loopback addresses"
    )
    parser.add_argument(
        "--job-class", choices=("rigid", "malleable"), default="malleable", help="what the job is to be"
    )
    waits = "how long the scheduler waits for outcomes"
    parser.add_argument("--deadline", type=float, default=DEADLINE_S, metavar="SECONDS", help=waits)
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
        translator = Translator(nodes, emulated=options.emulated)
        server, job = ports(os.environ)
        gate = Gate(translator, communicator, job, server, Times.within(options.deadline))
        try:
            gate.start()
            with tempfile.TemporaryDirectory(prefix="malleable-v1-") as folder:
                given = Given(gate.reports, job, translator.hosts, options.job_class, Path(folder, "nodes"))
                return _run(gate, options.command, given)
        finally:
            gate.close()
    except (ApgasError, OSError) as error:
        sys.stderr.write(f"v1 gate: {error}\n")
        return 1


# Addresses, and what the command finds of them -----------------------------------------------------------------------


def ports(environ: Mapping[str, str]) -> tuple[socket.socket, tuple[str, int]]:
    """Listen for reports, and say where the job takes orders: without a host, where it says itself.

    Raises:
        ApgasError: A variable names an address that is not to be had.
        OSError: No port is free.
    """
    scheduler, listen = environ.get(ENV_SCHEDULER, ""), environ.get(ENV_LISTEN, "")
    job = address(listen, ENV_LISTEN, _LOOPBACK) if listen else None
    if not scheduler and job is None:
        server = lines.own_server()
    else:
        reports = address(scheduler, ENV_SCHEDULER) if scheduler else lines.address_for(job[1] if job else 0)
        server = _listening(reports, ENV_SCHEDULER if scheduler else ENV_LISTEN)
    host, port = server.getsockname()[:2]
    if job is not None:
        if is_ours(job[0]):
            _listening(job, ENV_LISTEN).close()  # taken: better said now than by the job
        return server, job
    if host != _LOOPBACK:
        return server, ("", port)
    sys.stderr.write(
        f"v1 gate: the job is to report to {_LOOPBACK}, to which the published Java system reports nothing; "
        f"to resize such a job, let {ENV_SCHEDULER} name another address of this machine\n"
    )
    with socket.create_server((_LOOPBACK, 0)) as free:
        # another process may take its port first; then the job says so and ends
        return server, ("", int(free.getsockname()[1]))


def _listening(where: tuple[str, int], variable: str) -> socket.socket:
    try:
        return lines.listening(where)
    except OSError as error:
        why = os.strerror(error.errno or 0)
        raise ApgasError(
            f"{shown(where)} is not to be had ({why}); leave {variable} out, and the job gets an address that is free"
        ) from None


def _is_ip(text: str) -> bool:
    with suppress(ValueError):  # a name, which would have to be looked up
        return bool(ipaddress.ip_address(text))
    return False


class Given(msgspec.Struct, frozen=True):
    """What the job is given: where it reports and takes orders, its hosts by the names that v1 has for them, its class.

    ``node_file`` is written: a host on each line.
    """

    reports: tuple[str, int]
    job: tuple[str, int]
    hosts: tuple[str, ...]
    job_class: str
    node_file: Path


def _words(command: Sequence[str], given: Given) -> list[str]:
    """Return the command with what placeholders stand for."""
    stands_for = {
        "{v1_scheduler}": shown(given.reports),
        "{v1_scheduler_ip}": given.reports[0],
        "{v1_port}": str(given.job[1]),
        "{v1_node_file}": str(given.node_file),
        "{v1_places_port}": str(_places_port(os.environ)),
        "{hosts}": ",".join(given.hosts),
    }
    placeholder = re.compile("|".join(map(re.escape, stands_for)))
    return [placeholder.sub(lambda found: stands_for[found.group()], word) for word in command]


def variables(environ: Mapping[str, str], given: Given) -> dict[str, str]:
    """Return the job's environment: ours, and the variables with which the published scheduler starts scripts."""
    return {
        # What the job chooses itself, unless it does.
        "LAUNCHER": "apgas.launcher.SshLauncher",
        "WORKERS": environ.get("MALLEABLE_CORES") or "1",
        "ELASTIC": given.job_class,
        "SCRIPT_DIR": str(Path.cwd()),
        # The child is not to speak for the job in v2 as well.
        **{name: value for name, value in environ.items() if name not in _V2},
        "NODES": str(len(given.hosts)),
        "NODE_FILE": str(given.node_file),
        "SCHEDULER_IP": given.reports[0],
        "SCHEDULER_PORT": str(given.reports[1]),
        "JOBNAME": environ.get(wire.ENV_JOB, ""),
        "PORT": str(_places_port(environ)),
        ENV_SCHEDULER: shown(given.reports),
        ENV_LISTEN: shown((given.job[0] or _LOOPBACK, given.job[1])),
        ENV_HOSTS: ",".join(given.hosts),
    }


def _places_port(environ: Mapping[str, str]) -> int:
    """Return the first of the ports at which places of the published system listen, for jobs on one machine others."""
    job = environ.get(wire.ENV_JOB, "")
    return _FIRST_PORT + _PORTS_EACH * (int(job) % 800 if job.isdecimal() else 0)


_V2 = frozenset({wire.ENV_SCHEDULER, wire.ENV_JOB, wire.ENV_TOKEN})


def _run(gate: Gate, command: Sequence[str], given: Given) -> int:
    given.node_file.write_text("".join(f"{host}\n" for host in given.hosts))
    child = subprocess.Popen(_words(command, given), env=variables(os.environ, given))
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _: child.send_signal(number))
    over = threading.Event()
    threading.Thread(target=_end_when_lost, args=(gate, child, over), name="v1-end", daemon=True).start()
    if given.job_class == "malleable":
        threading.Thread(target=_warn_if_silent, args=(gate, given, over), name="v1-silent", daemon=True).start()
    status = child.wait()
    over.set()
    return status if status >= 0 else 128 - status


def _warn_if_silent(gate: Gate, given: Given, over: threading.Event) -> None:
    if over.wait(SILENT_S) or not gate.silent():
        return
    sys.stderr.write(
        f"v1 gate: the job has not said within {SILENT_S:g} s that it is ready, and until then it is not resized: it "
        f"is to report to port {given.reports[1]} of {given.reports[0]} and to take orders on port {given.job[1]} "
        f"(-Delastic_scheduler_ip={given.reports[0]} -Delastic_scheduler_port={given.job[1]})\n"
    )


def _end_when_lost(gate: Gate, child: subprocess.Popen[bytes], over: threading.Event) -> None:
    gate.lost.wait()
    child.terminate()
    if not over.wait(END_S):
        child.kill()


# The pure machine in it, between v2's messages and v1's lines --------------------------------------------------------
#
# An order at a time; each ends in exactly one outcome. v1 has no answer to a grow but the report of its time, and none
# at all to one that failed. So a grow that was sent and not reported in time counts as done: nodes that may be in use
# are not to be given to others. A shrink is done when all hosts were named; the published system names them all at the
# very end. If that takes too long the order is aborted, and hosts count as lost by the job as soon as they are named:
# it runs there no more. Until then it takes no other order. A job whose answer makes no sense gets no further orders.
#
# The time of an order is reported when all of it is over: of a shrink, after its answer. So it may come when the next
# order is open, but before anything of that one.


class Dial(msgspec.Struct, frozen=True):
    """Connect to the job, say ``line``, and read ``answers`` lines."""

    order: int
    line: bytes
    answers: int


class Translator:
    """The state of one v1 job.

    Args:
        nodes: Those that it starts on, place 0 on the first.
        emulated: They are names of this machine. The published system starts places by itself only at loopback
            addresses: so each node that is no address gets one as its name in v1.

    Attributes:
        ip: The address that the job gave as its own when it was ready; None: it has not said that it is.
    """

    def __init__(self, nodes: Sequence[str], *, emulated: bool = False) -> None:
        self._nodes = list(nodes)
        self._emulated = emulated
        self._hosts: dict[str, str] = {}
        self._node_of: dict[str, str] = {}
        for node in nodes:
            self._host(node)
        self._open: wire.Grow | wire.Shrink | None = None
        self._phases: dict[str, float] = {}
        self._whole_s: float | None = None
        self._named: list[str] = []
        self._late: wire.Shrink | None = None
        self._unreported: list[Literal["grow", "shrink"]] = []
        self._over = False
        self._requests = count(1)
        self._losses = count()
        self.ip: str | None = None

    @property
    def open(self) -> int | None:
        """The order that has no outcome yet."""
        return self._open.order if self._open is not None else None

    @property
    def hosts(self) -> tuple[str, ...]:
        """The nodes by the names that v1 has for them."""
        return tuple(map(self._host, self._nodes))

    def _host(self, node: str) -> str:
        if node not in self._hosts:
            host, number = node, len(self._hosts)
            while host in self._node_of or (self._emulated and not _ADDRESS.fullmatch(host)):
                number += 1
                host = f"127.{number >> 16}.{number >> 8 & 255}.{number & 255}"
            self._hosts[node] = host
            self._node_of[host] = node
        return self._hosts[node]

    # the job's reports ----------------------------------------------------------------------------------------------

    def reported(self, line: bytes) -> list[wire.Message]:
        """Take a line that came on the report port.

        Raises:
            lines.BadLineError: It is no report.
        """
        report, ip = lines.parse_report(line)
        match report:
            case lines.Ready():
                if self.ip is not None:
                    return []  # It says so again after a resize.
                self.ip = ip
                return [wire.Ready(nodes=tuple(self._nodes))]
            case lines.Took():
                return self._took(report)
            case lines.Request():
                return self._asks(report.count)
            case lines.Release():
                return self._asks(-1)

    def _asks(self, delta: int) -> list[wire.Message]:
        if self.ip is None or self._over:
            return []
        return [wire.Evolving(request=next(self._requests), delta=delta)]

    def _took(self, report: lines.Took) -> list[wire.Message]:
        kind, phase = lines.PHASES[report.name]
        if phase != "pre" and kind in self._unreported:
            if not phase:  # Those before it will not be reported any more: it is one thing after the other.
                del self._unreported[: self._unreported.index(kind) + 1]
            return []  # Of an order that is over.
        order = self._open
        if order is None or kind != ("grow" if isinstance(order, wire.Grow) else "shrink"):
            return []
        self._unreported.clear()
        if phase:
            self._phases[phase] = report.nanoseconds / 1e9
            return []
        self._whole_s = report.nanoseconds / 1e9
        if isinstance(order, wire.Grow):
            # All of it, so also what the program did behind the commit, where the seconds of an outcome end.
            return self._close("done", "", order.nodes, self._whole_s - self._phases.get("post", 0.0))
        return []

    # the scheduler's orders -----------------------------------------------------------------------------------------

    def ordered(self, order: wire.Order) -> Dial | list[wire.Message]:
        """Take an order: dial the job, or answer at once. There must be no open one."""
        if isinstance(order, wire.Workers):
            return [wire.Outcome(order.order, "workers", "refused", "protocol v1 has no such order")]
        if refusal := self._refusal(order):
            return [wire.Outcome(order.order, "grow" if isinstance(order, wire.Grow) else "shrink", "refused", refusal)]
        self._open = order
        self._phases, self._whole_s, self._named = {}, None, []
        if isinstance(order, wire.Grow):
            return Dial(order.order, lines.order_line(replace(order, nodes=tuple(map(self._host, order.nodes)))), 0)
        return Dial(order.order, lines.order_line(order), order.count)

    def _refusal(self, order: wire.Grow | wire.Shrink) -> str:
        if self._open is not None:
            return f"order {self._open.order} has not ended"
        if self.ip is None or self._over:
            return "the job takes no orders"
        if self._late is not None:
            left = self._late.count - len(self._named)
            return f"the job is still to name {left} of the {self._late.count} hosts of order {self._late.order}"
        if isinstance(order, wire.Grow) and len(order.nodes) != order.count:
            return "protocol v1 wants a name for every node"
        if isinstance(order, wire.Shrink) and order.count >= len(self._nodes):
            return f"the job has {len(self._nodes)} nodes"
        return ""

    def unreachable(self, order: int, reason: str) -> list[wire.Message]:
        """The order could not be said: nothing has happened."""
        return self._close("aborted", f"the job cannot be reached: {reason}") if order == self.open else []

    def overdue(self, order: int, seconds: float) -> list[wire.Message]:
        """An order was said, and within ``seconds`` a grow was not reported, or hosts of a shrink were not named."""
        if order != self.open or self._open is None:
            return []
        if isinstance(self._open, wire.Grow):
            self._unreported.append("grow")
            reason = f"not reported within {seconds:g} s; its nodes count as used"
            return self._close("done", reason, self._open.nodes, seconds)
        self._late = shrink = self._open
        reason = f"{len(self._named)} of {shrink.count} hosts were named within {seconds:g} s; the others may come late"
        return [*self._close("aborted", reason), *self._lost(self._named, "released in part of a shrink")]

    def named(self, order: int, line: bytes, seconds: float) -> list[wire.Message]:
        """A line of the answer to a shrink came, ``seconds`` after it was ordered."""
        shrink = self._open if order == self.open else self._late
        if not isinstance(shrink, wire.Shrink) or order != shrink.order:
            return []
        try:
            said = lines.parse_host(line)
        except lines.BadLineError as error:
            return self.ended(order, str(error))
        name = self._node_of.get(said, said)
        if name not in self._nodes or name in self._named or len(self._nodes) == 1:
            return self.ended(order, f"{said} is not a node of this job")
        self._named.append(name)
        complete = len(self._named) == shrink.count
        if complete and self._whole_s is None:
            self._unreported.append("shrink")
        if shrink is self._late:
            self._late = None if complete else shrink
            return self._lost([name], "released after the order's deadline")
        return self._close("done", "", tuple(self._named), seconds) if complete else []

    def ended(self, order: int, trouble: str) -> list[wire.Message]:
        """The answer to a shrink ended before all hosts were named, or makes no sense."""
        if self._late is not None and order == self._late.order:
            self._late, self._over = None, True
            return [wire.Disable()]
        if order != self.open:
            return []
        self._over = True
        messages = self._close("aborted", f"the job's answer ended: {trouble}")
        return [*messages, *self._lost(self._named, "released in part of a shrink"), wire.Disable()]

    def _lost(self, nodes: Sequence[str], reason: str) -> list[wire.Message]:
        """Nodes that were released, though their order was not done."""
        if not nodes:
            return []
        self._nodes = [node for node in self._nodes if node not in nodes]
        return [wire.Lost(loss=next(self._losses), nodes=tuple(nodes), reason=reason)]

    def _close(
        self, outcome: wire.OutcomeKind, reason: str, nodes: tuple[str, ...] = (), seconds: float = 0.0
    ) -> list[wire.Message]:
        order, self._open = self._open, None
        assert order is not None
        grow = isinstance(order, wire.Grow)
        kind: Literal["grow", "shrink"] = "grow" if grow else "shrink"
        phases = dict(self._phases)
        if outcome == "done":
            self._nodes = [*self._nodes, *nodes] if grow else [node for node in self._nodes if node not in nodes]
            phases["spawn" if grow else "release"] = max(0.0, seconds - phases.get("pre", 0.0))
        return [wire.Outcome(order.order, kind, outcome, reason, nodes, max(0.0, seconds), phases)]


_ADDRESS: Final = re.compile(r"[0-9]{1,3}(\.[0-9]{1,3}){3}")


if __name__ == "__main__":
    sys.exit(main())
