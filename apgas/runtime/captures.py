"""Looks into calls: for the part that cannot travel, and for large parts that travel again and again.

Looked at when something failed, or when a large call is sent, then within limits; other calls cost nothing here.
"""

from __future__ import annotations

import functools
import io
import reprlib
import threading
import warnings
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from types import CodeType, FunctionType, MethodType
from typing import Any, Final, NamedTuple

from apgas.runtime import exceptions
from apgas.runtime.serialization import global_names, name_of, travels_by_value

LARGE_BYTES: Final = 2**20
"""From this size on a warning says that a function takes something along again and again."""
_DEEPEST: Final = 20
_MOST_PARTS: Final = 1000
"""Of one thing that are looked at."""
_WITHOUT_PARTS: Final = (int, float, complex, str, bytes, type, type(None))
"""What holds no array."""
_MOST_FUNCTIONS: Final = 256
"""Functions whose large captures are remembered."""


class Part(NamedTuple):
    """Something that travels.

    Attributes:
        path: How the program would write it.
        role: How it comes to travel, in words that follow the path; may be empty.
        value: It itself.
    """

    path: str
    role: str
    value: object


def why_not(value: Any, error: Exception, *, of_call: bool) -> str:
    """Say what of a value, or of a call, cannot be sent, and what to do."""
    if of_call:
        whole, args, kwargs = value
        internal = str(getattr(whole, "__module__", "")).startswith("apgas.")  # an operation on arrays, for example
        what = "cannot send a call" if internal else f"cannot send a call of {name_of(whole)}"
        parts = [Part(name_of(whole), "", whole)]
        parts += [Part(f"args[{number}]", "", each) for number, each in enumerate(args)]
        parts += [Part(f"kwargs[{name!r}]", "", each) for name, each in kwargs.items()]
    else:
        what, whole, parts = f"cannot send {reprlib.repr(value)}", value, [Part("value", "", value)]
    failing = next((part for part in parts if _error_of(part.value) is not None), None)
    part = failing and (_innermost(failing, set()) or failing)
    if part is None or part.value is whole:
        return f"{what}: {error}"
    kind = f"{type(part.value).__module__}.{type(part.value).__qualname__}".removeprefix("builtins.")
    return (
        f"{what}: {part.path}{part.role} is a {kind}, which cannot be pickled ({_error_of(part.value) or error}). "
        "Make it where it is used, by an apgas.PlaceLocal for example, or send an apgas.GlobalRef to it"
    )


def _error_of(value: object) -> Exception | None:
    """Why ``value`` cannot be pickled; None if it can."""
    from apgas.runtime import by_value

    try:
        by_value.Pickler(io.BytesIO(), 5, buffer_callback=lambda _: False).dump(value)
    except Exception as error:  # noqa: BLE001 - whatever it is
        return error
    return None


def _innermost(part: Part, around: set[int]) -> Part | None:
    """The innermost part of one that cannot be pickled; None if that is only for what is ``around`` it."""
    around.add(id(part.value))
    failing = [each for each in _parts(part) if _error_of(each.value) is not None]
    if not failing or len(around) > _DEEPEST:
        return part
    inner = (_innermost(each, around) for each in failing if id(each.value) not in around)
    return next((found for found in inner if found is not None), None)


def _parts(part: Part) -> Iterator[Part]:
    """What ``part`` is made of when it is pickled."""
    path, role, value = part
    match value:
        case FunctionType():
            if travels_by_value(value):
                yield from _captured(value)
        case MethodType():
            yield Part("self", f" (of {name_of(value)})", value.__self__)
            yield Part(path, role, value.__func__)
        case functools.partial():
            yield Part(f"{path}.func", role, value.func)
            yield from (Part(f"{path}.args[{at}]", role, each) for at, each in enumerate(value.args))
            yield from (Part(f"{path}.keywords[{name!r}]", role, each) for name, each in value.keywords.items())
        case dict():
            yield from (Part(f"{path}[{reprlib.repr(key)}]", role, each) for key, each in _some(value.items()))
            yield from (Part(f"a key of {path}", role, key) for key in _some(value))
        case list() | tuple():
            yield from (Part(f"{path}[{at}]", role, each) for at, each in _some(enumerate(value)))
        case set() | frozenset():
            yield from (Part(f"an element of {path}", role, each) for each in _some(value))
        case type():
            if value.__module__ == "__main__" or "<locals>" in value.__qualname__:
                yield from (Part(f"{name_of(value)}.{name}", "", each) for name, each in _some(vars(value).items()))
        case staticmethod() | classmethod():
            yield Part(path, role, value.__func__)
        case _:
            yield from (Part(f"{path}.{name}", role, each) for name, each in _some(_state(value).items()))
            yield Part(f"type({path})", role, type(value))


def _some(all_: Any) -> Iterator[Any]:
    return islice(all_, _MOST_PARTS)


def _state(value: object) -> Mapping[str, object]:
    """The attributes that an object is pickled with; none if it says itself why it cannot be."""
    try:
        value.__reduce_ex__(5)
    except Exception:  # noqa: BLE001 - whatever it is
        return {}
    slots = {
        name: getattr(value, name) for kind in type(value).__mro__ for name in _slots(kind) if hasattr(value, name)
    }
    return {**slots, **getattr(value, "__dict__", {})}


def _slots(kind: type) -> tuple[str, ...]:
    slots = vars(kind).get("__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)


def _captured(function: FunctionType) -> Iterator[Part]:
    """The variables that a function takes along which travels by value."""
    name = name_of(function)
    for variable, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield Part(variable, f" (captured by {name})", cell.cell_contents)
        except ValueError:  # not assigned yet
            continue
    for variable in global_names(function.__code__)[0]:
        if variable in function.__globals__:
            yield Part(variable, f" (a global variable that {name} uses)", function.__globals__[variable])
    count = function.__code__.co_argcount
    defaults = function.__defaults__ or ()
    names = function.__code__.co_varnames[count - len(defaults) : count]
    for variable, default in (*zip(names, defaults, strict=True), *(function.__kwdefaults__ or {}).items()):
        yield Part(variable, f" (a default of {name})", default)
    yield from (Part(f"{name}.{key}", "", each) for key, each in function.__dict__.items())


# what is large -------------------------------------------------------------------------------------------------------

_lock = threading.Lock()
_sent: dict[CodeType, dict[str, tuple[weakref.ref[Any], set[int]]]] = {}
"""By function: its large captures, and the places that they were sent to."""
_warned: set[CodeType] = set()


def notice(fn: Callable[..., Any], places: set[int]) -> None:
    """Take note that a function has been sent that may hold much; warn once if it takes the same array along again."""
    code = _code(fn)
    if code is None or code in _warned:
        return
    for part in _large(Part(name_of(fn), "", fn)):
        try:
            reference = weakref.ref(part.value)
        except TypeError:  # it cannot be recognized next time
            continue
        with _lock:
            if len(_sent) >= _MOST_FUNCTIONS:
                _sent.clear()
            before, sent_to = _sent.setdefault(code, {}).setdefault(part.path, (reference, set()))
            if before() is not part.value:
                _sent[code][part.path] = reference, set(places)
                continue
            again = bool(sent_to & places)
            sent_to |= places
            if again:
                _warned.add(code)
        if again:
            warnings.warn(
                f"{name_of(fn)} takes {part.path}{part.role}, {_bytes_of(part.value) / 2**20:.0f} MiB, along each time "
                f"it is sent: send it once, copies = apgas.broadcast({part.path}), and use copies.get() in the "
                "function",
                stacklevel=exceptions.level_of_program(),
            )
            return


def _code(fn: object) -> CodeType | None:
    while isinstance(fn, functools.partial):
        fn = fn.func
    return getattr(fn, "__code__", None)


def _large(whole: Part) -> Iterator[Part]:
    """The large arrays in ``whole``, breadth first and as far as the limit goes: each large call is looked at."""
    waiting = deque([whole])
    for _ in range(_MOST_PARTS):
        if not waiting:
            return
        part = waiting.popleft()
        if _bytes_of(part.value) >= LARGE_BYTES:
            yield part
        elif not isinstance(part.value, _WITHOUT_PARTS):
            waiting.extend(islice(_parts(part), _MOST_PARTS - len(waiting)))


def _bytes_of(value: object) -> int:
    try:
        size = getattr(value, "nbytes", 0)
    except Exception:  # noqa: BLE001 - code of the program
        return 0
    return size if isinstance(size, int) else 0
