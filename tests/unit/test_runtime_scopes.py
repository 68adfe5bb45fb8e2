"""Finishes, their cancellation and their limits on simulated places."""

from __future__ import annotations

import math
import threading

import pytest
from support import PATIENCE_S

import apgas
from apgas.runtime.driver import required_driver
from apgas.testing.job import Job


def remembered() -> tuple[int, int]:
    """How much this place knows of cancelled finishes, and of references that were made here."""
    driver = required_driver()
    return len(driver.core.cancelled), len(driver.objects.homed)


def test_nothing_is_remembered_of_a_cancelled_finish() -> None:
    def main() -> bool:
        for _ in range(3):
            with apgas.finish() as scope:
                scope.cancel()
                assert all(apgas.async_at(place, abs, 1).exception() for place in apgas.places())
        with apgas.finish(timeout=PATIENCE_S):
            counts = [apgas.at(place, remembered)[0] for place in apgas.places()]
        return counts == [0, 0, 0]

    assert Job(main, places=3).run()


def test_a_deadline_does_not_reach_what_the_waiting_thread_runs_on_the_side() -> None:
    def main() -> int:
        with apgas.deadline(PATIENCE_S):
            return apgas.at(apgas.places()[-1], lambda: apgas.at(apgas.place(0), abs, -7))

    assert Job(main, places=2).run() == 7


def test_the_earliest_deadline_counts() -> None:
    def main() -> str:
        never = threading.Event()
        with apgas.finish(timeout=PATIENCE_S):
            future = apgas.async_(never.wait, PATIENCE_S)
            try:
                with apgas.deadline(0.01), apgas.deadline(PATIENCE_S):
                    future.result()
            except TimeoutError as error:
                never.set()
                return type(error).__name__
        return "in time"

    assert Job(main, places=1).run() == "DeadlineError"


def test_a_timeout_of_the_wait_itself_is_no_deadline() -> None:
    def main() -> bool:
        never = threading.Event()
        with apgas.finish(timeout=PATIENCE_S):
            future = apgas.async_(never.wait, PATIENCE_S)
            try:
                with apgas.deadline(PATIENCE_S):
                    future.result(0.01)
            except TimeoutError as error:
                never.set()
                return isinstance(error, apgas.DeadlineError)
        return True

    assert Job(main, places=1).run() is False


@pytest.mark.parametrize("seconds", [30 * 86400.0, 1e300, math.inf])
def test_limits_may_be_as_far_off_as_one_likes(seconds: float) -> None:
    def main() -> list[int]:
        with apgas.finish(timeout=seconds):
            first = apgas.at(apgas.places()[-1], abs, -1)
        with apgas.deadline(seconds), apgas.finish():
            return [first, apgas.async_at(apgas.places()[-1], abs, -2).result()]

    assert Job(main, places=2, deadline_s=PATIENCE_S).run() == [1, 2]


@pytest.mark.parametrize("seconds", [-1.0, math.nan])
def test_impossible_limits_are_refused(seconds: float) -> None:
    def main() -> list[str]:
        said = []
        for limit in (lambda: apgas.finish(timeout=seconds), lambda: apgas.deadline(seconds)):
            try:
                with limit():
                    said.append("accepted")
            except apgas.UsageError as error:
                said.append(str(error))
        return said

    assert all("number of seconds" in text for text in Job(main, places=1).run())


def test_cancel_needs_a_finish_around_it() -> None:
    with pytest.raises(apgas.UsageError, match="inside of activities"):
        apgas.cancel()
    assert not apgas.cancelled()
