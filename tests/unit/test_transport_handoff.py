"""Work of the io thread that waits or takes long: another thread takes its place."""

from __future__ import annotations

import threading

import pytest
from support import PATIENCE_S
from support.loops import pass_through

from apgas.transport.loop import EventLoop, Watchdog


def test_work_is_done_last_and_in_order(loop: EventLoop) -> None:
    ran: list[str] = []
    done = threading.Event()

    def post() -> None:
        loop.run_last(lambda: ran.append("last"))
        loop.run_last(done.set)
        ran.append("first")

    def post_both() -> None:
        loop.call_soon(post)
        loop.call_soon(lambda: ran.append("of the same round"))

    loop.call_soon(post_both)
    assert done.wait(PATIENCE_S)
    assert ran == ["first", "of the same round", "last"]


def test_quick_work_keeps_the_thread(loop: EventLoop) -> None:
    loop._watchdog._on_long = lambda work: None  # quick work of a thread that the system suspends looks long, too
    before = pass_through(loop)
    for _ in range(100):
        loop.call_soon(lambda: loop.run_last(lambda: None))
    assert pass_through(loop) == before


@pytest.mark.parametrize(
    ("seen", "long"),
    [
        ([(1, 1), (2, 2), (3, 3)], []),
        ([(1, 1), (0, 1), (2, 2), (0, 2)], []),
        ([(0, 0), (1, 1), (1, 1), (2, 2)], [1]),
        ([(3, 3), (3, 3), (3, 3), (0, 3), (4, 4)], [3, 3]),
    ],
    ids=["other work at each tick", "idle in between", "two ticks", "three ticks"],
)
def test_work_is_long_if_two_ticks_in_a_row_see_it(
    seen: list[tuple[int, int]], long: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of ``seen`` is what a tick finds: the number of the present work, and how many there have been."""
    ticks = iter(seen)
    now = next(ticks)
    found: list[int] = []

    def sleep(_seconds: float) -> None:
        nonlocal now
        now = next(ticks, (0, seen[-1][1]))

    monkeypatch.setattr("apgas.transport.loop.time.sleep", sleep)
    Watchdog(lambda: now, found.append, "test-watchdog")._tick()
    assert found == long


def test_while_long_work_is_done_another_thread_is_the_io_thread(loop: EventLoop) -> None:
    before = pass_through(loop)
    began, goes_on, ended = threading.Event(), threading.Event(), threading.Event()

    def long() -> None:
        began.set()
        assert goes_on.wait(PATIENCE_S)
        assert not loop.in_thread()
        ended.set()

    loop.call_soon(lambda: loop.run_last(long))
    assert began.wait(PATIENCE_S)
    now = pass_through(loop)
    assert now != before
    goes_on.set()
    assert ended.wait(PATIENCE_S)
    assert pass_through(loop) == now


def test_work_that_is_going_to_wait_hands_over_at_once(loop: EventLoop) -> None:
    passed = threading.Event()

    def waits_for_the_io_thread() -> None:
        loop.hand_off()  # on a busy machine the watchdog may have done it before
        assert not loop.in_thread()
        loop.hand_off()
        inner = threading.Event()
        loop.call_soon(inner.set)
        assert inner.wait(PATIENCE_S)
        passed.set()

    loop.call_soon(lambda: loop.run_last(waits_for_the_io_thread))
    assert passed.wait(PATIENCE_S)


def test_long_work_leaves_the_timers_to_the_thread_that_takes_its_place(loop: EventLoop) -> None:
    """It cannot know at which moment it is the io thread no more."""
    seen: list[int] = []
    due = threading.Event()

    def work() -> None:
        loop.call_later(0.0, due.set)
        seen.append(len(loop._timers))

    loop.call_soon(lambda: loop.run_last(work))
    assert due.wait(PATIENCE_S)
    assert seen == [0]


def test_work_behind_long_work_is_done_meanwhile(loop: EventLoop) -> None:
    goes_on, done = threading.Event(), threading.Event()

    def wait() -> None:
        goes_on.wait(PATIENCE_S)

    def post() -> None:
        loop.run_last(wait)
        loop.run_last(done.set)

    loop.call_soon(post)
    assert done.wait(PATIENCE_S)
    goes_on.set()


def test_hand_off_elsewhere_changes_nothing(loop: EventLoop) -> None:
    before = pass_through(loop)
    loop.hand_off()
    loop.hand_off_from(1)
    assert pass_through(loop) == before


def test_stop_does_not_wait_for_work_that_was_left_behind() -> None:
    loop = EventLoop("test-io")
    loop.start()
    began, goes_on = threading.Event(), threading.Event()

    def stuck() -> None:
        began.set()
        goes_on.wait(PATIENCE_S)

    loop.call_soon(lambda: loop.run_last(stuck))
    assert began.wait(PATIENCE_S)
    loop.stop()
    goes_on.set()


def test_flushes_are_done_by_whoever_comes_first(loop: EventLoop) -> None:
    hold, held = threading.Event(), threading.Event()
    by: list[int] = []

    def keep_io_busy() -> None:
        held.set()
        hold.wait(PATIENCE_S)

    loop.call_soon(keep_io_busy)
    assert held.wait(PATIENCE_S)
    loop.flush_soon(lambda: by.append(threading.get_ident()))
    loop.flush_now()
    assert by == [threading.get_ident()]
    hold.set()
    flushed = threading.Event()
    loop.flush_soon(flushed.set)
    assert flushed.wait(PATIENCE_S)


@pytest.fixture
def always_in_succession(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apgas.transport.loop._SUCCESSION_S", 1e9)


@pytest.mark.usefixtures("always_in_succession")
def test_a_thread_that_waits_in_quick_succession_leads(loop: EventLoop) -> None:
    io = pass_through(loop)
    by: list[int] = []

    def answer_later() -> bool:
        answered = threading.Event()

        def note() -> None:
            by.append(threading.get_ident())
            answered.set()

        loop.call_later(0.0001, note)
        loop.lead(answered.is_set, PATIENCE_S)
        return answered.wait(PATIENCE_S)

    for _ in range(200):
        assert answer_later()
    assert set(by) == {io, threading.get_ident()}
    assert not loop.in_thread()
    assert pass_through(loop) == io


@pytest.mark.usefixtures("always_in_succession")
def test_who_leads_stops_for_work_that_might_wait(loop: EventLoop) -> None:
    worked = threading.Event()

    def post() -> None:
        loop.run_last(worked.set)

    for _ in range(100):
        worked.clear()
        loop.call_soon(post)
        loop.lead(worked.is_set, 0.01)
        assert worked.wait(PATIENCE_S)


@pytest.mark.usefixtures("always_in_succession")
def test_a_leader_sees_what_came_about_elsewhere(loop: EventLoop) -> None:
    for _ in range(50):
        done = threading.Event()

        def set_and_nudge(done: threading.Event = done) -> None:
            done.set()
            loop.nudge()

        threading.Thread(target=set_and_nudge).start()
        loop.lead(done.is_set, PATIENCE_S)
        assert done.wait(PATIENCE_S)


@pytest.mark.usefixtures("always_in_succession")
def test_many_threads_lead_in_turns_and_the_io_thread_comes_back(loop: EventLoop) -> None:
    io = pass_through(loop)

    def wait_often() -> None:
        for _ in range(200):
            passed = threading.Event()
            loop.call_soon(passed.set)
            loop.lead(passed.is_set, 0.001)
            assert passed.wait(PATIENCE_S)

    threads = [threading.Thread(target=wait_often) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
        assert not thread.is_alive()
    deadline = threading.Event()
    loop.call_later(0.05, deadline.set)
    assert deadline.wait(PATIENCE_S)
    assert pass_through(loop) == io


@pytest.mark.usefixtures("always_in_succession")
def test_a_loop_that_is_led_can_be_stopped() -> None:
    loop = EventLoop("test-io")
    loop.start()
    stops = threading.Event()

    def lead() -> None:
        while not stops.is_set():
            loop.lead(stops.is_set, 0.002)

    leader = threading.Thread(target=lead)
    leader.start()
    loop.stop()
    stops.set()
    leader.join(PATIENCE_S)
    assert not leader.is_alive()


def test_work_that_cannot_hand_off_fails_and_its_thread_stays(
    loop: EventLoop, threads_to_be_had: threading.Event
) -> None:
    before = pass_through(loop)
    said: list[str] = []

    def hands_over() -> None:
        try:
            loop.hand_off()
        except RuntimeError as error:
            said.append(str(error))
            assert loop.in_thread()
        done.set()

    for _ in range(2):
        done = threading.Event()
        loop.call_soon(lambda: loop.run_last(hands_over))
        assert done.wait(PATIENCE_S)
        threads_to_be_had.set()
    assert said == ["can't start new thread"]
    assert pass_through(loop) != before


def test_long_work_is_left_behind_as_soon_as_there_are_threads_again(
    loop: EventLoop, threads_to_be_had: threading.Event
) -> None:
    began, goes_on, ended = threading.Event(), threading.Event(), threading.Event()
    asked = threading.Semaphore(0)
    hand_off_from = loop._watchdog._on_long

    def ask(work: int) -> None:
        asked.release()
        hand_off_from(work)

    def long() -> None:
        began.set()
        goes_on.wait(PATIENCE_S)
        ended.set()

    loop._watchdog._on_long = ask
    loop.call_soon(lambda: loop.run_last(lambda: None))  # who watches cannot be started
    pass_through(loop)
    threads_to_be_had.set()
    loop.call_soon(lambda: loop.run_last(threads_to_be_had.clear))
    pass_through(loop)
    loop.call_soon(lambda: loop.run_last(long))
    assert began.wait(PATIENCE_S)
    for _ in range(3):
        assert asked.acquire(timeout=PATIENCE_S)
    threads_to_be_had.set()
    pass_through(loop)
    assert not ended.is_set()
    goes_on.set()
    assert ended.wait(PATIENCE_S)


def test_an_error_of_the_loop_itself_is_reported_and_the_loop_can_be_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = EventLoop("test-io")
    errors: list[BaseException] = []
    noted = threading.Event()

    def note(error: BaseException) -> None:
        errors.append(error)
        noted.set()

    def fail() -> float | None:
        raise OverflowError("on purpose")

    loop.on_broken = note
    loop.start()
    pass_through(loop)
    monkeypatch.setattr(loop._timers, "seconds_left", fail)
    loop.call_later(0.0, lambda: None)
    assert noted.wait(PATIENCE_S)
    loop.stop()
    assert [str(error) for error in errors] == ["on purpose"]
