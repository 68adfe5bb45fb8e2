"""Serialization: functions, calls, values and errors as one pickle plus out-of-band buffers."""

from __future__ import annotations

import functools
import io
import operator
import pickle
import struct
import sys
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from itertools import repeat
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any, Final, TypeAlias

import msgspec

from apgas.core.messages import RefId
from apgas.errors import ProtocolError, UsageError
from apgas.transport.base import Buffer
from apgas.transport.wire import MOST_FRAME_BYTES

# Handles: the hold of a place on the object behind a reference -------------------------------------------------------


class Handle(msgspec.Struct, frozen=True, eq=False, weakref=True):
    """A place's hold on a reference; ``counts``: not that of a copy that a program has pickled by itself."""

    ref: RefId
    counts: bool


class Carrier:
    """Base of what travels with handles; no ABC, for whether something is one is asked of all that travels."""

    def handles(self) -> Iterable[Handle]:
        """The handles that are needed where it is unpickled."""
        raise NotImplementedError

    def travel(self) -> tuple[Any, ...]:
        """What ``__reduce__`` returns when the handles go with it."""
        raise NotImplementedError


class Carrying(list[Buffer]):
    """A payload, and the handles of the references in it, which it keeps."""

    def __init__(self, buffers: Iterable[Buffer], handles: tuple[Handle, ...]) -> None:
        super().__init__(buffers)
        self.handles = handles


def like(payload: list[Buffer], buffers: list[Buffer]) -> list[Buffer]:
    """Make ``buffers``, which were made of ``payload``, hold what that holds."""
    return Carrying(buffers, payload.handles) if isinstance(payload, Carrying) else buffers


# Values --------------------------------------------------------------------------------------------------------------
#
# A value is one pickle plus out-of-band buffers. What can be named (functions and classes of importable modules) goes
# the fast way of the standard library's pickle; anything that has to travel by value is left to cloudpickle.

BESIDE_BYTES: Final = 4096
"""Shorter buffers travel within the pickle: beside it, each costs more than it saves."""
MOST_BESIDE: Final = 1024
"""How many buffers of one value travel beside its pickle at most; the others travel in it."""
MOST_BYTES: Final = MOST_FRAME_BYTES - 2**20
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
    if is_plain(value):
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
        pickler = _ByName(file, 5, buffer_callback=keep_within)
        pickler.dump(value)
        handles = pickler.handles
    except Exception:  # noqa: BLE001 - whatever it is, cloudpickle does it or says why not
        beside.clear()
        file = io.BytesIO()
        handles = _dump_by_value(value, file, keep_within, of_call=of_call)
    body = file.getvalue()
    check_size(len(body) + sum(raw.nbytes for raw in beside))
    return Carrying([body, *beside], handles) if handles else [body, *beside]


def is_plain(value: object, deep: int = _SHALLOW) -> bool:
    """Whether any place could unpickle ``value``: there is nothing in it that has to be looked at. Small ones only."""
    kind = type(value)
    if kind is tuple:
        parts: tuple[object, ...] = value  # type: ignore[assignment]  # as its type says
        return deep > 0 and len(parts) <= _SHORT and all(map(is_plain, parts, repeat(deep - 1)))
    return kind in _PLAIN or (kind is dict and not value)


def check_size(size_bytes: int) -> None:
    """Refuse what is too large.

    Raises:
        UsageError: It cannot be sent at once.
    """
    if size_bytes > MOST_BYTES:
        raise UsageError(f"cannot send {size_bytes} bytes at once, at most {MOST_BYTES}: send it in parts")


def _dump_by_value(
    value: Any, file: io.BytesIO, keep_within: Callable[[pickle.PickleBuffer], bool], *, of_call: bool
) -> tuple[Handle, ...]:
    from apgas.runtime import by_value

    pickler = by_value.Pickler(file, 5, buffer_callback=keep_within)
    try:
        pickler.dump(value)
    except Exception as error:  # noqa: BLE001 - whatever it is, the error names what cannot travel
        from apgas.runtime import captures

        raise TypeError(captures.why_not(value, error, of_call=of_call)) from None
    handles: tuple[Handle, ...] = pickler.handles
    return handles


def loads(payload: Sequence[Buffer]) -> Any:
    """The value that ``dumps`` pickled."""
    return pickle.loads(payload[0], buffers=payload[1:])


class Pickled(Carrier):
    """Something that is pickled before what it travels with, and once; it arrives as what it was.

    Raises:
        TypeError: It cannot be pickled.
    """

    def __init__(self, value: object) -> None:
        self._payload = dumps(value)

    @property
    def size_bytes(self) -> int:
        """How much travels."""
        return sum(map(len, self._payload))

    def handles(self) -> Iterable[Handle]:
        """Those of the references in it."""
        return self._payload.handles if isinstance(self._payload, Carrying) else ()

    def travel(self) -> tuple[Any, ...]:
        """Arrives as the value."""
        return _unpickled, tuple(map(pickle.PickleBuffer, self._payload))

    def __reduce__(self) -> tuple[Any, ...]:
        return self.travel()


def _unpickled(*buffers: Buffer) -> Any:
    return loads(buffers)


def summary(error: BaseException) -> str:
    """Kind and text of ``error``, also where its own ``__str__`` fails."""
    try:
        return f"{type(error).__name__}: {error}"
    except BaseException:  # noqa: BLE001 - code of the program, which may raise anything
        return f"{type(error).__name__} (its text cannot be made)"


def dump_error(error: BaseException, place: int, node: str) -> bytes:
    """Pickle an error with the place and the traceback it comes from, as a note that it will have."""
    from apgas.runtime import exceptions

    return exceptions.dump(error, f"raised on place {place} ({node}):\n{exceptions.text(error)}")


def load_error(body: Buffer) -> BaseException:
    """The error that ``dump_error`` pickled; one that only says so if it cannot be read here."""
    from apgas.runtime import exceptions

    return exceptions.load(body)


def name_of(fn: object) -> str:
    """What people call a function."""
    return getattr(fn, "__qualname__", None) or type(fn).__name__


# Calls ---------------------------------------------------------------------------------------------------------------
#
# A call is a function, or the number of one that was sent before, and its arguments. Its first buffer begins with a
# byte for its kind and the number of the function:
#
#     FULL    -1      pickle of (function, arguments, keyword arguments)
#     KNOWN   number  pickle of (arguments, keyword arguments); the function was defined by an earlier call
#     DEFINES number  likewise; the second buffer defines the function
#
# Calls from one place to another arrive in order, so a definition arrives before whatever relies on it.

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
        self._sent = SentFunctions()
        self._received: dict[tuple[int, int], Callable[[], Callable[..., Any]]] = {}

    def pack(self, dst: int, call: Call) -> tuple[list[Buffer], Definition | None]:
        """Make the payload of a call to place ``dst``; when it is on its way, ``sent`` has to get the definition.

        Raises:
            TypeError: The function or an argument cannot be pickled.
            UsageError: Function and arguments are larger than what may be sent at once.
        """
        fn, args, kwargs = call
        try:
            definition = self._sent.definition(fn)
        except Exception:  # noqa: BLE001 - what cannot be pickled is reported below, with all of the call
            definition = None
        if definition is None:
            made = dumps(call, of_call=True)
            notice(fn, made, {dst})
            return like(made, [_FULL_HEAD + made[0], *made[1:]]), None
        try:
            made = dumps((args, kwargs))
        except TypeError:
            made = dumps(call, of_call=True)  # raises what says more
        if dst in definition.sent_to:
            return like(made, [_HEAD.pack(_KNOWN, definition.number) + made[0], *made[1:]]), None
        packed = [_HEAD.pack(_DEFINES, definition.number) + made[0], definition.body, *made[1:]]
        check_size(sum(map(len, packed)))
        return like(made, packed), definition

    def stable(self, fn: object) -> object:
        """See ``Driver.stable``."""
        if type(fn) is not FunctionType or "<locals>" in fn.__qualname__ or modules_by_value():
            return None
        return self._sent.definition(fn) if travels_by_value(fn) else fn

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
                return partial(loads, [rest, *payload[1:]])
            if kind == _KNOWN:
                return partial(_load, self._received[src, number], [rest, *payload[1:]])
            if kind == _DEFINES:
                function = self._received[src, number] = received_function(payload[1])
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


def _load(function: Callable[[], Callable[..., Any]], payload: Sequence[Buffer]) -> Call:
    args, kwargs = loads(payload)
    return function(), args, kwargs


# Functions that travel by value --------------------------------------------------------------------------------------
#
# A function that other places do not know by a name is sent to each of them once; afterwards only its number travels.
# It travels with the present values of the global variables that it uses, and what it assigns to them elsewhere is not
# kept. So it may be sent by number only while a new copy cannot be distinguished from the first one: it assigns to no
# global variable, and whatever it refers to (globals, closure, defaults) is constant, or is reached by name, or is
# itself such a function. That is checked anew at every call, by identity; one that fails travels in full.

MOST_DEFINITIONS: Final = 1024
"""How many definitions are kept; functions beyond them travel in full."""
MOST_VERSIONS: Final = 8
"""After this number of changes of its variables a function travels in full."""
_CONSTANT: Final = (int, float, complex, str, bytes, bool, type(None), range, type(...))
_WRITES: Final = {"STORE_GLOBAL", "DELETE_GLOBAL", "IMPORT_STAR"}
_USES: Final = {"LOAD_GLOBAL", "LOAD_NAME", "STORE_GLOBAL", "DELETE_GLOBAL"}


class Definition(msgspec.Struct, eq=False):
    """One version of a function: ``refers`` are the objects that it referred to when it was made."""

    number: int
    function: FunctionType
    refers: tuple[object, ...]
    body: bytes
    sent_to: set[int] = msgspec.field(default_factory=set)


class SentFunctions:
    """The functions that this place has sent by value; any thread."""

    def __init__(self) -> None:
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
        if known is not None and len(known.refers) == len(refers) and all(map(operator.is_, known.refers, refers)):
            return known
        return self._define(function, refers)

    def _define(self, function: FunctionType, refers: tuple[object, ...]) -> Definition | None:
        from apgas.runtime import by_value

        with self._lock:
            versions = self._versions.get(id(function), 0)
            if versions >= MOST_VERSIONS or self._count >= MOST_DEFINITIONS:
                return None
            made = Definition(self._count, function, refers, by_value.dumps(function))
            self._count += 1
            self._versions[id(function)] = versions + 1
            self._definitions[id(function)] = made  # keeps the function alive, and with it its id
            return made

    def forget(self, place: int) -> None:
        """Let go of what was noted about a place that has left."""
        for definition in list(self._definitions.values()):
            definition.sent_to.discard(place)


def received_function(body: Buffer) -> Callable[[], Callable[..., Any]]:
    """What returns the function that another place has sent by value; it is unpickled when that is first called."""
    return functools.cache(partial(pickle.loads, body))


def travels_by_value(function: FunctionType) -> bool:
    """Whether another place does not know it by its name."""
    return function.__module__ == "__main__" or "<locals>" in function.__qualname__


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
        names, assigns = global_names(current.__code__)
        if assigns or current.__dict__ or current.__kwdefaults__:
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
def global_names(code: CodeType) -> tuple[tuple[str, ...], bool]:
    """Return the global names that ``code`` and the code inside of it use, and whether it assigns to one."""
    import dis

    assigns, names = False, dict[str, None]()
    for instruction in dis.get_instructions(code):
        assigns |= instruction.opname in _WRITES
        if instruction.opname in _USES:
            names[instruction.argval] = None
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            inner, inner_assigns = global_names(constant)
            assigns |= inner_assigns
            names.update(dict.fromkeys(inner))
    return tuple(names), assigns
