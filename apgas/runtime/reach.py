"""Where a place listens: on loopback while all of the job is on one machine, else where the other machines reach it."""

from __future__ import annotations

import fcntl
import os
import socket
import struct
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, NamedTuple, Protocol

from apgas.errors import UsageError

LOOPBACK: Final = "127.0.0.1"
ENV_BIND_HOST: Final = "APGAS_BIND_HOST"

_SIOCGIFADDR: Final = 0x8915


class Spot(NamedTuple):
    """Where a process runs: ``machine`` is the same for processes that reach each other over loopback."""

    machine: tuple[str, ...]
    node: str


class Network(Protocol):
    """What a machine knows of its network; ``None`` where it knows nothing."""

    def interface_address(self, name: str) -> str | None:
        """The address of an interface of this machine."""

    def resolve(self, name: str) -> str | None:
        """The address of a host."""

    def source_towards(self, address: str) -> str | None:
        """The address of ours that ``address`` sees."""


def machine() -> tuple[str, ...]:
    """Tell this machine from others, emulated ones included: its name, its boot, and the network it is in."""
    boot, network = "", ""
    with suppress(OSError), open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:  # other systems
        boot = file.read().strip()
    with suppress(OSError):  # likewise
        network = os.readlink("/proc/self/ns/net")
    return os.uname().nodename, boot, network


def someone_elsewhere(me: Spot, everyone: Sequence[Spot]) -> str:
    """Return the node of the first process that is on another machine than ``me``; empty if there is none."""
    return next((spot.node for spot in everyone if spot.machine != me.machine), "")


def is_loopback(host: str) -> bool:
    """Tell whether only this machine reaches the numeric address ``host``."""
    import ipaddress  # a newcomer on this machine does without

    return ipaddress.ip_address(host).is_loopback


def listening_host(chosen: str, towards: str, own_name: str, network: Network) -> str:
    """Return the numeric address to listen on.

    Args:
        chosen: What the user asks for, an address, an interface or a name; empty: nothing.
        towards: A host or address that must reach us; empty: all are on this machine.
        own_name: This machine's name.
        network: What this machine knows.

    Raises:
        UsageError: ``chosen`` makes no sense here, or nothing is found that others could reach.
    """
    if chosen:
        return _chosen_host(chosen, network)
    if not towards:
        return LOOPBACK
    target = network.resolve(towards)
    for address in (network.source_towards(target) if target else None, network.resolve(own_name)):
        # many systems give their own name an address of loopback
        if address and not is_loopback(address):
            return address
    raise UsageError(
        f"{own_name} has no address that {towards} could reach\n"
        f"{towards} is {target or 'not known here'}, {own_name} is {network.resolve(own_name) or 'not known here'}\n"
        f"set {ENV_BIND_HOST} to the interface that connects the hosts, like {ENV_BIND_HOST}=eth0"
    )


def _chosen_host(chosen: str, network: Network) -> str:
    import ipaddress

    address = network.interface_address(chosen)
    if address is None:
        try:
            address = str(ipaddress.ip_address(chosen))
        except ValueError:
            address = network.resolve(chosen)
    remedy = f"set {ENV_BIND_HOST} to an interface of each host, like eth0, or to an address of this one"
    if address is None:
        raise UsageError(f"{ENV_BIND_HOST}={chosen}\nthat is no interface, address or host name here\n{remedy}")
    if ipaddress.ip_address(address).is_unspecified:
        raise UsageError(f"{ENV_BIND_HOST}={chosen}\nthat is no address by which others could reach us\n{remedy}")
    return address


class ThisMachine:
    """The network as the kernel and the resolver know it."""

    def interface_address(self, name: str) -> str | None:
        """The IPv4 address of an interface."""
        request = struct.pack("256s", name.encode()[:15])
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock, suppress(OSError):  # it has none
            return socket.inet_ntoa(fcntl.ioctl(sock.fileno(), _SIOCGIFADDR, request)[20:24])
        return None

    def resolve(self, name: str) -> str | None:
        """The IPv4 address of a host."""
        with suppress(OSError, UnicodeError):  # unknown, or no name at all
            return socket.gethostbyname(name)
        return None

    def source_towards(self, address: str) -> str | None:
        """The address from which packets to ``address`` would go out; none is sent."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock, suppress(OSError):  # no way there
            sock.connect((address, 9))
            return str(sock.getsockname()[0])
        return None


def listen_where(towards: str) -> str:
    """Return the address on which this process must listen so that ``towards`` reaches it; empty: this machine only.

    Raises:
        UsageError: There is none; see ``listening_host``.
    """
    return listening_host(os.environ.get(ENV_BIND_HOST, ""), towards, os.uname().nodename, ThisMachine())


def asked_for() -> str:
    """Who asks for our address, in words for a message; empty: nobody."""
    chosen = os.environ.get(ENV_BIND_HOST)
    return f", which {ENV_BIND_HOST}={chosen} asks for" if chosen else ""
