"""Errors as they travel: of their own type, whatever their constructor takes, for it is not called again.

Pickle makes an error anew by calling its class with ``args``, which fails, or does something else, where a constructor
takes other arguments than it hands to ``Exception``. Here the object is made by the built-in class that it is an
instance of, and then gets its ``args``, its attributes, its notes, its cause and its context. A class that says itself
how it is pickled is believed. What cannot travel stays behind alone, as far as possible: an attribute is left out, an
argument becomes its text, and a note says so.
"""

from __future__ import annotations

import contextlib
import copyreg
import pickle
import reprlib
import sys
from collections.abc import Iterator
from types import MemberDescriptorType
from typing import Any, Final, TypeAlias, cast

from apgas.errors import ApgasError
from apgas.runtime.codec import summary

_HEAP_TYPE: Final = 1 << 9
"""The flag of classes that were defined at run time: neither built in nor of a library's static data."""
_OWN_WAY: Final = ("__getnewargs__", "__getnewargs_ex__", "__getstate__", "__reduce__", "__reduce_ex__", "__setstate__")
_DEEPEST: Final = 8
"""Of errors that cannot travel as they are, those deeper within others travel as their text."""

Reduced: TypeAlias = tuple[Any, ...]
State: TypeAlias = tuple[tuple[Any, ...], dict[str, Any], "tuple[BaseException | None, BaseException | None, bool]"]
"""``args``, attributes, and cause, context and whether the context is hidden."""


class RemoteError(ApgasError):
    """Stands for an error of another place that could not travel itself; the text names it."""


class _Pieces:
    """Pickles as the error that these pieces make."""

    def __init__(self, pieces: Reduced) -> None:
        self._pieces = pieces

    def __reduce__(self) -> Reduced:
        return self._pieces


def reduced(error: BaseException) -> Any:
    """What a pickler's ``reducer_override`` returns for an error."""
    kind = type(error)
    if kind in copyreg.dispatch_table or any(
        name in vars(owner) for owner in kind.__mro__ if owner.__flags__ & _HEAP_TYPE for name in _OWN_WAY
    ):
        return NotImplemented
    chain = (error.__cause__, error.__context__, error.__suppress_context__)
    return _reduction(error, _made_of(error), (error.args, _attributes(error), chain))


def dump(error: BaseException, note: str) -> bytes:
    """Pickle an error, or as much of it as travels, and a note that it is to have."""
    from apgas.runtime import by_value

    try:
        return by_value.dumps((_sendable(error, 0), note))
    except Exception:  # noqa: BLE001 - code of the program
        return pickle.dumps((RemoteError(summary(error)), note), protocol=5)


def load(body: Any) -> BaseException:
    """The error that ``dump`` pickled; one that only says so if it cannot be read here."""
    try:
        found, note = pickle.loads(body)
    except BaseException as unreadable:  # noqa: BLE001 - unpickling runs code of the program, which may raise anything
        return RemoteError(f"an error of another place cannot be read here: {summary(unreadable)}")
    error = found if isinstance(found, BaseException) else RemoteError(reprlib.repr(found))
    with contextlib.suppress(Exception):  # a class may have an opinion on notes
        error.add_note(note)
    return error


# how an error is taken apart and made ----------------------------------------------------------------------------


def _reduction(error: BaseException, made_of: tuple[Any, ...], state: State) -> Reduced:
    return _make, (type(error), _base(type(error)), *made_of), state, None, None, _fill


def _base(kind: type[BaseException]) -> type[BaseException]:
    """The built-in class by which instances of ``kind`` are laid out."""
    while kind.__flags__ & _HEAP_TYPE:
        kind = cast("type[BaseException]", kind.__base__)
    return kind


def _made_of(error: BaseException) -> tuple[Any, ...]:
    """What its built-in class makes it of."""
    if isinstance(error, BaseExceptionGroup):
        return error.message, list(error.exceptions)
    # OSError has more than args: the name of the file
    arguments: tuple[Any, ...] = _base(type(error)).__reduce__(error)[1]  # type: ignore[assignment]  # never a text
    return arguments


def _attributes(error: BaseException) -> dict[str, Any]:
    """All that was set on it, and what its built-in class keeps beside ``args``."""
    state = object.__getstate__(error)
    given, slots = state if isinstance(state, tuple) else (state, None)
    return dict(_members(error)) | (slots or {}) | (given or {})


def _members(error: BaseException) -> Iterator[tuple[str, Any]]:
    for owner in _base(type(error)).__mro__:
        for name, member in vars(owner).items():
            # what an AttributeError was looked up on is the program's, and may be anything
            if isinstance(member, MemberDescriptorType) and not name.startswith("__") and name != "obj":
                value = getattr(error, name, None)
                if value is not None:
                    yield name, value


def _make(kind: type[BaseException], base: type[BaseException], *made_of: Any) -> BaseException:
    kind = _as_known_here(kind)
    try:
        error: BaseException = base.__new__(kind, *made_of)
        base.__init__(error, *made_of)
    except Exception:  # noqa: BLE001 - its args are not those that its built-in class wants
        error = base.__new__(kind)
    return error


def _as_known_here(kind: type[BaseException]) -> type[BaseException]:
    """The class of this place's main program in the stead of its copy, so that ``except`` finds it."""
    if kind.__module__ != "__main__":
        return kind
    ours: object = vars(sys.modules["__main__"]).get(kind.__qualname__)
    if not isinstance(ours, type) or not issubclass(ours, BaseException) or ours.__module__ != "__main__":
        return kind
    return ours if ours.__qualname__ == kind.__qualname__ and _base(ours) is _base(kind) else kind


def _fill(error: BaseException, state: State) -> None:
    args, attributes, (error.__cause__, error.__context__, error.__suppress_context__) = state
    with contextlib.suppress(TypeError):
        BaseException.__dict__["args"].__set__(error, args)
    for name, value in attributes.items():
        # past a class's own __setattr__, which may refuse or count; what is read only was made with the object
        with contextlib.suppress(AttributeError, TypeError):
            object.__setattr__(error, name, value)


# what cannot travel as it is -----------------------------------------------------------------------------------------


def _travels(value: object) -> bool:
    from apgas.runtime import by_value

    try:
        pickle.loads(by_value.dumps(value))
    except Exception:  # noqa: BLE001 - whatever the reason is
        return False
    return True


def _sendable(error: BaseException, deep: int) -> object:
    """What pickles as ``error``, or as what can be kept of it."""
    if _travels(error):
        return error
    if deep > _DEEPEST:
        return RemoteError(summary(error))
    left: list[str] = []

    def argument(value: Any) -> Any:
        if isinstance(value, BaseException):
            return _sendable(value, deep + 1)
        if _travels(value):
            return value
        left.append(f"an argument travels as its text ({_kind(value)})")
        return reprlib.repr(value)

    attributes: dict[str, Any] = {}
    for name, value in _attributes(error).items():
        if isinstance(value, BaseException):
            attributes[name] = _sendable(value, deep + 1)
        elif _travels(value):
            attributes[name] = value
        else:
            left.append(f"{name} is left out ({_kind(value)})")
    if isinstance(error, BaseExceptionGroup):
        made_of: tuple[Any, ...] = (error.message, [_sendable(each, deep + 1) for each in error.exceptions])
        args = made_of
    else:
        made_of, args = tuple(map(argument, _made_of(error))), tuple(map(argument, error.args))
    if left:
        note = "not all of it could travel: " + "; ".join(dict.fromkeys(left))
        attributes["__notes__"] = [*attributes.get("__notes__", ()), note]
    cause, context = (each and _sendable(each, deep + 1) for each in (error.__cause__, error.__context__))
    pieces = _Pieces(_reduction(error, made_of, (args, attributes, (cause, context, error.__suppress_context__))))  # type: ignore[arg-type]  # they pickle as errors
    return pieces if _travels(pieces) else RemoteError(summary(error))


def _kind(value: object) -> str:
    return f"a {type(value).__module__}.{type(value).__qualname__}"
