"""Places of other machines: what their TCP connections are set to."""

from __future__ import annotations

import socket
from typing import Final

_IDLE_S: Final = 20
_BETWEEN_S: Final = 10
_PROBES: Final = 4


def set_up(sock: socket.socket) -> None:
    """Let small frames go at once, and the end of a machine that went without a word be noticed within a minute.

    The kernel asks for that, on connections without traffic, and also while we do not run. There is a connection in
    each direction, so one of the two is without traffic even when what we send is not taken any more. A bound on that
    (TCP_USER_TIMEOUT) would end connections to places that live but are too busy to read.
    """
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _IDLE_S)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _BETWEEN_S)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, _PROBES)
