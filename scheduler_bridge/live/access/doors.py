"""Doors by which users come in, beside the control socket of the scheduler's own user: listening, and who is there."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pwd
import socket
import stat
import struct
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal, Self, TypeAlias

import msgspec

from scheduler_bridge.live.access.callers import Caller
from scheduler_bridge.live.access.tokens import Challenge, Proof, Tokens, TokensError, nonce, recognise
from scheduler_bridge.live.config import DaemonError
from scheduler_bridge.live.listener import Listener
from scheduler_bridge.live.requests import Failure

_CREDENTIALS: Final = struct.Struct("3i")
"""ucred: pid, uid, gid."""
Know: TypeAlias = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[Caller | Failure]]
"""Finds out who calls, or what to say to somebody who is not let in."""

_PROOF: Final = msgspec.json.Decoder(Proof)


@dataclass(frozen=True, slots=True)
class Door:
    """Where a scheduler can be reached.

    Attributes:
        kind: ``unix``: a socket in the file system, the kernel says who calls; ``tcp``: a port, callers have tokens.
        where: The path, or the address.
        port: Of TCP; 0: any free one.
    """

    kind: Literal["unix", "tcp"]
    where: str
    port: int = 0

    @staticmethod
    def is_meant(text: str) -> bool:
        """Tell whether a text is to name a door, rather than a folder."""
        return text.startswith(("unix:", "tcp:"))

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``unix:PATH`` or ``tcp:HOST:PORT``.

        Raises:
            DaemonError: It is neither.
        """
        kind, _, rest = text.partition(":")
        if kind == "unix" and rest:
            return cls("unix", str(Path(rest).absolute()))
        host, _, port = rest.rpartition(":")
        if kind != "tcp" or not host or not port.isdecimal() or int(port) > 65535:
            raise DaemonError(f"{text} is not a door", "give unix:PATH or tcp:HOST:PORT")
        return cls("tcp", host.strip("[]"), int(port))

    def __str__(self) -> str:
        host = f"[{self.where}]" if ":" in self.where else self.where
        return f"tcp:{host}:{self.port}" if self.kind == "tcp" else f"unix:{self.where}"

    async def open(self, listener: Listener, limit_bytes: int) -> Door:
        """Have a door that callers can be let in by; return it with its port.

        Raises:
            DaemonError: It cannot be had.
        """
        try:
            if self.kind == "tcp":
                return replace(self, port=await listener.start(self.where, self.port, limit_bytes, serving=False))
            await _listen_in_file(Path(self.where), listener, limit_bytes)
        except OSError as error:
            raise DaemonError(f"cannot listen at {self}: {error.strerror or error}", "choose another --door") from None
        return self

    def remove(self) -> None:
        """Leave nothing behind."""
        if self.kind == "unix":
            Path(self.where).unlink(missing_ok=True)


async def _listen_in_file(path: Path, listener: Listener, limit_bytes: int) -> None:
    if path.exists():
        if not stat.S_ISSOCK(path.stat().st_mode) or not _is_left(path):
            raise OSError(0, "it is there already")
        path.unlink()
    bound = socket.socket(socket.AF_UNIX)
    try:
        bound.bind(str(path))
    except BaseException:
        bound.close()
        raise
    try:
        path.chmod(0o666)  # everybody may call, the kernel says who it is
        await listener.start_near(bound, limit_bytes)
    except BaseException:
        bound.close()
        path.unlink(missing_ok=True)
        raise


def _is_left(path: Path) -> bool:
    """Whether nobody listens at a socket: a killed scheduler left it."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.setblocking(False)  # a full queue of callers is somebody's
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            return True
        except OSError:
            return False
        return False


class Keeper:
    """Finds out who calls.

    Args:
        tokens: Of those who come in by TCP.
        hello_s: Time to prove it.
    """

    def __init__(self, tokens: Tokens, hello_s: float) -> None:
        self._tokens = tokens
        self._hello_s = hello_s

    async def owner(self, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Caller | Failure:
        """At the control socket: the scheduler's user and root, whom its folder lets in, and nobody else."""
        caller = self._caller(writer)
        return caller if caller.operator else Failure(reason="this scheduler belongs to another user")

    async def anybody(self, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Caller | Failure:
        """At a socket for all users of the machine."""
        return self._caller(writer)

    async def holder(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Caller | Failure:
        """At a port: those who have a token."""
        challenge = Challenge(nonce())
        writer.write(msgspec.json.encode(challenge) + b"\n")
        try:
            async with asyncio.timeout(self._hello_s):
                said = _PROOF.decode(await reader.readuntil(b"\n"))
            known = recognise(self._tokens.holders(), challenge.nonce, said)
        except (msgspec.DecodeError, UnicodeDecodeError, asyncio.LimitOverrunError):
            return Failure(reason="this is no proof", hint="callers of this port need a token")
        except TokensError:
            return Failure(reason="the scheduler cannot read its tokens", hint="an operator has to mend that")
        if known is None:
            return Failure(reason="unknown user or wrong token", hint="ask an operator: malleable tokens add NAME")
        caller, welcome = known
        writer.write(msgspec.json.encode(welcome) + b"\n")
        return caller

    def _caller(self, writer: asyncio.StreamWriter) -> Caller:
        """The user at the other end of a Unix socket, as the kernel noted it when it connected."""
        peer = writer.get_extra_info("socket")
        credentials = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        uid = int(_CREDENTIALS.unpack(credentials)[1])
        name = f"uid{uid}"
        with contextlib.suppress(KeyError):  # it has no name, as in some containers
            name = pwd.getpwuid(uid).pw_name
        return Caller(name, operator=uid in (os.getuid(), 0))

    def at(self, door: Door) -> Know:
        """What finds out who calls at ``door``."""
        return self.holder if door.kind == "tcp" else self.anybody
