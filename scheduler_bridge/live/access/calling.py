"""A user's side of a door: connecting, and proving who one is."""

from __future__ import annotations

import hmac
import os
import socket
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import IO, Final

import msgspec

from scheduler_bridge.live.access.doors import Door
from scheduler_bridge.live.access.tokens import Challenge, Proof, Welcome, key_of, nonce, prove
from scheduler_bridge.live.requests import Failure

ENV_TOKEN_FILE: Final = "MALLEABLE_TOKEN_FILE"
_MAKE: Final = "an operator makes one: malleable tokens add NAME"
_LINE_BYTES: Final = 64 * 1024
_TOLD: Final = msgspec.json.Decoder(Challenge | Welcome | Failure)


class CallError(Exception):
    """A scheduler does not let this user in, or is not the one that was looked for; ``hint`` says what to do."""

    def __init__(self, reason: str, hint: str = "") -> None:
        super().__init__(reason)
        self.hint = hint


def token_file(environ: Mapping[str, str] | None = None) -> Path:
    """Return where the user keeps the token."""
    named = (os.environ if environ is None else environ).get(ENV_TOKEN_FILE)
    if named:
        return Path(named)
    import platformdirs

    return platformdirs.user_config_path("malleable", appauthor=False) / "token"


def read_token(path: Path) -> tuple[str, str]:
    """Return user and token.

    Raises:
        CallError: It is not there, not what it should be, or others can read it.
    """
    try:
        if path.stat().st_mode & 0o077:
            raise CallError(f"others can read {path}", f"chmod 600 {path}")
        user, colon, token = path.read_text(encoding="ascii").strip().partition(":")
    except OSError as error:
        raise CallError(f"no token in {path}: {error.strerror}", _MAKE) from None
    except UnicodeDecodeError:
        user = colon = token = ""
    if not (user and colon and token):
        raise CallError(f"{path} holds no token", "it is one line, as malleable tokens add has printed it: NAME:TOKEN")
    return user, token


def call(door: Door, timeout_s: float, tokens: Path) -> socket.socket:
    """Return a connection through ``door``, on which both sides have proven who they are.

    Args:
        door: Where the scheduler is.
        timeout_s: Time for each of its words.
        tokens: The file with the user's token, for a door that asks for one.

    Raises:
        CallError: One of both sides is not who the other one looked for.
        OSError: Nobody is there.
    """
    if door.kind == "tcp":
        user, token = read_token(tokens)
        connection = socket.create_connection((door.where, door.port), timeout_s)
        prove_it = partial(_prove, door, connection, user, token)
    else:
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(timeout_s)
        prove_it = partial(connection.connect, door.where)  # the kernel proves it
    try:
        prove_it()
    except BaseException:
        connection.close()
        raise
    return connection


def _prove(door: Door, connection: socket.socket, user: str, token: str) -> None:
    """Say who this is, and hear that it is the scheduler."""
    with connection.makefile("rb") as lines:
        challenge = _hear(lines)
        if not isinstance(challenge, Challenge):
            raise CallError(f"{door} is no door of a scheduler")
        key, ours = key_of(token), nonce()
        said = Proof(user=user, nonce=ours, proof=prove("caller", key, user, challenge.nonce, ours))
        connection.sendall(msgspec.json.encode(said) + b"\n")
        answer = _hear(lines)
    if isinstance(answer, Failure):
        raise CallError(f"{door} does not let {user} in: {answer.reason}", answer.hint)
    right = prove("scheduler", key, user, challenge.nonce, ours)
    if not isinstance(answer, Welcome) or not hmac.compare_digest(answer.proof, right):
        raise CallError(f"{door} cannot prove that it is the scheduler", "tell an operator")


def _hear(lines: IO[bytes]) -> Challenge | Welcome | Failure | None:
    try:
        told: Challenge | Welcome | Failure = _TOLD.decode(lines.readline(_LINE_BYTES))
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return told
