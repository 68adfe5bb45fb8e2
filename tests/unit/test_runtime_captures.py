"""Errors name what cannot travel; what is large and travels again and again is named once."""

from __future__ import annotations

import functools
import threading
import warnings
from collections.abc import Callable, Iterator
from types import FunctionType, SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from apgas.runtime import captures, serialization
from apgas.runtime.serialization import Calls

LOCK = threading.Lock()


class Holder:
    def __init__(self) -> None:
        self.names = ["a"]
        self.lock = threading.Lock()

    def method(self) -> None: ...


class Slotted:
    __slots__ = ("lock",)


def refused(fn: Callable[..., Any], *args: object, **kwargs: object) -> str:
    with pytest.raises(TypeError) as caught:
        Calls().pack(1, (fn, args, kwargs))
    return str(caught.value)


def test_the_captured_variable_is_named() -> None:
    lock = threading.Lock()
    text = refused(lambda: lock)
    assert text.startswith(
        "cannot send a call of test_the_captured_variable_is_named.<locals>.<lambda>: lock (captured by "
    )
    assert "is a _thread.lock, which cannot be pickled (cannot pickle '_thread.lock' object)" in text
    assert "apgas.PlaceLocal" in text
    assert "apgas.GlobalRef" in text


def test_functions_of_the_library_itself_are_not_named() -> None:
    lock = threading.Lock()
    text = refused(captures.why_not, lambda: lock)
    assert text.startswith("cannot send a call: lock (captured by test_functions_of_the_library_itself_are_not_named.")


def test_the_attribute_of_a_captured_object_is_named() -> None:
    held = {"x": [Holder()]}
    assert "held['x'][0].lock (captured by" in refused(lambda: held)
    slotted = Slotted()
    slotted.lock = LOCK  # type: ignore[attr-defined]  # slots carry no types
    assert "slotted.lock (captured by" in refused(lambda: slotted)


def test_an_attribute_is_not_taken_for_a_global_variable_of_its_name() -> None:
    held = SimpleNamespace(LOCK=1)
    function = cast("FunctionType", lambda: held.LOCK)
    assert [part.path for part in captures._captured(function)] == ["held"]


def test_a_global_variable_is_named() -> None:
    assert "LOCK (a global variable that test_a_global" in refused(lambda: LOCK)


def test_what_an_inner_function_captures_is_named() -> None:
    lock = threading.Lock()

    def inner() -> object:
        return lock

    assert f"lock (captured by {inner.__qualname__})" in refused(lambda: [inner()])


def test_defaults_are_named() -> None:
    def positional(first: int, lock: object = LOCK) -> None: ...
    def keyword(*, lock: object = LOCK) -> None: ...

    assert "lock (a default of test_defaults_are_named.<locals>.positional)" in refused(positional, 1)
    assert "lock (a default of test_defaults_are_named.<locals>.keyword)" in refused(keyword)


def test_the_attribute_of_a_methods_object_is_named() -> None:
    assert "self.lock (of Holder.method) is a _thread.lock" in refused(Holder().method)


def test_arguments_are_named() -> None:
    assert "args[1]['x'] is a _thread.lock" in refused(print, 1, {"x": LOCK})
    assert "kwargs['file'].lock is a _thread.lock" in refused(print, file=Holder())
    assert "args[0] is a generator" in refused(lambda each: None, (n for n in range(3)))
    assert "an element of args[0]" in refused(print, {LOCK})
    assert "partial.args[0] is a _thread.lock" in refused(functools.partial(print, LOCK))


def test_a_value_is_named() -> None:
    with pytest.raises(TypeError, match=r"cannot send \{.*: value\['x'\]\[1\] is a _thread.lock"):
        serialization.dumps({"x": (1, LOCK)})


def test_an_object_that_holds_itself_is_looked_at_once() -> None:
    holder: Any = Holder()
    holder.names.append(holder)
    assert "self.lock" in refused(holder.method)


def test_what_refuses_by_itself_says_so() -> None:
    class Refuses:
        def __reduce__(self) -> Any:
            raise ValueError("I stay")

    assert "args[0] is a " in refused(print, Refuses())
    assert "(I stay)" in refused(print, Refuses())


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    captures._sent.clear()
    captures._warned.clear()
    yield
    captures._sent.clear()
    captures._warned.clear()


def warned(calls: Calls, dst: int, fn: Callable[..., Any], *args: object) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        calls.pack(dst, (fn, args, {}))
    assert all(warning.filename == __file__ for warning in caught), "it names the line of the program"
    return [str(warning.message) for warning in caught]


def test_a_large_array_that_is_captured_again_and_again_is_named_once() -> None:
    calls, table = Calls(), np.zeros(2**18)

    def send(dst: int) -> list[str]:
        return warned(calls, dst, lambda: table[0])

    assert send(1) == []
    assert send(2) == [], "each place needs it once"
    (said,) = send(1)
    assert "takes table (captured by " in said
    assert "2 MiB" in said
    assert "copies = apgas.broadcast(table)" in said
    assert send(1) == []


def test_an_array_within_something_is_named() -> None:
    calls = Calls()
    tables = {"x": np.zeros(2**18)}
    said = [text for _ in range(3) for text in warned(calls, 1, lambda: tables)]
    assert len(said) == 1
    assert "tables['x']" in said[0]


def test_another_array_each_time_is_no_waste() -> None:
    calls = Calls()
    for _ in range(3):
        part = np.zeros(2**18)
        assert warned(calls, 1, lambda part=part: part) == []
        assert warned(calls, 1, np.sum, part) == [], "arguments are meant to be sent"
        assert warned(calls, 1, np.sum, part) == []


def test_a_small_array_is_none_of_our_business() -> None:
    calls, small = Calls(), np.zeros(2**16)
    for _ in range(3):
        assert warned(calls, 1, lambda: small) == []


def test_what_travels_is_not_looked_into(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(captures, "notice", lambda *_: pytest.fail("looked into"))
    calls, number = Calls(), 3
    for _ in range(3):
        calls.pack(1, (lambda: number, (1, "a"), {}))
        calls.pack(1, (np.sum, (np.zeros(10),), {}))


def test_what_is_large_without_arrays_is_looked_at_within_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lists within lists took forty times as long to look at as to pickle, at each call."""
    looked: list[object] = []
    bytes_of = captures._bytes_of

    def look(value: object) -> int:
        looked.append(value)
        return bytes_of(value)

    monkeypatch.setattr(captures, "_bytes_of", look)
    calls, lists, table = Calls(), [[[0] * 100 for _ in range(100)] for _ in range(100)], np.zeros(2**18)
    assert warned(calls, 1, lambda: lists) == []
    assert 0 < len(looked) <= captures._MOST_PARTS
    said = [text for _ in range(3) for text in warned(calls, 1, lambda: (lists, table))]
    assert len(said) == 1, "what stands beside is found all the same"
