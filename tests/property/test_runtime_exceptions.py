"""Errors keep their type and what they hold on their way, whatever their class looks like."""

from __future__ import annotations

import reprlib
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from support import PATIENCE_S

from apgas.errors import DeadPlaceError, PlaceGoneError
from apgas.runtime import serialization
from apgas.runtime.exceptions import RemoteError


class TwoArguments(Exception):
    def __init__(self, code: int, name: str) -> None:
        super().__init__(f"{name} failed with {code}")
        self.code, self.name = code, name


class KeywordsOnly(ValueError):
    def __init__(self, *, limit: float) -> None:
        super().__init__("too much")
        self.limit = limit


class Silent(Exception):
    """Hands nothing to Exception."""

    def __init__(self, first: object, second: object) -> None:
        self.both = (first, second)


class WithNew(Exception):
    def __new__(cls, left: int, right: int) -> WithNew:
        made = super().__new__(cls, left + right)
        made.right = right
        return made

    def __init__(self, left: int, right: int) -> None:
        self.left = left

    right: int


class Slotted(Exception):
    __slots__ = ("place",)

    def __init__(self, place: int, *, why: str) -> None:
        super().__init__(why)
        self.place = place


class Frozen(Exception):
    def __init__(self, value: int, _unused: int) -> None:
        object.__setattr__(self, "value", value)

    def __setattr__(self, name: str, value: object) -> None:
        if not name.startswith("__"):
            raise AttributeError("frozen")
        object.__setattr__(self, name, value)


class NoFile(FileNotFoundError):
    def __init__(self, path: str, user: str) -> None:
        super().__init__(2, "No such file", path)
        self.user = user


class Missing(KeyError):
    def __init__(self, table: str, key: object) -> None:
        super().__init__(key)
        self.table = table


class Undecodable(UnicodeDecodeError):
    def __init__(self, data: bytes) -> None:
        super().__init__("utf-8", data, 0, len(data), "no text")


class Several(ExceptionGroup[Exception]):
    def __new__(cls, errors: list[Exception], code: int) -> Several:
        made = super().__new__(cls, f"{len(errors)} errors", errors)
        made.code = code
        return made

    def __init__(self, errors: list[Exception], code: int) -> None:
        pass

    code: int


class Both(PlaceGoneError, TimeoutError):
    def __init__(self, place: int, seconds: float) -> None:
        super().__init__(place, 0, f"took {seconds} s")
        self.seconds = seconds

    def __reduce__(self) -> Any:  # it says itself how
        return (type(self), (self.place, self.seconds), self.__dict__)


class WrongWay(Exception):
    """Says itself how it is pickled, and is wrong."""

    def __init__(self, code: int, name: str) -> None:
        super().__init__(name)
        self.code = code

    def __reduce__(self) -> Any:
        return (type(self), self.args)


class Locked(Exception):
    def __init__(self, code: int, lock: object) -> None:
        super().__init__("locked", code)
        self.code, self.lock = code, lock


class OnlyThere(Exception):
    lock = threading.Lock()


numbers, words = st.integers(-9, 9), st.text("abä ", max_size=5)
plain = st.one_of(
    st.builds(TwoArguments, numbers, words),
    st.builds(KeywordsOnly, limit=st.floats(allow_nan=False)),
    st.builds(Silent, numbers, words),
    st.builds(WithNew, numbers, numbers),
    st.builds(Slotted, numbers, why=words),
    st.builds(Frozen, numbers, numbers),
    st.builds(NoFile, words, words),
    st.builds(Missing, words, st.tuples(numbers)),
    st.builds(Undecodable, st.binary(min_size=1, max_size=4)),
    st.builds(Both, numbers, st.floats(0, 9)),
    st.builds(DeadPlaceError, numbers, numbers, words, numbers),
    st.builds(lambda name: ImportError("no", name=name, path=f"/{name}"), words),
    st.builds(lambda name: AttributeError("no", name=name, obj=threading.Lock()), words),
    st.builds(StopIteration, numbers),
    st.builds(lambda line: SyntaxError("bad", ("file", line, 1, "text")), numbers),
    st.builds(OSError, numbers, words, words),
    st.builds(KeyError, words),
    st.builds(type("Local", (Exception,), {}), numbers),
)
errors = st.recursive(
    plain,
    lambda inner: st.one_of(
        st.builds(ExceptionGroup, words, st.lists(inner, min_size=1, max_size=3)),
        st.builds(Several, st.lists(inner, min_size=1, max_size=3), numbers),
    ),
    max_leaves=6,
)
LEFT_OUT = ("__notes__", "__orig_class__")


def returned(error: BaseException) -> BaseException:
    return serialization.load_error(serialization.dump_error(error, 1, "node"))


def assert_same(one: BaseException, other: BaseException) -> None:
    assert type(other) is type(one)
    assert str(other) == str(one)
    if isinstance(one, BaseExceptionGroup) and isinstance(other, BaseExceptionGroup):
        assert len(one.exceptions) == len(other.exceptions)
        for inner, outer in zip(one.exceptions, other.exceptions, strict=True):
            assert_same(inner, outer)
    else:
        assert repr(other.args) == repr(one.args)
        for name in ("errno", "filename", "name", "path", "value", "lineno", "start", "object", "place"):
            assert getattr(other, name, None) == getattr(one, name, None), name
    held = {name: value for name, value in vars(one).items() if name not in LEFT_OUT}
    assert held == {name: value for name, value in vars(other).items() if name not in LEFT_OUT}


@given(error=errors, cause=st.none() | errors, context=st.none() | plain, notes=st.lists(words, max_size=2))
def test_errors_keep_all(
    error: BaseException, cause: BaseException | None, context: BaseException | None, notes: list[str]
) -> None:
    for note in notes:
        error.add_note(note)
    error.__context__, error.__cause__ = context, cause  # a cause hides the context
    back = returned(error)
    assert_same(error, back)
    assert back.__notes__[: len(notes)] == notes
    assert back.__notes__[-1].startswith("raised on place 1 (node):\n")
    assert len(getattr(error, "__notes__", ())) == len(notes), "the error itself is left as it was"
    if not isinstance(error, Both | DeadPlaceError):  # those say themselves how they are pickled
        assert back.__suppress_context__ is True
        for one, other in ((cause, back.__cause__), (context, back.__context__)):
            assert (one is None) is (other is None)
            if one is not None and other is not None:
                assert_same(one, other)


@given(error=plain)
def test_errors_are_values_too(error: BaseException) -> None:
    (back,) = serialization.loads(serialization.dumps([error]))
    assert_same(error, back)


def test_what_cannot_travel_stays_behind_alone() -> None:
    lock = threading.Lock()
    error = returned(Locked(7, lock))
    assert isinstance(error, Locked)
    assert (error.args, error.code, hasattr(error, "lock")) == (("locked", 7), 7, False)
    assert error.__notes__[0] == "not all of it could travel: lock is left out (a _thread.lock)"
    with_argument = returned(ValueError("seen", lock))
    assert with_argument.args == ("seen", reprlib.repr(lock))
    assert "an argument travels as its text (a _thread.lock)" in with_argument.__notes__[0]


def test_what_cannot_travel_is_replaced_alone() -> None:
    class Local(Exception):
        def hold(self) -> object:
            return OnlyThere, lock

    lock = threading.Lock()
    group = ExceptionGroup("all", [TwoArguments(1, "a"), Local("b"), ExceptionGroup("in", [Locked(3, lock), Local()])])
    group.__cause__ = Local("why")
    back = returned(group)
    assert isinstance(back, ExceptionGroup)
    assert_same(group.exceptions[0], back.exceptions[0])
    assert (type(back.exceptions[1]), str(back.exceptions[1])) == (RemoteError, "Local: b")
    inner = back.exceptions[2]
    assert isinstance(inner, ExceptionGroup)
    assert [type(each) for each in inner.exceptions] == [Locked, RemoteError]
    assert (type(back.__cause__), str(back.__cause__)) == (RemoteError, "Local: why")


def test_a_class_that_is_wrong_about_itself_keeps_its_type() -> None:
    back = returned(WrongWay(4, "text"))
    assert isinstance(back, WrongWay)
    assert (back.args, back.code) == (("text",), 4)


def test_errors_in_a_circle_travel() -> None:
    one, two = TwoArguments(1, "a"), KeyError("b")
    one.__cause__, two.__cause__ = two, one
    back = returned(one)
    assert back.__cause__ is not None
    assert back.__cause__.__cause__ is back


PROGRAM = """
import subprocess, sys
from apgas.runtime import serialization
class MainError(Exception):
    def __init__(self, code, name):
        super().__init__(name)
        self.code = code
if len(sys.argv) > 1:
    sys.stdout.buffer.write(serialization.dump_error(MainError(5, 'x'), 1, 'node'))
else:
    there = subprocess.run([sys.executable, __file__, 'there'], capture_output=True, check=True).stdout
    try:
        raise serialization.load_error(there)
    except MainError as error:
        print('caught', error.code, error.args)
"""


def test_an_error_of_the_main_program_is_the_one_that_except_names(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, tmp_path / "program.py"], capture_output=True, text=True, check=False, timeout=PATIENCE_S
    )
    assert done.stdout == "caught 5 ('x',)\n", done.stderr
