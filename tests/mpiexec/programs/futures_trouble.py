"""Executors in trouble, opened from plain Python; the argument says in which; prints "fine" if it ends as it should."""

from __future__ import annotations

import functools
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from queue import SimpleQueue

import apgas
from apgas import DeadPlaceError, UsageError
from apgas.futures import MalleableExecutor


def square(number: int) -> int:
    return number * number


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@functools.lru_cache
def cached(number: int) -> int:
    return number + 1


def kills() -> None:
    """A task kills its process, again and again: it fails alone, and the pool is whole again."""
    with MalleableExecutor(places=2, retries=2) as executor:
        bad = executor.submit(die)
        good = [executor.submit(square, number) for number in range(1000)]
        assert [future.result() for future in good] == [number * number for number in range(1000)]
        assert isinstance(bad.exception(), DeadPlaceError), bad.exception()
        while len(executor.places) < 2:
            time.sleep(0.01)
    with MalleableExecutor(places=1) as executor:
        assert isinstance(executor.submit(die).exception(), DeadPlaceError)
        assert executor.submit(square, 3).result() == 9


def _interrupt_soon() -> float:
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    return time.monotonic()


def interrupted() -> None:
    """As the cells of a notebook: the executor goes on when a cell is interrupted, and ends when it is shut down."""
    sys.ps1 = ">>> "
    before = threading.active_count()
    executor = MalleableExecutor(places=2)
    began_s = _interrupt_soon()
    try:
        list(executor.map(time.sleep, [0.05] * 10 + [1.0] * 4))
    except KeyboardInterrupt:
        assert time.monotonic() - began_s > 0.2
    else:
        raise AssertionError("nothing was raised")
    assert executor.submit(square, 4).result() == 16
    executor.shutdown(cancel_futures=True)
    time.sleep(1.1)  # within a second another signal is taken for an echo of the first
    try:
        with MalleableExecutor(places=2) as other:
            _interrupt_soon()
            other.submit(time.sleep, 3600).result()
    except KeyboardInterrupt:
        pass
    else:
        raise AssertionError("nothing was raised")
    with MalleableExecutor(places=1) as again:
        assert again.submit(square, 5).result() == 25
    until = time.monotonic() + 60
    while threading.active_count() > before and time.monotonic() < until:
        time.sleep(0.01)
    assert threading.active_count() == before, threading.enumerate()


def noted(file: str) -> None:
    with Path(file).open("a") as begun:
        begun.write("x")
    time.sleep(0.5)


def abandoned() -> None:
    """Places have many tasks when those before were quick; they hand them back if the map is given up."""
    with tempfile.NamedTemporaryFile() as begun, MalleableExecutor(places=2) as executor:
        assert sum(executor.map(square, range(30_000))) == sum(map(square, range(30_000)))
        try:
            values = executor.map(noted, [begun.name] * 1000, timeout=1.0)
            while not Path(begun.name).stat().st_size:
                time.sleep(0.01)
            list(values)
        except TimeoutError:
            assert executor.submit(square, 7).result() == 49
        assert 0 < Path(begun.name).stat().st_size < 100


def called_back() -> None:
    """A callback of a future that would wait for ever is refused; what need not wait works there."""
    said: SimpleQueue[str] = SimpleQueue()
    with MalleableExecutor(places=2) as executor:

        def call_back(_: Future[int]) -> None:
            for wait in (partial(executor.resize, 1), executor.shutdown):
                try:
                    wait()
                except UsageError as error:
                    said.put(str(error))
            said.put(f"scattered: {executor.submit(square, executor.scatter(8)).done()}")

        executor.submit(square, 1).add_done_callback(call_back)
        heard = [said.get(timeout=60) for _ in range(3)]
        assert all("let another thread do it" in text for text in heard[:2]), heard
        assert heard[2] == "scattered: False"
        executor.resize(1)


def adapts() -> None:
    """Its places follow the length of the queue, both ways, and stay when it is resized by hand."""
    with MalleableExecutor(places=1) as executor:
        executor.adapt(1, 2)
        busy = [executor.submit(time.sleep, 0.2) for _ in range(1000)]
        until(executor, 2)
        for future in busy:
            future.cancel()
        until(executor, 1)
        executor.resize(2)
        assert len(executor.places) == 2
        assert executor.submit(square, 6).result() == 36


def until(executor: MalleableExecutor, count: int) -> None:
    """Wait until it has that many places; the test's own patience ends what would wait for ever."""
    while len(executor.places) != count:
        time.sleep(0.02)


def elsewhere() -> None:
    """Another thread than the main one may end it, as servers and graphical programs do; then all is as before."""
    before = signal.getsignal(signal.SIGINT)
    for _ in range(2):
        executor = MalleableExecutor(places=2)
        last = executor.submit(time.sleep, 0.1)
        with ThreadPoolExecutor(1) as thread:
            thread.submit(executor.shutdown).result()
        assert last.done()
    with MalleableExecutor(places=1) as again:
        assert again.submit(square, 5).result() == 25
    assert signal.getsignal(signal.SIGINT) is before


def shut_down_elsewhere() -> None:
    executor = MalleableExecutor(places=2)
    with ThreadPoolExecutor(1) as thread:
        thread.submit(executor.shutdown).result()
    print("waiting", flush=True)
    time.sleep(3600)


def left() -> None:
    """An executor that is never shut down runs what it was given."""
    executor = MalleableExecutor(places=2)
    executor.submit(print, "fine", flush=True)


def followed() -> None:
    """To shut an executor down once more leaves the next one alone."""
    first = MalleableExecutor(places=1)
    first.shutdown(wait=False)
    with MalleableExecutor(places=1) as second:
        first.shutdown()
        assert second.submit(square, 3).result() == 9
        second.resize(2)


def stillborn() -> None:
    """Places are not started again and again if each dies in its initializer."""
    with MalleableExecutor(places=2, initializer=die) as executor:
        error = executor.submit(square, 3).exception(60)
        assert isinstance(error, BrokenExecutor), error
        assert "3 places in a row" in str(error), error


def fails() -> None:
    """What a program that fails leaves under way ends with it."""
    left: list[Future[None]] = []

    def main() -> None:
        left.append(MalleableExecutor().submit(time.sleep, 3600))
        raise LookupError

    try:
        apgas.run(main)
    except LookupError:
        assert "the program is over" in str(left[0].exception(60))
    else:
        raise AssertionError("nothing was raised")


def late() -> None:
    """When the main thread has ended, no task is taken any more, for none would run."""
    executor = MalleableExecutor(places=1)
    begun = threading.Event()

    def submit() -> None:
        executor.submit(square, 3).result()
        begun.set()
        try:
            while True:
                executor.submit(square, 3).result(60)
        except RuntimeError:
            print("fine", flush=True)

    threading.Thread(target=submit).start()
    begun.wait()


def waits() -> None:
    with MalleableExecutor(places=2) as executor:
        print("waiting", flush=True)
        executor.submit(time.sleep, 3600).result()


def waits_without_a_block() -> None:
    executor = MalleableExecutor(places=2)
    print("waiting", flush=True)
    executor.submit(time.sleep, 3600).result()


def waits_at_the_end_of_a_block() -> None:
    with MalleableExecutor(places=2) as executor:
        executor.submit(time.sleep, 3600)
        print("waiting", flush=True)


def waits_at_exit() -> None:
    """Waits for its task when Python has begun to end."""
    MalleableExecutor(places=2).submit(time.sleep, 3600)
    call_first_at_exit(print, "waiting", flush=True)


def waits_for_others_at_exit() -> None:
    """Is not there yet, because another library waits before, as for threads of its own."""
    MalleableExecutor(places=2).submit(time.sleep, 3600)
    call_first_at_exit(time.sleep, 3600)
    call_first_at_exit(print, "waiting", flush=True)


def call_first_at_exit(call: Callable[..., object], *args: object, **kwargs: object) -> None:
    """When threads are ended; what is registered last is called first."""
    threading._register_atexit(partial(call, *args, **kwargs))  # type: ignore[attr-defined]  # as the executor does


if __name__ == "__main__":
    globals()[sys.argv[1]]()
    if sys.argv[1] not in ("left", "late", "waits_at_exit", "waits_for_others_at_exit"):
        print("fine", flush=True)
else:
    # a place loads this file to find what has a name only
    assert cached(1) == 2
