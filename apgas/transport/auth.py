"""Mutual challenge and response over the job's token, without I/O: both ends prove that they hold it.

The one that connects is the caller, the other the listener::

    caller   -> listener   hello: magic, both place ids, caller's nonce
    listener -> caller     listener's nonce, HMAC-SHA256(token, "listener", ids, both nonces)
    caller   -> listener   HMAC-SHA256(token, "caller", ids, both nonces)
    listener -> caller     welcome

Fresh nonces make a recorded conversation useless, the direction in the keyed text a reflected one, and the ids one that
is sent to another place. The caller sends no frame before the welcome, so nothing is lost when the listener hangs up
earlier. Every message has a fixed length, so nothing is parsed before the proof but two integers. The stream is neither
encrypted nor signed after the handshake: this keeps strangers out of a trusted network, not a wiretapper.
"""

from __future__ import annotations

import os
import struct
from abc import ABC, abstractmethod
from typing import Final

from apgas.errors import AuthenticationError

TOKEN_BYTES: Final = 32
NONCE_BYTES: Final = 32
MAC_BYTES: Final = 32
_MAGIC: Final = b"APGAS-H2"
_HELLO: Final = struct.Struct(f"!{len(_MAGIC)}sII{NONCE_BYTES}s")
_WELCOME: Final = b"\x06"


def new_token() -> bytes:
    """Return a fresh secret for one job."""
    return os.urandom(TOKEN_BYTES)


def check_token(token: bytes) -> bytes:
    """Return ``token``.

    Raises:
        ValueError: It has not the length of a token.
    """
    if len(token) != TOKEN_BYTES:
        raise ValueError(f"a token has {TOKEN_BYTES} bytes, this one {len(token)}")
    return token


def _proof(token: bytes, direction: bytes, hello: bytes, listener_nonce: bytes) -> bytes:
    import hmac  # with OpenSSL, which a program that has not begun yet does not wait for

    return hmac.digest(token, direction + b"\0" + hello + listener_nonce, "sha256")


def _is_proof(given: bytes, token: bytes, direction: bytes, hello: bytes, listener_nonce: bytes) -> bool:
    import hmac

    return hmac.compare_digest(given, _proof(token, direction, hello, listener_nonce))


class _Side(ABC):
    """Collects messages of known length. ``needed_bytes`` is what the current one still lacks; 0 when done."""

    def __init__(self, first_bytes: int) -> None:
        self._message = bytearray()
        self._message_bytes = first_bytes

    @property
    def needed_bytes(self) -> int:
        """How many bytes to receive next: never read more than that from the socket."""
        return self._message_bytes - len(self._message)

    @property
    def done(self) -> bool:
        """Whether the peer has proved itself and the conversation is over."""
        return self._message_bytes == 0

    def receive(self, data: bytes) -> bytes:
        """Take at most ``needed_bytes`` bytes of the peer; return what to send to it now.

        Raises:
            AuthenticationError: The peer does not speak the protocol, or does not hold the token.
        """
        if len(data) > self.needed_bytes:
            raise AuthenticationError("more bytes than the handshake has")
        self._message += data
        if self.needed_bytes or self.done:
            return b""
        message = bytes(self._message)
        self._message.clear()
        reply, self._message_bytes = self._step(message)
        return reply

    @abstractmethod
    def _step(self, message: bytes) -> tuple[bytes, int]:
        """Return the reply to a complete message, and the length of the next one."""


class Caller(_Side):
    """The side that connects: ``place`` calls ``peer``. Send ``hello`` first."""

    def __init__(self, token: bytes, place: int, peer: int, nonce: bytes | None = None) -> None:
        super().__init__(NONCE_BYTES + MAC_BYTES)
        self._token = check_token(token)
        self.hello: Final = _HELLO.pack(_MAGIC, place, peer, nonce or os.urandom(NONCE_BYTES))
        self._proved = False

    def _step(self, message: bytes) -> tuple[bytes, int]:
        if self._proved:
            if message != _WELCOME:
                raise AuthenticationError("no welcome after the handshake")
            return b"", 0
        nonce, proof = message[:NONCE_BYTES], message[NONCE_BYTES:]
        if not _is_proof(proof, self._token, b"listener", self.hello, nonce):
            raise AuthenticationError("the listener does not hold this job's token")
        self._proved = True
        return _proof(self._token, b"caller", self.hello, nonce), len(_WELCOME)


class Listener(_Side):
    """The side that was connected to, at ``place``. ``peer`` is who the caller says it is: true once ``done``."""

    def __init__(self, token: bytes, place: int, nonce: bytes | None = None) -> None:
        super().__init__(_HELLO.size)
        self._token = check_token(token)
        self._place = place
        self._nonce = nonce or os.urandom(NONCE_BYTES)
        self._hello = b""
        self.peer = -1

    @property
    def greeted(self) -> bool:
        """Whether a complete hello has come."""
        return bool(self._hello)

    def _step(self, message: bytes) -> tuple[bytes, int]:
        if self._hello:
            if not _is_proof(message, self._token, b"caller", self._hello, self._nonce):
                raise AuthenticationError(f"a caller named place {self.peer} does not hold this job's token")
            return _WELCOME, 0
        magic, peer, called, _ = _HELLO.unpack(message)
        if magic != _MAGIC:
            raise AuthenticationError("a caller does not speak this protocol")
        if called != self._place:
            raise AuthenticationError(f"a caller looks for place {called}, this is place {self._place}")
        self._hello, self.peer = message, peer
        return self._nonce + _proof(self._token, b"listener", message, self._nonce), MAC_BYTES
