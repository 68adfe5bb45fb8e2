"""Calls as they travel: a function, or the number of one that was sent before, and its arguments.

The first buffer of a call begins with a byte that tells its kind and the number of the function:

    FULL    -1      pickle of (function, arguments, keyword arguments)
    KNOWN   number  pickle of (arguments, keyword arguments); the function was defined by an earlier call
    DEFINES number  likewise; the second buffer defines the function

Calls from one place to another arrive in order, so a definition arrives before whatever relies on it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import partial
from types import BuiltinFunctionType
from typing import Any, Final, TypeAlias

from apgas.errors import ProtocolError
from apgas.runtime import codec
from apgas.runtime.functions import Definition, ReceivedFunction, SentFunctions
from apgas.runtime.handles import Carrying, Handle, like
from apgas.transport.base import Buffer

Call: TypeAlias = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]
"""A function and its arguments."""

_FULL: Final = 0
_KNOWN: Final = 1
_DEFINES: Final = 2
_HEAD: Final = struct.Struct("!Bi")
_FULL_HEAD: Final = _HEAD.pack(_FULL, -1)
_LARGE_BYTES: Final = 2**20
"""Smaller calls are not looked into, unless they have buffers beside them."""


class Calls:
    """Packs the calls that one place sends, and unpacks those that it receives."""

    def __init__(self) -> None:
        self._sent = SentFunctions(codec.dumps_by_value)
        self._received: dict[tuple[int, int], ReceivedFunction] = {}

    def pack(self, dst: int, call: Call) -> tuple[list[Buffer], Definition | None]:
        """Make the payload of a call to place ``dst``; when it is on its way, ``sent`` is to be told the definition.

        Raises:
            TypeError: The function or an argument cannot be pickled.
            UsageError: Function and arguments are larger than what may be sent at once.
        """
        fn, args, kwargs = call
        try:
            definition = self._sent.definition(fn)
        except Exception:  # noqa: BLE001 - what cannot be pickled is told below, with all of the call
            definition = None
        if definition is None:
            made = codec.dumps(call, of_call=True)
            notice(fn, made, {dst})
            return like(made, [_FULL_HEAD + made[0], *made[1:]]), None
        try:
            made = codec.dumps((args, kwargs))
        except TypeError:
            made = codec.dumps(call, of_call=True)  # raises what says more
        if dst in definition.sent_to:
            return like(made, [_HEAD.pack(_KNOWN, definition.number) + made[0], *made[1:]]), None
        packed = [_HEAD.pack(_DEFINES, definition.number) + made[0], definition.body, *made[1:]]
        codec.check_size(sum(map(len, packed)))
        return like(made, packed), definition

    def sent(self, dst: int, definition: Definition | None) -> None:
        """Note that a definition was sent to ``dst``: later calls may rely on it."""
        if definition is not None:
            definition.sent_to.add(dst)

    def arrived(self, src: int, payload: Sequence[Buffer]) -> Callable[[], Call]:
        """Take the payload of a call from place ``src``, in the order of arrival; returns what unpickles it.

        Raises:
            ProtocolError: It is no call, or relies on a function that was never defined.
        """
        load = self._arrived(src, payload)
        return partial(_load_holding, payload.handles, load) if isinstance(payload, Carrying) else load

    def _arrived(self, src: int, payload: Sequence[Buffer]) -> Callable[[], Call]:
        try:
            kind, number = _HEAD.unpack_from(payload[0])
            rest = memoryview(payload[0])[_HEAD.size :]
            if kind == _FULL:
                return partial(codec.loads, [rest, *payload[1:]])
            if kind == _KNOWN:
                return partial(_load, self._received[src, number], [rest, *payload[1:]])
            if kind == _DEFINES:
                function = self._received[src, number] = ReceivedFunction(payload[1], codec.load_plain)
                return partial(_load, function, [rest, *payload[2:]])
        except (IndexError, KeyError, struct.error) as error:
            raise ProtocolError(f"place {src} sent a call that cannot be read: {error!r}") from error
        raise ProtocolError(f"place {src} sent a call of unknown kind {kind}")

    def forget(self, place: int) -> None:
        """Drop what was noted about a place that has left."""
        self._sent.forget(place)
        for key in [key for key in list(self._received) if key[0] == place]:
            del self._received[key]


def notice(fn: Callable[..., Any], made: Sequence[Buffer], places: set[int]) -> None:
    """Where a call is large, look at what its function takes along to these places."""
    if (len(made) > 1 or len(made[0]) >= _LARGE_BYTES) and not isinstance(fn, BuiltinFunctionType | type):
        from apgas.runtime import captures

        captures.notice(fn, places)


def _load_holding(_: tuple[Handle, ...], load: Callable[[], Call]) -> Call:
    return load()


def _load(function: ReceivedFunction, payload: Sequence[Buffer]) -> Call:
    args, kwargs = codec.loads(payload)
    return function.get(), args, kwargs
