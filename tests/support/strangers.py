"""Callers that mean no good: garbage, half sentences, silence and half-open connections on the ports of processes."""

from __future__ import annotations

import random
import socket
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TypeAlias

_LISTENING = "0A"
_ACCEPTING = "00010000"


Address: TypeAlias = "tuple[str, int] | str"
"""An IPv4 address, or the name of a local socket in the abstract namespace."""


def ports_of(pids: Iterable[int]) -> set[Address]:
    """Returns where processes listen."""
    inodes = {inode for pid in pids for inode in _sockets(pid)}
    found: set[Address] = set()
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        words = line.split()
        if words[3] == _LISTENING and words[9] in inodes:
            host, _, port = words[1].partition(":")
            found.add((socket.inet_ntoa(bytes.fromhex(host)[::-1]), int(port, 16)))
    for line in Path("/proc/net/unix").read_text().splitlines()[1:]:
        words = line.split()
        if len(words) > 7 and words[3] == _ACCEPTING and words[6] in inodes and words[7].startswith("@"):
            found.add("\0" + words[7][1:])
    return found


def _sockets(pid: int) -> list[str]:
    found = []
    with suppress(OSError):  # the process is gone
        for link in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):  # closed meanwhile
                target = str(link.readlink())
                if target.startswith("socket:["):
                    found.append(target[len("socket:[") : -1])
    return found


class Strangers:
    """Calls on all ports that `where` returns, again and again, until the block is left."""

    def __init__(self, where: Callable[[], Iterable[Address]], seed: int) -> None:
        self.calls = 0
        self._where = where
        self._rng = random.Random(seed)
        self._silent: list[socket.socket] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Strangers:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stop.set()
        self._thread.join()
        for caller in self._silent:
            caller.close()

    def _run(self) -> None:
        while not self._stop.wait(0.05):
            for address in sorted(self._where(), key=str):
                with suppress(OSError):  # no process listens there now
                    self._call(address)

    def _call(self, address: Address) -> None:
        caller = socket.socket(socket.AF_UNIX if isinstance(address, str) else socket.AF_INET)
        caller.settimeout(1.0)
        try:
            caller.connect(address)
        except OSError:
            caller.close()
            raise
        self.calls += 1
        manner = self._rng.randrange(5)
        if manner == 0:  # a torrent of garbage
            with suppress(OSError):  # hung up on
                caller.sendall(self._rng.randbytes(self._rng.randint(1, 100_000)))
        elif manner == 1:  # another protocol
            with suppress(OSError):  # hung up on
                caller.sendall(b"GET / HTTP/1.1\r\nHost: place\r\n\r\n" + b'{"type": "hello"}\n')
        elif manner == 2:  # a byte now, and no more: it stays connected
            caller.sendall(self._rng.randbytes(1))
            self._keep(caller)
            return
        elif manner == 3:  # not a word: it stays connected
            self._keep(caller)
            return
        else:  # gone at once, and rudely
            caller.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        caller.close()

    def _keep(self, caller: socket.socket) -> None:
        self._silent.append(caller)
        if len(self._silent) > 200:
            self._silent.pop(0).close()


def converse(caller: socket.socket, words: bytes) -> bytes:
    """Say ``words`` and nothing more; return all that is answered until the other side hangs up."""
    answer = b""
    try:
        caller.sendall(words)
        caller.shutdown(socket.SHUT_WR)
        while part := caller.recv(65536):
            answer += part
    except TimeoutError:
        raise
    except OSError:
        pass  # Cut off in the middle of a sentence.
    finally:
        caller.close()
    return answer
