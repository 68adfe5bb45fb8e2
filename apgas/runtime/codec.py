"""What travels: functions, arguments, values and errors as one pickle plus out-of-band buffers."""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import cloudpickle

from apgas.errors import ApgasError

Buffer: TypeAlias = "bytes | bytearray | memoryview"


class RemoteError(ApgasError):
    """Stands for an error of another place that could not travel itself; the text names it."""


def dumps(value: object) -> list[Buffer]:
    """Pickle ``value``: the pickle first, then the large buffers in it, uncopied.

    Raises:
        TypeError: The value cannot be pickled; the text says which.
    """
    buffers: list[pickle.PickleBuffer] = []
    try:
        body = cloudpickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    except Exception as error:
        raise TypeError(f"cannot send {value!r:.200}: {error}") from error
    return [body, *(buffer.raw() for buffer in buffers)]


def loads(payload: Sequence[Buffer]) -> Any:
    """The value that ``dumps`` pickled."""
    return pickle.loads(payload[0], buffers=payload[1:])


def dump_call(fn: Callable[..., object], args: tuple[object, ...], kwargs: dict[str, object]) -> list[Buffer]:
    """Pickle a call.

    Raises:
        TypeError: The function or an argument cannot be pickled.
    """
    return dumps((fn, args, kwargs))


def dump_error(error: BaseException, place: int, node: str) -> bytes:
    """Pickle an error with the place and the traceback it comes from, as a note on the error."""
    text = "".join(traceback.format_exception(error)).rstrip()
    note = f"raised on place {place} ({node}):\n{text}"
    try:
        error.add_note(note)
        body: bytes = cloudpickle.dumps(error, protocol=5)
        pickle.loads(body)
    except Exception:  # noqa: BLE001 - an error that cannot travel is replaced by one that can
        substitute = RemoteError(f"{type(error).__name__}: {error}")
        substitute.add_note(note)
        body = cloudpickle.dumps(substitute, protocol=5)
    return body


def load_error(body: Buffer) -> BaseException:
    """The error that ``dump_error`` pickled."""
    error = pickle.loads(body)
    return error if isinstance(error, BaseException) else RemoteError(repr(error))
