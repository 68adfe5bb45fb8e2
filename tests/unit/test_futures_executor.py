"""What an executor says of arguments that it cannot take, and where and when it cannot be used."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

import apgas
from apgas.errors import UsageError
from apgas.futures import MalleableExecutor
from apgas.testing.pytest_plugin import MakeJob

# as a caller without types
executor_of: Callable[..., Any] = MalleableExecutor


@pytest.mark.parametrize("arguments", [{"places": 1.5}, {"places": "2"}, {"retries": "x"}, {"retries": None}])
def test_an_executor_is_opened_with_whole_numbers(arguments: dict[str, object]) -> None:
    ((name, value),) = arguments.items()
    with pytest.raises(TypeError, match=f"^{name} must be a whole number, not {value!r}$"):
        executor_of(**arguments)


def test_numbers_that_are_not_whole_are_refused_by_name_and_those_of_numpy_are_taken(apgas_job: MakeJob) -> None:
    calls: list[tuple[str, str, Callable[[Any], object]]] = [
        ("places", "1.5", lambda executor: executor.resize(1.5)),
        ("places", "'3'", lambda executor: executor.resize("3")),
        ("places", "None", lambda executor: executor.resize(None)),
        ("minimum", "'a'", lambda executor: executor.adapt("a", 2)),
        ("maximum", "2.0", lambda executor: executor.adapt(1, 2.0)),
        ("chunksize", "1.5", lambda executor: executor.map(abs, [1], chunksize=1.5)),
        ("buffersize", "'a'", lambda executor: executor.map(abs, [1], buffersize="a")),
    ]

    def main() -> None:
        two: Any = np.int64(2)
        with executor_of(places=two, retries=np.int8(0)) as executor:
            for name, shown, call in calls:
                with pytest.raises(TypeError, match=f"^{name} must be a whole number, not {shown}$"):
                    call(executor)
            executor.resize(two)
            executor.adapt(np.int16(1), two)
            assert list(executor.map(abs, range(5), chunksize=two, buffersize=two)) == list(range(5))

    apgas_job(main, places=2).run()


def test_one_that_starts_places_is_opened_in_the_main_thread() -> None:
    with ThreadPoolExecutor(1) as threads:
        opened = threads.submit(MalleableExecutor, 1)
        with pytest.raises(UsageError, match=r"^a MalleableExecutor that .* in the main thread only"):
            opened.result(20)


def test_after_shutdown_it_has_no_places(apgas_job: MakeJob) -> None:
    def main() -> None:
        executor = MalleableExecutor()
        assert len(executor.places) == 2
        executor.shutdown()
        calls: list[Callable[[], object]] = [
            lambda: executor.places,
            lambda: executor.resize(3),
            lambda: executor.adapt(1, 3),
        ]
        for call in calls:
            with pytest.raises(RuntimeError, match="after shutdown"):
                call()
        with MalleableExecutor() as another:
            assert len(another.places) == 2
            with pytest.raises(RuntimeError, match="after shutdown"):
                executor.resize(1)

    apgas_job(main, places=2).run()


@pytest.mark.parametrize("shut_down", [False, True], ids=["open", "not-waited-for"])
def test_a_program_waits_for_the_tasks_of_an_executor_that_it_leaves(shut_down: bool, apgas_job: MakeJob) -> None:
    futures: list[Future[None]] = []

    def main() -> None:
        kept.append(executor := MalleableExecutor())
        futures.extend(executor.submit(time.sleep, 0.05) for _ in range(8))
        if shut_down:
            executor.shutdown(wait=False)

    kept: list[MalleableExecutor] = []
    apgas_job(main, places=2).run()
    assert [future.result(0) for future in futures] == [None] * 8
    with pytest.raises(RuntimeError, match="after shutdown"):
        kept[0].submit(abs, 1)


def test_a_map_hides_no_item_that_it_could_not_run(apgas_job: MakeJob) -> None:
    """Neither when it is shut down before all are drawn, nor when what yields them fails with that very type."""

    def failing() -> Iterator[int]:
        yield from range(5)
        raise RuntimeError("no more")

    def main() -> None:
        with MalleableExecutor() as executor:
            values, few = executor.map(abs, range(10), buffersize=4), executor.map(abs, range(4), buffersize=4)
            with pytest.raises(RuntimeError, match="no more"):
                list(executor.map(abs, failing(), buffersize=2))
        assert [next(values) for _ in range(4)] == list(few) == list(range(4))
        with pytest.raises(RuntimeError, match="after shutdown"):
            next(values)

    apgas_job(main, places=2).run()


@pytest.mark.parametrize("end", ["shut down", "dropped", "interrupted"])
def test_places_leave_when_an_executor_has_ended_that_was_not_waited_for(end: str, apgas_job: MakeJob) -> None:
    def use() -> None:
        executor = MalleableExecutor()
        assert executor.submit(abs, -1).result() == 1
        if end == "interrupted":
            with suppress(KeyboardInterrupt), executor:
                raise KeyboardInterrupt
        elif end == "shut down":
            executor.shutdown(wait=False)

    def main() -> None:
        use()
        assert job.shrink(1).wait().outcome == "done"
        assert job.grow(1).wait().outcome == "done"

    job = apgas_job(main, places=3)
    job.run()


def test_an_executor_in_a_task_is_refused_with_what_to_do_instead(apgas_job: MakeJob) -> None:
    def main() -> None:
        with MalleableExecutor() as executor, pytest.raises(TypeError, match="return what there is to do, and let"):
            executor.submit(lambda: executor.submit(abs, -1).result()).result()

    apgas_job(main, places=2).run()


def test_an_executor_that_is_shut_down_again_leaves_the_next_one_its_newcomers(apgas_job: MakeJob) -> None:
    def main() -> None:
        first = MalleableExecutor()
        first.shutdown()
        with MalleableExecutor() as second:
            first.shutdown()
            assert job.grow(1).wait().outcome == "done"
            ran: set[int] = set()
            while 1 not in ran:
                ran.update(second.map(_where, range(4)))

    job = apgas_job(main, places=1)
    job.run()


def _where(_: int) -> int:
    time.sleep(0.01)
    return apgas.here().id


_go = threading.Event()  # simulated places are one process


def _wait() -> None:
    assert _go.wait(60)


def test_a_future_that_the_program_ends_by_hand_harms_no_other(apgas_job: MakeJob) -> None:
    """Only executors should do that; here with one that runs and others that wait, also at a shutdown."""

    def begun(executor: MalleableExecutor) -> list[Future[None]]:
        _go.clear()
        futures = [executor.submit(_wait) for _ in range(8)]
        while not futures[0].running():
            time.sleep(0.001)
        return futures

    def main() -> None:
        with MalleableExecutor() as executor:
            for future in begun(executor):
                future.set_result(None)
            _go.set()
            assert executor.submit(abs, -3).result(60) == 3
            (futures := begun(executor))[-1].set_result(None)
            threading.Timer(0.1, _go.set).start()
            executor.shutdown(cancel_futures=True)
            assert all(future.done() for future in futures)

    apgas_job(main, places=2).run()
