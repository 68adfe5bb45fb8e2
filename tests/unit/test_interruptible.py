"""A block that signals end by an error, whatever runs when they come."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Iterator

import pytest

from apgas.errors import interruptible


class Ended(BaseException):
    pass


@pytest.fixture(autouse=True)
def all_is_as_before() -> Iterator[None]:
    def kept() -> list[object]:
        return [signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM), sys.unraisablehook]

    before = kept()
    yield
    assert kept() == before


def interrupted(block: Callable[[], None]) -> Ended:
    """Run the block; it must be ended by an error."""

    @interruptible(Ended)
    def run() -> None:
        block()

    with pytest.raises(Ended) as found:
        run()
    return found.value


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_only_the_first_signal_ends_the_block(number: signal.Signals) -> None:
    ended = []

    def block() -> None:
        try:
            signal.raise_signal(number)
        finally:
            for each in (signal.SIGINT, signal.SIGTERM):
                signal.raise_signal(each)
                ended.append(each)

    assert interrupted(block).args == (number,)
    assert ended == [signal.SIGINT, signal.SIGTERM]


def test_a_signal_within_a_destructor_ends_the_block() -> None:
    class Last:
        def __del__(self) -> None:
            signal.raise_signal(signal.SIGTERM)

    def block() -> None:
        Last()
        time.sleep(5.0)
        pytest.fail("it was lost")

    assert interrupted(block).args == (signal.SIGTERM,)


def test_a_signal_within_the_last_destructor_of_the_block_ends_it() -> None:
    class Last:
        def __del__(self) -> None:
            signal.raise_signal(signal.SIGTERM)

    def block() -> None:
        Last()

    assert interrupted(block).args == (signal.SIGTERM,)
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_other_errors_of_destructors_end_nothing() -> None:
    class Last:
        def __del__(self) -> None:
            raise ValueError("of another kind")

    ended = []

    def block() -> None:
        try:
            signal.raise_signal(signal.SIGINT)
        finally:
            Last()
            time.sleep(0.05)
            ended.append(True)

    interrupted(block)
    assert ended


def test_a_block_without_signals_ends_as_it_does() -> None:
    with interruptible(Ended):
        pass
