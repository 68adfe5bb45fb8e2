"""The tokens of those who come in by TCP: a file in the state folder, which holds keys made from them.

A token is never sent. Both sides prove that they have its key, each by a message authentication code over what both
have said (HMAC, RFC 2104, with SHA-256), so that neither a listener nor a scheduler of somebody else learns it.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from scheduler_bridge.live.access.callers import Caller

TOKENS: Final = "tokens.json"
_TOKEN_BYTES: Final = 32

UserName = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_.@\-]{1,100}$")]
Hex = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}$")]


class Holder(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Somebody with a token. ``key``: the SHA-256 of the token, as hexadecimal digits."""

    key: Hex
    operator: bool = False


_FILE: Final = msgspec.json.Decoder(dict[UserName, Holder])


class TokensError(Exception):
    """The file of tokens cannot be used; ``hint`` says what to do."""

    def __init__(self, reason: str, hint: str = "") -> None:
        super().__init__(reason)
        self.hint = hint


class Tokens:
    """The tokens of one scheduler; what is changed holds at once, also for one that runs.

    Args:
        folder: Its state folder.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / TOKENS

    def holders(self) -> Mapping[str, Holder]:
        """Return who has one.

        Raises:
            TokensError: The file is not what it should be.
        """
        try:
            return _FILE.decode(self._path.read_bytes())
        except FileNotFoundError:
            return {}
        except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
            raise TokensError(f"{self._path}: {error}", "remove it, and add the users again") from None

    def add(self, user: str, *, operator: bool = False) -> str:
        """Make a token for ``user``, whose earlier one is void; return what the user has to keep.

        Raises:
            TokensError: The file or the name is not what it should be.
        """
        try:
            msgspec.convert(user, UserName)
        except msgspec.ValidationError:
            raise TokensError(f"{user!r} is not a user's name", "letters, digits and _ . @ -, 100 at most") from None
        token = secrets.token_hex(_TOKEN_BYTES)
        self._write({**self.holders(), user: Holder(key_of(token), operator)})
        return f"{user}:{token}"

    def remove(self, user: str) -> None:
        """Make the token of ``user`` void.

        Raises:
            TokensError: There is none, or the file is not what it should be.
        """
        holders = dict(self.holders())
        if holders.pop(user, None) is None:
            raise TokensError(f"{user} has no token", "malleable tokens list shows who has")
        self._write(holders)

    def _write(self, holders: Mapping[str, Holder]) -> None:
        try:
            descriptor, name = tempfile.mkstemp(prefix=f".{TOKENS}-", dir=self._path.parent)  # only its user reads it
            with os.fdopen(descriptor, "wb") as file:
                file.write(msgspec.json.format(msgspec.json.encode(holders)) + b"\n")
                file.flush()
                os.fsync(file.fileno())
            Path(name).replace(self._path)
        except OSError as error:
            raise TokensError(f"{self._path}: {error.strerror}", "is --state the scheduler's folder?") from None


def key_of(token: str) -> str:
    """Return what the scheduler keeps of a token."""
    return hashlib.sha256(token.encode()).hexdigest()


class Challenge(msgspec.Struct, frozen=True, tag_field="type", tag="challenge"):
    """The scheduler's first word to whoever comes in by TCP."""

    nonce: Hex


class Proof(msgspec.Struct, frozen=True, tag_field="type", tag="proof", forbid_unknown_fields=True):
    """The caller's answer."""

    user: UserName
    nonce: Hex
    proof: Hex


class Welcome(msgspec.Struct, frozen=True, tag_field="type", tag="welcome"):
    """The scheduler knows the caller, and proves that it has the key, too."""

    proof: Hex


def nonce() -> str:
    """Return 256 random bits."""
    return secrets.token_hex(_TOKEN_BYTES)


def prove(side: Literal["caller", "scheduler"], key: str, user: str, theirs: str, ours: str) -> str:
    """Return what only one who has ``key`` can say.

    Args:
        side: Who says it; one side's proof is not the other's.
        key: See ``key_of``.
        user: Whose it is.
        theirs: The nonce of the scheduler.
        ours: The nonce of the caller.
    """
    words = "\n".join(("malleable control", side, user, theirs, ours))
    return hmac.new(bytes.fromhex(key), words.encode(), hashlib.sha256).hexdigest()


def recognise(holders: Mapping[str, Holder], challenge: str, said: Proof) -> tuple[Caller, Welcome] | None:
    """Return who has proven to be there, and what to answer; None: nobody whom we know.

    An unknown user takes as long as a wrong proof.
    """
    holder = holders.get(said.user)
    key = holder.key if holder is not None else nonce()
    right = hmac.compare_digest(prove("caller", key, said.user, challenge, said.nonce), said.proof)
    if holder is None or not right:
        return None
    return Caller(said.user, holder.operator), Welcome(prove("scheduler", key, said.user, challenge, said.nonce))
