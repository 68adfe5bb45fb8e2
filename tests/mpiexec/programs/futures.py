"""What programs do with an executor, in whatever setting; prints "fine" if all is as it should be."""

from __future__ import annotations

import asyncio
import io
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ALL_COMPLETED, BrokenExecutor, CancelledError, as_completed, wait
from functools import partial
from operator import add

import numpy as np

import apgas
from apgas.futures import MalleableExecutor

ready = threading.Event()


def square(number: int) -> int:
    return number * number


def fail(number: int) -> None:
    raise LookupError(f"of {number}")


def sleep(seconds: float) -> int:
    time.sleep(seconds)
    return os.getpid()


def pick(table: np.ndarray, index: int) -> int:
    return int(table[index])


def identity(tables: list[np.ndarray]) -> tuple[int, int]:
    return os.getpid(), id(tables[0])


def prepare(value: int) -> None:
    os.environ["PREPARED"] = str(value)


def prepared() -> str | None:
    return os.environ.get("PREPARED")


def raised(call: Callable[[], object]) -> BaseException:
    try:
        call()
    except BaseException as error:  # noqa: BLE001 - what it is, is the question
        return error
    raise AssertionError("nothing was raised")


def values(executor: MalleableExecutor) -> None:
    assert executor.submit(square, 7).result() == 49
    assert executor.submit(partial(add, 1), 2).result() == 3
    assert executor.submit(int, "ff", base=16).result() == 255
    assert list(executor.map(square, range(500))) == [number * number for number in range(500)]
    assert list(executor.map(add, range(100), range(1, 200), chunksize=7)) == [2 * n + 1 for n in range(100)]
    futures = {executor.submit(square, number): number for number in range(50)}
    assert all(future.result() == futures[future] ** 2 for future in as_completed(futures))
    assert not wait(futures, return_when=ALL_COMPLETED).not_done
    called = threading.Event()
    executor.submit(square, 2).add_done_callback(lambda _: called.set())
    assert called.wait(60)

    async def loop() -> int:
        return await asyncio.get_running_loop().run_in_executor(executor, square, 12)

    assert asyncio.run(loop()) == 144


def draws(executor: MalleableExecutor) -> None:
    """A map takes no more of its items ahead than it may."""
    drawn = 0

    def endless() -> Iterator[int]:
        nonlocal drawn
        while True:
            drawn += 1
            yield drawn

    stream = executor.map(square, endless(), buffersize=50)
    assert [next(stream) for _ in range(200)] == [number * number for number in range(1, 201)]
    assert drawn <= 252, drawn
    del stream


def shows(executor: MalleableExecutor) -> None:
    """Progress changes nothing of a map."""
    written, before = io.StringIO(), sys.stderr
    sys.stderr = written
    try:
        assert list(executor.map(square, range(1000), chunksize=3, progress=True)) == [n * n for n in range(1000)]
        assert list(executor.map(sleep, [2.2], progress=True))
    finally:
        sys.stderr = before
    assert " of 1 done · " in written.getvalue(), written.getvalue()
    assert f" · {len(executor.places)} place" in written.getvalue(), written.getvalue()


def scatters(executor: MalleableExecutor) -> None:
    """A large argument travels once per place."""
    table = executor.scatter(np.arange(1_000_000))
    assert list(executor.map(partial(pick, table), range(50))) == list(range(50))
    ids = {executor.submit(identity, [table]).result() for _ in range(20)}
    assert len(ids) <= len(executor.places), ids
    assert isinstance(raised(lambda: executor.scatter(threading.Lock())), TypeError)


def errors(executor: MalleableExecutor) -> None:
    error = raised(executor.submit(fail, 3).result)
    assert isinstance(error, LookupError), error
    assert error.args == ("of 3",)
    note = "\n".join(error.__notes__)
    assert "raised on place " in note, note
    assert "in fail(3)" in note, note
    assert "raise LookupError" in note, note
    refused = raised(executor.submit(square, threading.Lock()).result)  # type: ignore[arg-type]  # on purpose
    assert isinstance(refused, TypeError), refused
    assert "args[0]" in str(refused), refused
    with open(os.devnull, "w", encoding="utf-8") as file:  # noqa: PTH123 - it is a plain file that is meant
        closed_over = raised(executor.submit(lambda: file.write("x")).result)
        assert isinstance(closed_over, TypeError), closed_over
        assert "file (captured by " in str(closed_over), closed_over
        assert "not opened for reading" in str(closed_over), closed_over
        mapped = raised(lambda: list(executor.map(lambda count: file.write("x" * count), [1])))
        assert "file (captured by " in str(mapped), mapped
    unsent = raised(executor.submit(threading.Lock).result)
    assert isinstance(unsent, TypeError), unsent
    stream = executor.map(fail, [5])
    assert str(raised(lambda: next(stream))) == "of 5"
    late = executor.map(sleep, [0.5], timeout=0.01)
    assert isinstance(raised(lambda: list(late)), TimeoutError)


def cancels(executor: MalleableExecutor) -> None:
    running = [executor.submit(sleep, 0.2) for _ in range(2 * len(executor.places))]
    waiting = [executor.submit(square, number) for number in range(100)]
    assert waiting[-1].cancel()
    assert isinstance(raised(waiting[-1].result), CancelledError)
    assert [future.result() for future in waiting[:-1]] == [number * number for number in range(99)]
    assert all(future.result() for future in running)


def resizes(executor: MalleableExecutor) -> None:
    """Nothing is lost, and nothing is run twice, while places come and go."""
    count = len(executor.places)
    table = executor.scatter(np.arange(100))
    futures = [executor.submit(sleep, 0.001) for _ in range(300)]
    stream = executor.map(square, range(20_000))
    executor.resize(count + 1)
    assert len(executor.places) == count + 1
    newest = executor.places[-1]
    assert list(executor.map(partial(pick, table), range(50))) == list(range(50))
    pid = {executor.submit(sleep, 0.05).result() for _ in range(20)}
    assert pid
    executor.resize(count)
    assert newest not in executor.places
    assert list(stream) == [number * number for number in range(20_000)]
    assert all(future.result() for future in futures)


def nested() -> str:
    return str(raised(MalleableExecutor))


def refuses(executor: MalleableExecutor) -> None:
    assert "not in a task" in executor.submit(nested).result()
    found: list[str] = []
    with apgas.finish():
        apgas.async_(lambda: found.append(nested()))
    assert "another activity" in found[0], found
    assert "is open already" in str(raised(MalleableExecutor))
    assert "at least 1" in str(raised(lambda: MalleableExecutor(0)))


def everything(places: int | None = None) -> None:
    with MalleableExecutor(places, initializer=prepare, initargs=(5,)) as executor:
        assert places is None or len(executor.places) == places, executor.places
        assert {executor.submit(prepared).result() for _ in range(10)} == {"5"}
        for check in (values, draws, shows, scatters, errors, cancels, resizes, refuses):
            check(executor)
    assert "after shutdown" in str(raised(lambda: executor.submit(square, 1)))
    with MalleableExecutor(places) as again:
        waiting = [again.submit(sleep, 0.1) for _ in range(30)]
        again.shutdown(cancel_futures=True)
        assert all(future.done() for future in waiting)
        assert waiting[-1].cancelled()
    with MalleableExecutor(places, initializer=fail, initargs=(1,)) as broken:
        error = raised(broken.submit(square, 1).result)
        assert isinstance(error, BrokenExecutor), error
        assert "of 1" in str(error), error


if __name__ == "__main__":
    setting = sys.argv[1]
    if setting == "plain":
        everything(2)
    elif setting == "run":
        apgas.run(everything)
    else:
        everything()
    print("fine", flush=True)
