"""A function that travels by value is sent to each place once; afterwards only its number travels.

A function of the main program travels with the present values of the global variables that it uses, and what it assigns
to them elsewhere is not kept. So it may be sent by number only while a new copy could not be told from the first one:
it assigns to no global variable, and whatever it refers to (globals, closure, defaults) is constant, or is reached by
name, or is itself such a function. That is checked anew at every call, by identity; one that fails travels in full.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any, Final

from apgas.runtime.codec import modules_by_value
from apgas.transport.base import Buffer

MOST_DEFINITIONS: Final = 1024
"""So many definitions are kept; functions beyond them travel in full."""
MOST_VERSIONS: Final = 8
"""A function whose variables have changed so often travels in full from then on."""
_CONSTANT: Final = (int, float, complex, str, bytes, bool, type(None), range, type(...))
_WRITES: Final = {"STORE_GLOBAL", "DELETE_GLOBAL", "IMPORT_STAR"}


class Definition:
    """One version of a function: ``refers`` are the objects that it referred to when it was made."""

    __slots__ = ("body", "function", "number", "refers", "sent_to")

    def __init__(self, number: int, function: FunctionType, refers: tuple[object, ...], body: bytes) -> None:
        self.number = number
        self.function = function
        self.refers = refers
        self.body = body
        self.sent_to: set[int] = set()


class SentFunctions:
    """The functions that this place has sent by value; any thread.

    Args:
        dump: Pickles a function by value.
    """

    def __init__(self, dump: Callable[[object], bytes]) -> None:
        self._dump = dump
        self._lock = threading.Lock()
        self._definitions: dict[int, Definition] = {}
        self._versions: dict[int, int] = {}
        self._count = 0

    def definition(self, function: object) -> Definition | None:
        """Return the definition by which ``function`` may travel; None: it has to travel in full, or by its name."""
        if type(function) is not FunctionType or not travels_by_value(function) or modules_by_value():
            return None
        known = self._definitions.get(id(function))
        refers = _refers(function)
        if refers is None:
            return None
        if known is not None and len(known.refers) == len(refers):
            for before, now in zip(known.refers, refers, strict=True):
                if before is not now:
                    break
            else:
                return known
        return self._define(function, refers)

    def _define(self, function: FunctionType, refers: tuple[object, ...]) -> Definition | None:
        with self._lock:
            versions = self._versions.get(id(function), 0)
            if versions >= MOST_VERSIONS or self._count >= MOST_DEFINITIONS:
                return None
            made = Definition(self._count, function, refers, self._dump(function))
            self._count += 1
            self._versions[id(function)] = versions + 1
            self._definitions[id(function)] = made  # keeps the function alive, and with it its id
            return made

    def forget(self, place: int) -> None:
        """Let go of what was noted about a place that has left."""
        for definition in list(self._definitions.values()):
            definition.sent_to.discard(place)


class ReceivedFunction:
    """A function that another place has sent by value; unpickled when it is first called."""

    __slots__ = ("_body", "_function", "_load")

    def __init__(self, body: Buffer, load: Callable[[Buffer], Any]) -> None:
        self._body = body
        self._load = load
        self._function: Callable[..., Any] | None = None

    def get(self) -> Callable[..., Any]:
        """Return the function.

        Raises:
            BaseException: What unpickling it raised.
        """
        if self._function is None:
            self._function = self._load(self._body)
        return self._function


def travels_by_value(function: FunctionType) -> bool:
    """Whether another place does not know it by its name."""
    return function.__module__ == "__main__" or "<locals>" in function.__qualname__


def global_names(code: CodeType) -> tuple[str, ...]:
    """The names of global variables that ``code`` and the code inside of it may use."""
    inner = [name for constant in code.co_consts if isinstance(constant, CodeType) for name in global_names(constant)]
    return tuple(dict.fromkeys((*code.co_names, *inner)))


def _refers(function: FunctionType) -> tuple[object, ...] | None:
    """Return all that a copy of ``function`` would be made of, transitively; None if a copy could differ."""
    found: list[object] = []
    seen: set[int] = set()
    waiting = [function]
    while waiting:
        current = waiting.pop()
        if id(current) in seen:
            continue
        seen.add(id(current))
        names = _global_names(current.__code__)
        if names is None or current.__dict__ or current.__kwdefaults__:
            return None
        found.append(current.__code__)
        for value in _values(current, names):
            found.append(value)
            if type(value) is FunctionType:
                if travels_by_value(value):
                    waiting.append(value)
            elif not _is_fixed(value):
                return None
    return tuple(found)


_UNSET: Final = object()


def _values(function: FunctionType, names: tuple[str, ...]) -> Iterator[object]:
    variables = function.__globals__
    for name in names:
        value = variables.get(name, _UNSET)
        if value is not _UNSET:
            yield value
    yield from function.__defaults__ or ()
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # not assigned yet, so it will be
            yield []


def _is_fixed(value: object) -> bool:
    """Whether ``value`` cannot change, or is reached by its name."""
    kind = type(value)
    if kind in _CONSTANT or kind is ModuleType or kind is BuiltinFunctionType:
        return True
    if kind is tuple or kind is frozenset:
        return all(map(_is_fixed, value))  # type: ignore[call-overload]  # value is a tuple or a frozenset here
    return isinstance(value, type) and value.__module__ != "__main__" and "<locals>" not in value.__qualname__


@functools.lru_cache(maxsize=4096)
def _global_names(code: CodeType) -> tuple[str, ...] | None:
    """Return the global names that ``code`` and the code inside of it use; None if it assigns to one."""
    import dis

    names: dict[str, None] = {}
    for instruction in dis.get_instructions(code):
        if instruction.opname in _WRITES:
            return None
        if instruction.opname in {"LOAD_GLOBAL", "LOAD_NAME"}:
            names[instruction.argval] = None
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            inner = _global_names(constant)
            if inner is None:
                return None
            names.update(dict.fromkeys(inner))
    return tuple(names)
