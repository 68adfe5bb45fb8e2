"""Places of one machine: they meet at a local socket, which is quicker than TCP and can hand over shared memory.

A place that listens on a TCP address listens on a socket of Linux's abstract namespace, too, whose name is made of that
address. Who finds it is on the same machine and in the same network namespace; others come by TCP. The handshake is
the same for both.
"""

from __future__ import annotations

import os
import socket
import struct
from contextlib import ExitStack, suppress
from typing import Final

from apgas.transport.base import Address

_BACKLOG: Final = 1024
_CREDENTIALS: Final = struct.Struct("iII")
"""Process, user and group of the peer, as the kernel knows them."""


def local_name(address: Address) -> bytes:
    """Return the name of the local socket that belongs to a TCP address."""
    return f"\0apgas/{address[0]}/{address[1]}".encode()


class Listening:
    """The non-blocking sockets at which a place listens: for all who reach the numeric ``host``, and this machine's.

    Raises:
        OSError: It is not possible to listen there.
    """

    def __init__(self, host: str) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        tcp = socket.create_server((host, 0), family=family, backlog=_BACKLOG)
        tcp.setblocking(False)
        self.address: Final[Address] = tcp.getsockname()[:2]
        local = listen(self.address)
        self.sockets: Final = [tcp] if local is None else [tcp, local]


def listen(address: Address) -> socket.socket | None:
    """Listen where places of this machine look for ``address``; None if that is not possible: they come by TCP then."""
    with suppress(OSError), ExitStack() as unless_kept:
        sock = unless_kept.enter_context(_new_socket())
        sock.bind(local_name(address))
        sock.listen(_BACKLOG)
        unless_kept.pop_all()
        return sock
    return None


def connect(address: Address) -> socket.socket | None:
    """Connect to a place of this machine and of this user; None if ``address`` is none."""
    # none is there, or it has no room for callers: TCP waits for that; without file descriptors, TCP tries again
    with suppress(OSError), ExitStack() as unless_kept:
        sock = unless_kept.enter_context(_new_socket())
        sock.connect(local_name(address))
        if _owner(sock) == os.geteuid():
            unless_kept.pop_all()
            return sock
    return None


def _new_socket() -> socket.socket:
    return socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)


def is_unix(sock: socket.socket) -> bool:
    """Return whether the peer of ``sock`` is on this machine."""
    return sock.family == socket.AF_UNIX


def _owner(sock: socket.socket) -> int:
    """The user who listens, so that no other user can take the place of a place by being first to use its name."""
    credentials = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return int(_CREDENTIALS.unpack(credentials)[1])
