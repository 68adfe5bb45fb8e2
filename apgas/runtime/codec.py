"""What travels: functions, arguments, values and errors as one pickle plus out-of-band buffers.

What can be named (functions and classes of importable modules) goes the fast way of the standard library's pickle;
anything that has to travel by value is left to cloudpickle.
"""

from __future__ import annotations

import io
import pickle
import sys
from collections.abc import Callable, Collection, Sequence
from itertools import repeat
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from apgas.errors import UsageError
from apgas.runtime.handles import Carrier, Carrying, Handle
from apgas.transport.wire import DEFAULT_LIMITS

if TYPE_CHECKING:
    from apgas.runtime import by_value

Buffer: TypeAlias = "bytes | bytearray | memoryview"

BESIDE_BYTES: Final = 4096
"""Shorter buffers travel within the pickle: beside it, each costs more than it saves."""
MOST_BESIDE: Final = 1024
"""So many buffers of one value travel beside its pickle, the others in it."""
MOST_BYTES: Final = DEFAULT_LIMITS.total_bytes - 2**20
"""Of one value; leaves room for the message that it travels with."""


_PLAIN: Final = frozenset({int, float, complex, str, bytes, bool, type(None)})
_SHORT: Final = 16
"""To look at what is in a longer tuple takes longer than to pickle it."""
_SHALLOW: Final = 3
"""Likewise in deeper ones; and tuples that hold one another twice would be looked at twice as often at every step."""
_NONE: Final = pickle.dumps(None, protocol=5)


class _TravelsByValueError(Exception):
    """Something is of the main program: the standard library's pickle would send its name only."""


class _ByName(pickle.Pickler):
    """Pickles what can be named; raises an error of any kind otherwise."""

    handles: tuple[Handle, ...] = ()

    def reducer_override(self, obj: Any) -> Any:
        """Refuse functions and classes of the main program and of modules that the program wants sent by value."""
        if isinstance(obj, Carrier):
            self.handles += tuple(obj.handles())
            return obj.travel()
        if isinstance(obj, FunctionType | type) and (
            obj.__module__ == "__main__" or obj.__module__ in modules_by_value()
        ):
            raise _TravelsByValueError
        if isinstance(obj, BaseException):
            from apgas.runtime import exceptions

            return exceptions.reduced(obj)
        return NotImplemented


def modules_by_value() -> Collection[str]:
    """The modules whose functions and classes the program wants sent by value: it has loaded cloudpickle to say so."""
    loaded = sys.modules.get("cloudpickle")
    return () if loaded is None else loaded.list_registry_pickle_by_value()


def dumps(value: object, *, of_call: bool = False) -> list[Buffer]:
    """Pickle ``value``: the pickle first, then the large buffers in it, uncopied; ``Carrying`` if it has references.

    ``of_call``: it is a function with its arguments, whose variables an error names.

    Raises:
        TypeError: The value cannot be pickled; the text says what in it.
        UsageError: It is larger than what may be sent at once.
    """
    if value is None:
        return [_NONE]
    if _is_plain(value):
        body = pickle.dumps(value, protocol=5)
        check_size(len(body))
        return [body]
    beside: list[memoryview] = []

    def keep_within(buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        if raw.nbytes < BESIDE_BYTES or len(beside) >= MOST_BESIDE:
            return True
        beside.append(raw)
        return False

    file = io.BytesIO()
    try:
        pickler: _ByName | by_value.Pickler = _ByName(file, 5, buffer_callback=keep_within)
        pickler.dump(value)
    except Exception:  # noqa: BLE001 - whatever it is, cloudpickle does it or says why not
        beside.clear()
        file = io.BytesIO()
        pickler = _dumped_by_value(value, file, keep_within, of_call=of_call)
    body = file.getvalue()
    check_size(len(body) + sum(raw.nbytes for raw in beside))
    return Carrying([body, *beside], pickler.handles) if pickler.handles else [body, *beside]


def _is_plain(value: object, deep: int = _SHALLOW) -> bool:
    """Whether anybody could unpickle ``value``: there is nothing in it that has to be looked at. Small ones only."""
    kind = type(value)
    if kind is tuple:
        parts: tuple[object, ...] = value  # type: ignore[assignment]  # as its type says
        return deep > 0 and len(parts) <= _SHORT and all(map(_is_plain, parts, repeat(deep - 1)))
    return kind in _PLAIN or (kind is dict and not value)


def check_size(size_bytes: int) -> None:
    """Refuse what is too large.

    Raises:
        UsageError: So much cannot be sent at once.
    """
    if size_bytes > MOST_BYTES:
        raise UsageError(f"cannot send {size_bytes} bytes at once, at most {MOST_BYTES}: send it in parts")


def _dumped_by_value(
    value: Any, file: io.BytesIO, keep_within: Callable[[pickle.PickleBuffer], bool], *, of_call: bool
) -> by_value.Pickler:
    from apgas.runtime import by_value

    pickler = by_value.Pickler(file, 5, buffer_callback=keep_within)
    try:
        pickler.dump(value)
    except Exception as error:  # noqa: BLE001 - whatever it is, the error names what cannot travel
        from apgas.runtime import captures

        text = captures.why_not(value, error) if of_call else captures.why_not_value(value, error)
        raise TypeError(text) from None
    return pickler


def dumps_by_value(value: object) -> bytes:
    """Pickle a function or an error, which has no handles, by value."""
    from apgas.runtime import by_value

    return by_value.dumps(value)


def loads(payload: Sequence[Buffer]) -> Any:
    """The value that ``dumps`` pickled."""
    return pickle.loads(payload[0], buffers=payload[1:])


def load_plain(body: Buffer) -> Any:
    """The value of one pickle without buffers beside it."""
    return pickle.loads(body)


def summary(error: BaseException) -> str:
    """Kind and text of ``error``, also where its own ``__str__`` fails."""
    try:
        return f"{type(error).__name__}: {error}"
    except BaseException:  # noqa: BLE001 - code of the program, which may raise anything
        return f"{type(error).__name__} (its text cannot be made)"


def dump_error(error: BaseException, place: int, node: str) -> bytes:
    """Pickle an error with the place and the traceback it comes from, as a note that it will have."""
    from apgas.runtime import exceptions, tracebacks

    return exceptions.dump(error, f"raised on place {place} ({node}):\n{tracebacks.text(error)}")


def load_error(body: Buffer) -> BaseException:
    """The error that ``dump_error`` pickled; one that only says so if it cannot be read here."""
    from apgas.runtime import exceptions

    return exceptions.load(body)


def name_of(fn: object) -> str:
    """What people call a function."""
    return getattr(fn, "__qualname__", None) or type(fn).__name__
