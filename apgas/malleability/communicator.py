"""The way to the scheduler: what the runtime offers and takes, and the communicator of wire protocol v2 over TCP."""

from __future__ import annotations

import contextlib
import logging
import math
import os
import random
import socket
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping
from typing import BinaryIO, Final, Protocol, assert_never

from apgas.errors import ApgasError, UsageError
from apgas.malleability import orders as wire
from apgas.malleability.core_ids import ENV_CORE_IDS
from apgas.malleability.orders import Answer, Message, Order, Withdraw


class OrderListener(Protocol):
    """What the runtime offers a communicator. Every method may be called from any thread and returns at once."""

    def order(self, order: Order) -> None:
        """Take an order; its outcome is sent back as an ``Outcome``."""

    def withdraw(self, order: Withdraw) -> None:
        """Take an order back if it is still deferred."""

    def answer(self, answer: Answer) -> None:
        """Take the answer to an evolving request."""

    def scheduler_lost(self, reason: str) -> None:
        """The scheduler is gone for good (after the reconnection time, if any): the job is to end."""


class Communicator(Protocol):
    """Connects one job to its scheduler. Only place 0 has one."""

    def start(self, listener: OrderListener) -> None:
        """Connect and begin to deliver orders; returns at once or raises ``ApgasError`` if the scheduler refuses us."""

    def send(self, message: Message) -> None:
        """Send a message to the scheduler; never blocks, order is kept; messages of a lost connection are kept too."""

    def close(self) -> None:
        """Deliver what is pending (at most 1 s) and disconnect. Idempotent."""


# Addresses -----------------------------------------------------------------------------------------------------------


def address(text: str, name: str, default_host: str = "", least_port: int = 0) -> tuple[str, int]:
    """Read ``HOST:PORT``, or ``PORT`` where there is a default host.

    Raises:
        UsageError: It is neither; the text calls it ``name``.
    """
    host, _, port = text.rpartition(":")
    host = host.strip("[]") or default_host
    if not (host and port.isascii() and port.isdigit() and least_port <= int(port) < 65536):
        raise UsageError(f"{name} is {text!r}; it is to be HOST:PORT")
    return host, int(port)


def shown(where: tuple[str, int]) -> str:
    """Write an address so that ``address`` reads it."""
    return f"[{where[0]}]:{where[1]}" if ":" in where[0] else f"{where[0]}:{where[1]}"


# The loss of the scheduler -------------------------------------------------------------------------------------------

ENV_ON_LOSS: Final = "APGAS_ON_SCHEDULER_LOSS"

_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 2.0


def reconnect_s(text: str) -> float:
    """Read ``end`` or ``reconnect:SECONDS``: for how long to try to reconnect; 0: not at all.

    Raises:
        UsageError: ``text`` is neither.
    """
    action, _, seconds = text.strip().partition(":")
    if action == "end" and not seconds:
        return 0.0
    if action == "reconnect":
        with contextlib.suppress(ValueError):
            if 0 < (value := float(seconds)) < math.inf:
                return value
    raise UsageError(f"{ENV_ON_LOSS} is {text!r}; it is to be 'end' or 'reconnect:SECONDS', for example 'reconnect:30'")


def pauses() -> Iterator[float]:
    """Yield the seconds to wait before each attempt: doubling, bounded, spread so that jobs do not come at once."""
    pause_s = _FIRST_PAUSE_S
    while True:
        yield pause_s * random.uniform(0.5, 1.0)
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)


# The socket communicator: a job's side of the wire protocol v2, over TCP ---------------------------------------------
#
# Two daemon threads: one blocks in reading, one blocks until there is something to send. After a lost connection the
# job says hello again, then ready (or disable, if it is not any more), then the last outcomes and losses, which may
# have been under way, then the requests that were not answered, then what was kept. The scheduler repeats an open
# order; an order that was delivered before is dropped here.

_logger = logging.getLogger(__name__)

_CONNECT_S = 5.0
_CLOSE_S = 1.0
_REMEMBERED_OUTCOMES = 8
_NOT_CONNECTED = (OSError, ValueError)
"""What a connection ends with: it failed, or what came over it is nothing that a scheduler says."""


class _RefusedError(ApgasError):
    """The scheduler answered the hello with a refusal: trying again is of no use."""


class SocketCommunicator:
    """Connects a job to the scheduler at ``endpoint``, ``host:port``, to which ``token`` proves that it is this job.

    ``on_loss``, ``end`` or ``reconnect:SECONDS``, is what to do when the connection is lost; ``core_ids``, whether to
    ask for the ids of cores.

    Raises:
        UsageError: ``endpoint``, ``token`` or ``on_loss`` is malformed; the text names the variable that has it.
    """

    def __init__(self, endpoint: str, job: int, token: str, on_loss: str = "end", *, core_ids: bool = False) -> None:
        self._address = address(endpoint, wire.ENV_SCHEDULER, least_port=1)
        if not 16 <= len(token) <= 256:
            raise UsageError(f"{wire.ENV_TOKEN} is to have 16 to 256 characters")
        self._hello = wire.encode(wire.Hello(version=wire.PROTOCOL_VERSION, job=job, token=token, core_ids=core_ids))
        self._reconnect_s = reconnect_s(on_loss)
        self._listener: OrderListener | None = None
        self._changed = threading.Condition()
        # All below is guarded by _changed.
        self._pending: deque[wire.Message] = deque()
        self._outcomes: deque[wire.Outcome | wire.Lost] = deque(maxlen=_REMEMBERED_OUTCOMES)
        self._asked: dict[int, wire.Evolving] = {}
        self._stands: wire.Ready | wire.Disable | None = None
        self._seen_orders: set[int] = set()
        self._socket: socket.socket | None = None
        self._closed = False
        self._threads: list[threading.Thread] = []

    def start(self, listener: OrderListener) -> None:
        """Connect and begin to deliver orders to ``listener``; a scheduler that may come back need not be there yet.

        Raises:
            ApgasError: The scheduler cannot be reached or refuses this job; the text says why.
            UsageError: Called twice.
        """
        if self._listener is not None:
            raise UsageError("the communicator was started already")
        self._listener = listener
        lines: BinaryIO | None = None
        failure = ""
        try:
            lines = self._connect()
        except _NOT_CONNECTED as error:
            if not self._reconnect_s:
                raise ApgasError(f"cannot reach the scheduler at {shown(self._address)}: {error}") from None
            failure = str(error)
        for run, name in ((lambda: self._read(lines, failure), "orders"), (self._write, "reports")):
            thread = threading.Thread(target=run, name=f"apgas-scheduler-{name}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def send(self, message: wire.Message) -> None:
        """Queue ``message``; never blocks. While disconnected only the newest progress is kept."""
        with self._changed:
            if self._closed:
                return
            if isinstance(message, wire.Progress) and self._pending and isinstance(self._pending[-1], wire.Progress):
                self._pending.pop()
            self._pending.append(message)
            if isinstance(message, wire.Evolving):
                self._asked[message.request] = message
            self._changed.notify_all()

    def close(self) -> None:
        """Deliver what is pending (at most 1 s), disconnect and end the threads. Idempotent."""
        with self._changed:
            if not self._closed and self._socket is not None:
                self._changed.wait_for(lambda: not self._pending or self._socket is None, timeout=_CLOSE_S)
            self._closed = True
            self._drop()
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(_CLOSE_S)

    # connection -----------------------------------------------------------------------------------------------------

    def _connect(self) -> BinaryIO | None:
        """Open a connection, have it accepted, and return its lines; None if all was closed meanwhile."""
        connection = socket.create_connection(self._address, timeout=_CONNECT_S)
        try:
            keep_alive(connection)
            connection.sendall(self._hello)
            lines = connection.makefile("rb")
            reply = _read_message(lines)
            if isinstance(reply, wire.Refused):
                raise _RefusedError(f"the scheduler at {shown(self._address)} refuses this job: {reply.reason}")
            if not isinstance(reply, wire.Welcome):
                raise ConnectionError("the hello was not answered with a welcome")
            if reply.version != wire.PROTOCOL_VERSION:
                raise _RefusedError(f"the scheduler speaks protocol {reply.version}, this job {wire.PROTOCOL_VERSION}")
            connection.settimeout(None)
        except BaseException:
            connection.close()
            raise
        with self._changed:
            if self._closed:
                connection.close()
                return None
            self._restate()
            self._socket = connection
            self._changed.notify_all()
        return lines

    def _drop(self) -> None:
        """Give the connection up, waking the thread that blocks on it. Needs ``_changed``."""
        connection, self._socket = self._socket, None
        if connection is not None:
            with contextlib.suppress(OSError):  # the other side was quicker
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()
        self._changed.notify_all()

    # reading thread -------------------------------------------------------------------------------------------------

    def _read(self, lines: BinaryIO | None, failure: str) -> None:
        current = lines if lines is not None else self._reconnect(failure)
        while current is not None:
            reason = self._deliver_until_lost(current)
            current.close()
            with self._changed:
                self._drop()
            current = self._reconnect(reason)

    def _deliver_until_lost(self, lines: BinaryIO) -> str:
        while True:
            try:
                message = _read_message(lines)
            except _NOT_CONNECTED as error:
                return str(error) or type(error).__name__
            try:
                self._deliver(message)
            except Exception:
                _logger.exception("a message of the scheduler could not be handled: %r", message)

    def _deliver(self, message: wire.ToJob) -> None:
        listener = self._listener
        assert listener is not None
        match message:
            case wire.Grow() | wire.Shrink() | wire.Workers():
                with self._changed:
                    repeated = message.order in self._seen_orders
                    self._seen_orders.add(message.order)
                if not repeated:
                    listener.order(message)
            case wire.Withdraw():
                listener.withdraw(message)
            case wire.Answer():
                with self._changed:
                    self._asked.pop(message.request, None)
                listener.answer(message)
            case wire.Refused():
                _logger.warning("the scheduler refused a message: %s", message.reason)
            case wire.Welcome():
                _logger.warning("the scheduler said welcome twice")
            case _:
                assert_never(message)

    def _reconnect(self, reason: str) -> BinaryIO | None:
        """Return the lines of a new connection, or None once the scheduler is lost (and the listener notified)."""
        deadline = time.monotonic() + self._reconnect_s
        for pause_s in pauses():
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                break
            with self._changed:
                if self._changed.wait_for(lambda: self._closed, timeout=min(pause_s, left_s)):
                    return None
            try:
                return self._connect()
            except _RefusedError as error:
                reason = str(error)
                break
            except _NOT_CONNECTED as error:
                reason = str(error) or type(error).__name__
        with self._changed:
            if self._closed:
                return None
            self._closed = True
            self._changed.notify_all()
        assert self._listener is not None
        self._listener.scheduler_lost(f"connection to the scheduler at {shown(self._address)} lost: {reason}")
        return None

    def _restate(self) -> None:
        """Put first in the queue what the scheduler has to hear again, if it is not there. Needs ``_changed``."""
        stands = [] if self._stands is None else [self._stands]
        again = [*stands, *self._outcomes, *self._asked.values()]
        self._pending.extendleft(message for message in reversed(again) if message not in self._pending)

    # sending thread -------------------------------------------------------------------------------------------------

    def _write(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closed or bool(self._pending and self._socket is not None))
                if self._closed:
                    return
                connection, message = self._socket, self._pending[0]
            assert connection is not None
            try:
                connection.sendall(_encoded(message))
            except OSError:
                with self._changed:
                    if self._socket is connection:
                        self._drop()  # The reader wakes and sees to a new connection.
                continue
            with self._changed:
                if self._pending and self._pending[0] is message:
                    self._pending.popleft()
                    self._remember(message)
                self._changed.notify_all()

    def _remember(self, message: wire.Message) -> None:
        """Keep what is to be said again on the next connection. Needs ``_changed``."""
        match message:
            case wire.Ready():
                self._stands = message
            case wire.Disable():
                self._stands = message
                self._asked.clear()
            case wire.Outcome() | wire.Lost() if message not in self._outcomes:
                self._outcomes.append(message)
                if isinstance(self._stands, wire.Ready):
                    self._stands = wire.Ready(nodes=_after(message, self._stands.nodes))
            case _:
                pass


def from_environment(environ: Mapping[str, str] = os.environ) -> SocketCommunicator | None:
    """Return the communicator that the scheduler's variables describe; None if this is no job of a scheduler.

    Raises:
        UsageError: A variable is missing or malformed; the text names it.
    """
    names = (wire.ENV_SCHEDULER, wire.ENV_JOB, wire.ENV_TOKEN)
    given = [name for name in names if environ.get(name)]
    if not given:
        return None
    for name in names:
        if name not in given:
            raise UsageError(f"{name} is missing, although {given[0]} is set")
    endpoint, job, token = (environ[name] for name in names)
    if not (job.isascii() and job.isdigit()):
        raise UsageError(f"{wire.ENV_JOB} is {job!r}; it is to be the number of a job")
    on_loss = environ.get(ENV_ON_LOSS) or "end"
    return SocketCommunicator(endpoint, int(job), token, on_loss, core_ids=ENV_CORE_IDS in environ)


def _after(change: wire.Outcome | wire.Lost, nodes: tuple[str, ...]) -> tuple[str, ...]:
    """The nodes after an order or a loss; several may have one name."""
    if isinstance(change, wire.Outcome):
        if change.outcome != "done":
            return nodes
        if change.kind == "grow":
            return (*nodes, *change.nodes)
    left = list(nodes)
    for name in change.nodes:
        if name in left:
            left.remove(name)
    return tuple(left)


def _encoded(message: wire.Message) -> bytes:
    """Encode ``message``; nothing if that is impossible, for the messages behind it have to go."""
    try:
        return wire.encode(message)
    except (TypeError, ValueError):
        _logger.exception("a message cannot be sent: %r", message)
        return b""


def _read_message(lines: BinaryIO) -> wire.ToJob:
    line = lines.readline(wire.MAX_LINE_BYTES + 1)
    if not line.endswith(b"\n"):
        raise ConnectionError("a line of the scheduler is too long" if len(line) > wire.MAX_LINE_BYTES else "it ended")
    return wire.decode_to_job(line)


def keep_alive(connection: socket.socket) -> None:
    """Notice within about a minute that the machine at the other end is gone without closing the connection."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", 20), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 4)):
        if hasattr(socket, option):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
