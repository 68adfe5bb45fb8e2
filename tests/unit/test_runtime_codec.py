"""What travels, and what cannot: values of many parts, errors that are hard to send."""

from __future__ import annotations

import pickle
import threading
import traceback

import numpy as np
import pytest

from apgas import PlaceGoneError, UsageError
from apgas.core import messages as m
from apgas.runtime import serialization
from apgas.runtime.exceptions import RemoteError
from apgas.transport.base import UnknownPeerError
from apgas.transport.wire import MOST_BUFFERS, encode


class Awkward(Exception):
    """Can not be printed."""

    def __init__(self) -> None:
        super().__init__(threading.Lock())

    def __str__(self) -> str:
        raise RuntimeError("no text")


class OnlyHere:
    """Its unpickling ends the interpreter."""

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return (exec, ("raise SystemExit(3)",))


@pytest.mark.parametrize(
    "value", [((1, "two", 3.0, b"4", None, True, 6j), {}), (((((),),),), {}), tuple(range(100)), ((), {"a": 1})]
)
def test_plain_values_come_back_as_they_went(value: object) -> None:
    assert serialization.loads(serialization.dumps(value)) == value


def test_tuples_that_hold_one_another_twice_are_sent_as_quickly_as_they_are_small() -> None:
    value: object = ()
    for _ in range(100):
        value = (value, value)
    assert sum(map(len, serialization.dumps((value, {})))) < 1000


def test_what_only_looks_plain_travels_by_value_where_it_has_no_name() -> None:
    class Count(int):
        """A number of this function's own."""

    payload = serialization.dumps(((Count(3), lambda: 5), {}))
    (count, five), _ = serialization.loads(payload)
    assert (count, five()) == (3, 5)
    assert type(count).__name__ == "Count"


@pytest.mark.parametrize("length", [3, 1000])
def test_any_number_of_arrays_fits_in_a_frame(length: int) -> None:
    arrays = [np.full(length, float(number)) for number in range(MOST_BUFFERS + 100)]
    payload = serialization.dumps(arrays)
    assert encode(0, b"head", payload)
    back = serialization.loads(payload)
    assert all(np.array_equal(one, other) for one, other in zip(arrays, back, strict=True))


def test_what_is_pickled_already_arrives_as_what_it_was() -> None:
    array = np.arange(10_000)
    pickled = serialization.Pickled([array, "small"])
    array[:] = 0  # it travels beside the pickle, and is copied as it is sent
    payload = serialization.dumps((pickled, 1))
    assert sum(map(len, payload)) - pickled.size_bytes in range(500)
    assert len(payload) == 2
    (back, small), one = serialization.loads(payload)
    assert (back.tolist(), back.flags.writeable, small, one) == ([0] * 10_000, True, "small", 1)


def test_a_large_array_travels_beside_the_pickle_whatever_its_order() -> None:
    for array in (np.zeros((500, 300)), np.asfortranarray(np.ones((500, 300))), np.zeros(0), np.ones((50, 40))[::2]):
        payload = serialization.dumps(array)
        assert len(payload) == (2 if array.nbytes > 100_000 else 1)
        assert np.array_equal(serialization.loads(payload), array)


def test_a_value_that_no_frame_can_hold_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serialization, "MOST_BYTES", 1000)
    with pytest.raises(UsageError, match="send it in parts"):
        serialization.dumps(bytes(1001))


def test_an_error_without_a_text_travels() -> None:
    error = serialization.load_error(serialization.dump_error(Awkward(), 3, "node"))
    assert isinstance(error, Awkward)
    assert "raised on place 3 (node)" in error.__notes__[-1]


def test_an_error_without_a_text_whose_class_cannot_travel_is_replaced() -> None:
    lock = threading.Lock()

    class Local(Awkward):
        held = lock

    error = serialization.load_error(serialization.dump_error(Local(), 3, "node"))
    assert isinstance(error, RemoteError)
    assert "Local" in str(error)
    assert "raised on place 3 (node)" in error.__notes__[0]


def test_what_a_group_consists_of_is_shown_once() -> None:
    def shown(errors: list[Exception]) -> str:
        travelled = serialization.load_error(serialization.dump_error(ExceptionGroup("some", errors), 0, "node"))
        return "".join(traceback.format_exception(travelled))

    def raised(error: Exception) -> Exception:
        try:
            raise error
        except type(error) as caught:
            return caught

    told = serialization.load_error(serialization.dump_error(raised(ValueError("told")), 3, "node"))
    assert isinstance(told, ValueError)
    said = shown([told, KeyError("made, not raised")])
    assert said.count("raised on place 3 (node)") == said.count("raise error") == 1
    assert said.count("made, not raised") == 1
    assert said.count("raised on place 0 (node)") == 1
    said = shown([told, raised(KeyError("here"))])  # its traceback does not travel with it
    assert said.count("raise error") == 3


def test_an_error_that_cannot_be_read_is_replaced() -> None:
    error = serialization.load_error(pickle.dumps(OnlyHere()))
    assert isinstance(error, RemoteError)
    assert "SystemExit" in str(error)


def test_errors_keep_text_and_notes_on_their_way() -> None:
    for error in (PlaceGoneError(3, 2, "is leaving"), UnknownPeerError(3)):
        error.add_note("seen")
        once = pickle.loads(pickle.dumps(error))
        twice = pickle.loads(pickle.dumps(once))
        assert (str(twice), twice.place, twice.__notes__) == (str(error), 3, ["seen"])


def test_any_number_of_errors_fits_in_a_report() -> None:
    errors = [bytes([number % 256]) for number in range(MOST_BUFFERS + 1)]
    payload = m.pack_errors(errors)
    assert encode(0, b"head", payload)
    assert m.unpack_errors(payload) == errors
    assert m.unpack_errors(m.pack_errors([])) == []
