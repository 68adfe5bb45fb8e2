"""Where a place listens and how it reports that; a newcomer does so before it has loaded anything else.

The job waits for a newcomer until place 0 knows its address. So this module loads little: MPI, and sockets. What others
send meanwhile waits in the sockets until the newcomer has loaded the rest. What is loaded before the report decides how
long a grow takes: as multiples of a bare spawn (90 ms for one place), 1.2 to 1.4 with cloudpickle and more of the
standard library, 2.1 with NumPy, 3.5 to 4.3 with Numba.
"""

from __future__ import annotations

import fcntl
import os
import select
import socket
import struct
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from types import ModuleType
from typing import Any, Final, NamedTuple

from apgas.errors import UsageError
from apgas.runtime import at_once, environment
from apgas.transport.unix_socket import Listening


class PlaceReport(NamedTuple):
    """What a place reports of itself: where it listens, and for people its node and process id."""

    host: str
    port: int
    node: str
    pid: int


class Inheritance(NamedTuple):
    """What newcomers take over from place 0, so that the program finds there what it finds on the first places.

    Attributes:
        environ: The variables that the program has set; None: removed.
        program_state: The rest, pickled, which takes loading (``main_module.ProgramState``).
        at_once: Whether the program's ``setup`` is in it, and to be run before the newcomer reports.
    """

    environ: dict[str, str | None]
    program_state: bytes
    at_once: bool


class Newcomer(NamedTuple):
    """A newcomer that has reported.

    Attributes:
        rank: Its rank among those spawned together.
        program_state: What it has still to take over, pickled; empty: it has done so.
        answer: What place 0 answered, pickled; empty: it is not wanted any more.
        token: The job's secret.
        listening: Where it listens; None: it has said that it cannot.
        bridge: On the mpi plane, the communicator that it shares with place 0.
    """

    rank: int
    program_state: bytes
    answer: bytes
    token: bytes
    listening: Listening | None
    bridge: Any


def listen(towards: str) -> tuple[Listening | None, PlaceReport | str]:
    """Listen where ``towards`` reaches us; returns what to report, or why it failed, for the others wait."""
    node = environment.node_name()
    wanted = ""
    try:
        wanted = listen_where(towards)
        listening = Listening(wanted)
    except UsageError as error:
        return None, f"{node}: {error}"
    except OSError as error:
        return None, f"{node}: cannot listen on {wanted}{asked_for()}: {error.strerror}"
    host, port = listening.address
    return listening, PlaceReport(host, port, node, os.getpid())


def report() -> Newcomer:
    """(newcomer) Report by MPI to the place that spawned us, and hear what it answers."""
    mpi = environment.load()
    world, parent = mpi.COMM_WORLD, mpi.Comm.Get_parent()

    def say(reported: object) -> None:
        everyone = world.gather(reported, root=0)
        if world.rank == 0:
            parent.send(everyone, dest=0, tag=0)
        # when all have initialised: until then a kill -9 leaves files of MPI; but the job, which waits, comes first
        world.Barrier()
        environment.unlink_leftovers()

    newcomer = report_to(say, lambda: parent.bcast(None, root=0)[0])
    bridged = bool(newcomer.answer) and environment.transport() == "mpi"
    bridge = parent.Merge(high=True) if bridged else None
    parent.Disconnect()
    return newcomer._replace(rank=world.rank, bridge=bridge)


def report_to(say: Callable[[object], None], hear: Callable[[], Any]) -> Newcomer:
    """(newcomer) Report to place 0, and hear what it answers."""
    token, towards, inheritance = hear()
    environment.take_over(inheritance.environ)
    problem = _set_up(inheritance.program_state) if inheritance.at_once else ""
    listening, reported = (None, problem) if problem else listen(towards)
    say(reported)
    try:
        answer = hear()
    except EOFError:  # it is gone, or does not want us any more
        answer = b""
    program_state = b"" if inheritance.at_once else inheritance.program_state
    return Newcomer(0, program_state, answer, token, listening, None)


def _set_up(program_state: bytes) -> str:
    """Take over all at once, and run the program's ``setup``; returns why that failed, empty if it has not."""
    from apgas.runtime import main_module

    try:
        main_module.take_over(program_state)
    except main_module.FolderError as error:
        return f"{environment.node_name()}: {error}"
    except BaseException as error:  # noqa: BLE001 - whatever the program raises: the order is aborted
        import traceback

        traceback.print_exc()
        return f"{environment.node_name()}: setup raised {type(error).__name__}: {error}"
    return ""


# Where a place listens: on loopback while all of the job is on one machine, else where the other machines reach it

LOOPBACK: Final = "127.0.0.1"
ENV_BIND_HOST: Final = "APGAS_BIND_HOST"

_SIOCGIFADDR: Final = 0x8915


class Location(NamedTuple):
    """Where a process runs: ``machine`` is the same for processes that reach each other over loopback."""

    machine: tuple[str, ...]
    node: str


def machine() -> tuple[str, ...]:
    """Identify this machine among others, emulated ones included: its name, its boot, and the network it is in."""
    boot, network = "", ""
    with suppress(OSError), open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:  # other systems
        boot = file.read().strip()
    with suppress(OSError):  # likewise
        network = os.readlink("/proc/self/ns/net")
    return os.uname().nodename, boot, network


def node_elsewhere(me: Location, everyone: Sequence[Location]) -> str:
    """Return the node of the first process that is on another machine than ``me``; empty if there is none."""
    return next((location.node for location in everyone if location.machine != me.machine), "")


def is_loopback(host: str) -> bool:
    """Return whether only this machine reaches the numeric address ``host``."""
    import ipaddress  # a newcomer on this machine does without

    return ipaddress.ip_address(host).is_loopback


def _interface_address(name: str) -> str | None:
    """The IPv4 address of an interface of this machine."""
    request = struct.pack("256s", name.encode()[:15])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock, suppress(OSError):  # it has none
        return socket.inet_ntoa(fcntl.ioctl(sock.fileno(), _SIOCGIFADDR, request)[20:24])
    return None


def _resolved(name: str) -> str | None:
    """The IPv4 address of a host."""
    with suppress(OSError, UnicodeError):  # unknown, or no name at all
        return socket.gethostbyname(name)
    return None


def _source_towards(address: str) -> str | None:
    """The address of ours that ``address`` sees: packets there would go out from it; none is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock, suppress(OSError):  # no way there
        sock.connect((address, 9))
        return str(sock.getsockname()[0])
    return None


def listen_where(towards: str) -> str:
    """Return the numeric address on which this process must listen so that ``towards`` reaches it.

    Args:
        towards: A host or address; empty: all are on this machine.

    Raises:
        UsageError: What the user asks for makes no sense here, or nothing is found that others could reach.
    """
    if chosen := os.environ.get(ENV_BIND_HOST):
        return _chosen_host(chosen)
    if not towards:
        return LOOPBACK
    own_name, target = os.uname().nodename, _resolved(towards)
    for address in (_source_towards(target) if target else None, _resolved(own_name)):
        # many systems give their own name an address of loopback
        if address and not is_loopback(address):
            return address
    raise UsageError(
        f"{own_name} has no address that {towards} could reach\n"
        f"{towards} is {target or 'not known here'}, {own_name} is {_resolved(own_name) or 'not known here'}\n"
        f"set {ENV_BIND_HOST} to the interface that connects the hosts, like {ENV_BIND_HOST}=eth0"
    )


def _chosen_host(chosen: str) -> str:
    import ipaddress

    address = _interface_address(chosen)
    if address is None:
        try:
            address = str(ipaddress.ip_address(chosen))
        except ValueError:
            address = _resolved(chosen)
    remedy = f"set {ENV_BIND_HOST} to an interface of each host, like eth0, or to an address of this one"
    if address is None:
        raise UsageError(f"{ENV_BIND_HOST}={chosen}\nthat is no interface, address or host name here\n{remedy}")
    if ipaddress.ip_address(address).is_unspecified:
        raise UsageError(f"{ENV_BIND_HOST}={chosen}\nthat is no address by which others could reach us\n{remedy}")
    return address


def asked_for() -> str:
    """Which variable asks for our address, for a message; empty: none."""
    chosen = os.environ.get(ENV_BIND_HOST)
    return f", which {ENV_BIND_HOST}={chosen} asks for" if chosen else ""


# The program of a place that joins a running job; it reports before it loads the rest, for joining is waited for -----


def _load_the_rest() -> ModuleType:
    with at_once():
        from apgas.runtime import process
    return process


def main(by: int | str) -> None:
    """Join, serve until released or until the program ends, and exit.

    Args:
        by: Who has started this process: ``mpi``; the launcher (``launch``), without MPI; or place 0 itself, by the
            descriptor of a socket to it.
    """
    if by == "mpi":
        newcomer = report()
    elif by == "launch":
        from apgas.runtime import launched

        os.environ.pop("PMI_SPAWNED", None)  # the parent is none of MPI's, should the program use that
        line = launched.line()
        newcomer = report_to(partial(line.tell, launched.FIRST), partial(line.hear, launched.FIRST))
    else:
        import pickle

        def say(what: object) -> None:
            pickle.dump(what, stream)
            stream.flush()

        with socket.socket(fileno=int(by)) as ours, ours.makefile("rwb") as stream:
            if not select.select([ours], [], [], 0)[0]:
                _load_the_rest()  # place 0 does the same just now: it waits for nothing yet
            newcomer = report_to(say, partial(pickle.load, stream))
    process = _load_the_rest()
    start = process.join_job(newcomer)
    process.leave(0 if start is None else process.serve(process.build(start)))
