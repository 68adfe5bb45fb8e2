"""Errors as they travel, of their own type, and what people see of their tracebacks.

Pickle makes an error anew by calling its class with ``args``, which fails, or does something else, where a constructor
takes other arguments than it hands to ``Exception``. Here the object is made by the built-in class that it is an
instance of, and then gets its ``args``, its attributes, its notes, its cause and its context. A class that says itself
how it is pickled is left to do so. What cannot travel stays behind alone, as far as possible: an attribute is left out,
an argument becomes its text, and a note says so.
"""

from __future__ import annotations

import contextlib
import copyreg
import os
import pickle
import reprlib
import sys
import traceback
from collections.abc import Iterator
from concurrent.futures import _base
from types import MemberDescriptorType, TracebackType
from typing import Any, Final, TypeAlias, cast

from apgas.errors import ApgasError
from apgas.runtime.serialization import summary

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
    with contextlib.suppress(Exception):  # a class may refuse notes
        error.add_note(note)
    return error


# how an error is taken apart and made ----------------------------------------------------------------------------


def _reduction(error: BaseException, made_of: tuple[Any, ...], state: State) -> Reduced:
    return _make, (type(error), _builtin_base(type(error)), *made_of), state, None, None, _fill


def _builtin_base(kind: type[BaseException]) -> type[BaseException]:
    """The built-in class by which instances of ``kind`` are laid out."""
    while kind.__flags__ & _HEAP_TYPE:
        kind = cast("type[BaseException]", kind.__base__)
    return kind


def _made_of(error: BaseException) -> tuple[Any, ...]:
    """What its built-in class makes it of."""
    if isinstance(error, BaseExceptionGroup):
        return error.message, list(error.exceptions)
    # OSError has more than args: the name of the file
    arguments: tuple[Any, ...] = _builtin_base(type(error)).__reduce__(error)[1]  # type: ignore[assignment]  # never a text
    return arguments


def _attributes(error: BaseException) -> dict[str, Any]:
    """All that was set on it, and what its built-in class keeps beside ``args``."""
    state = object.__getstate__(error)
    given, slots = state if isinstance(state, tuple) else (state, None)
    return dict(_members(error)) | (slots or {}) | (given or {})


def _members(error: BaseException) -> Iterator[tuple[str, Any]]:
    for owner in _builtin_base(type(error)).__mro__:
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
    return ours if ours.__qualname__ == kind.__qualname__ and _builtin_base(ours) is _builtin_base(kind) else kind


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


# Tracebacks without the frames of the runtime; ``APGAS_TRACEBACK=full`` shows them -----------------------------------
#
# The frames are taken out of the errors themselves, so whatever prints these, a notebook for example, prints them
# short.

ENV_TRACEBACK: Final = "APGAS_TRACEBACK"

_HERE: Final = os.path.dirname(os.path.dirname(__file__))
_OURS: Final = tuple(os.path.join(folder, "") for folder in (_HERE, os.path.join(os.path.dirname(_HERE), "glb")))
_BENCHMARKS: Final = os.path.join(_HERE, "benchmarks", "")
_HELPERS: Final = (str(contextlib.__file__), str(_base.__file__))
"""Of the standard library and others, hidden where we call them or they call us."""


def folded(error: BaseException) -> BaseException:
    """Take our frames out of an error, and out of those that it comes of or consists of; returns it.

    An error without any frame of the program keeps all of its own.
    """
    if full():
        return error
    for current in _all_in(error):
        visible = _visible(current.__traceback__)
        if visible is not None or current is not error:
            current.__traceback__ = visible
    return error


def _all_in(error: BaseException) -> Iterator[BaseException]:
    """An error, and those that it comes of or consists of."""
    waiting: list[BaseException | None] = [error]
    seen: set[int] = set()
    while waiting:
        current = waiting.pop()
        if current is None or id(current) in seen:
            continue
        seen.add(id(current))
        yield current
        waiting += (current.__cause__, current.__context__)
        if isinstance(current, BaseExceptionGroup):
            waiting += current.exceptions


def full() -> bool:
    """Whether all frames are to be shown."""
    return os.environ.get(ENV_TRACEBACK) == "full"


def text(error: BaseException) -> str:
    """An error with its traceback, without our frames, as it stands in a note."""
    shown = traceback.TracebackException.from_exception(folded(error), compact=True)
    if (
        isinstance(error, BaseExceptionGroup)
        # its members have no tracebacks that only its note could show: they have notes of their own
        and all(each.__traceback__ is None for member in error.exceptions for each in _all_in(member))
        and _travels(error)
    ):
        shown.exceptions = None
    return "".join(shown.format()).rstrip()


def level_of_program() -> int:
    """The ``stacklevel`` by which a warning of our caller names the innermost line of the program."""
    level, frame = 1, sys._getframe(1)  # noqa: SLF001 - as warnings does
    while frame.f_back is not None and (is_ours(name := frame.f_code.co_filename) or name.startswith(_HELPERS)):
        level, frame = level + 1, frame.f_back
    return level


def is_ours(filename: str) -> bool:
    """Whether a file belongs to the runtime or the balancer; benchmarks are programs."""
    return filename.startswith(_OURS) and not filename.startswith(_BENCHMARKS)


def _visible(first: TracebackType | None) -> TracebackType | None:
    links: list[TracebackType] = []
    while first is not None:
        links.append(first)
        first = first.tb_next
    files = [link.tb_frame.f_code.co_filename for link in links]
    hidden = [is_ours(file) for file in files]
    for order in (range(1, len(files)), range(len(files) - 2, -1, -1)):
        step = -1 if order.step > 0 else 1
        for at in order:
            hidden[at] = hidden[at] or (hidden[at + step] and files[at].startswith(_HELPERS))
    visible: TracebackType | None = None
    for link, out in zip(reversed(links), reversed(hidden), strict=True):
        if not out:
            visible = TracebackType(visible, link.tb_frame, link.tb_lasti, link.tb_lineno)
    return visible
