"""Cancels finishes from their block, from other places, and around others; prints "fine" if all of it held."""

from __future__ import annotations

import time
from typing import Any

import apgas
from apgas import CancelledError, Future, async_, async_at, at, finish, here, places

PATIENCE_S = 600.0


def check(condition: object, what: object) -> None:
    if not condition:
        raise AssertionError(what)


def until_cancelled(begun: apgas.GlobalRef[list[int]]) -> str:
    """Run until this place hears of the cancellation."""
    at(begun.place, note, begun, here().id)
    until = time.monotonic() + PATIENCE_S
    while not apgas.cancelled():
        check(time.monotonic() < until, f"place {here().id} never heard that it is cancelled")
        time.sleep(0.001)
    return "seen"


def note(begun: apgas.GlobalRef[list[int]], place: int) -> None:
    begun.get().append(place)


def wait_for(begun: list[int], count: int) -> None:
    until = time.monotonic() + PATIENCE_S
    while len(begun) < count:
        check(time.monotonic() < until, f"{begun} of {count} began")
        time.sleep(0.001)


def is_cancelled(future: Future[Any]) -> bool:
    return isinstance(future.exception(PATIENCE_S), CancelledError)


def the_block_cancels() -> None:
    begun: list[int] = []
    ref = apgas.GlobalRef(begun)
    returned = False
    with finish() as scope:
        running = [async_at(place, until_cancelled, ref) for place in places()]
        wait_for(begun, len(running))
        check(not scope.cancelled and not apgas.cancelled(), "cancelled too early")
        scope.cancel()
        check(scope.cancelled and apgas.cancelled(), "not cancelled")
        late: list[Future[Any]] = [async_at(place, here) for place in places()]
        late.append(async_(here))
        check(all(map(is_cancelled, late)), "something was started after the cancellation")
        check([future.result(PATIENCE_S) for future in running] == ["seen"] * len(running), "not all saw it")
        at(places()[-1], here)
        returned = True
    check(not returned, "at did not raise")
    check(scope.cancelled and not apgas.cancelled(), "the finish around is cancelled, too")
    check(at(places()[-1], here) == places()[-1], "the finish around it is hurt")


def find(number: int, found: apgas.GlobalRef[list[int]]) -> None:
    """One of many finds what all are looking for."""
    if number == 3:
        at(found.place, note, found, number)
        apgas.cancel()
    until_cancelled(found)


def another_place_cancels() -> None:
    found: list[int] = []
    with finish() as scope:
        for number in range(8):
            async_at(places()[number % len(places())], find, number, apgas.GlobalRef(found))
    check(scope.cancelled and 3 in found, found)


def nests(begun: apgas.GlobalRef[list[int]]) -> None:
    """An activity with a finish of its own, which is not over when all of its block is."""
    with finish():
        for place in places():
            async_at(place, until_cancelled, begun)
    raise AssertionError("an inner finish took a part for the whole")


def nested_finishes_are_cancelled_too() -> None:
    begun: list[int] = []
    with finish() as scope:
        futures = [async_at(place, nests, apgas.GlobalRef(begun)) for place in places()]
        wait_for(begun, len(places()) ** 2)
        scope.cancel()
    check(all(map(is_cancelled, futures)), [future.exception() for future in futures])


def fails_when_cancelled(begun: apgas.GlobalRef[list[int]]) -> None:
    until_cancelled(begun)
    raise ValueError("a real error")


def real_errors_are_raised() -> None:
    begun: list[int] = []
    try:
        with finish() as scope:
            for place in places():
                async_at(place, fails_when_cancelled, apgas.GlobalRef(begun))
                async_at(place, nests, apgas.GlobalRef(begun))
            wait_for(begun, len(places()) * (1 + len(places())))
            scope.cancel()
    except ExceptionGroup as group:
        check([type(error) for error in group.exceptions] == [ValueError] * len(places()), group.exceptions)
    else:
        raise AssertionError("the errors of a cancelled finish are lost")


def what_waits_for_a_thread_is_not_started() -> None:
    begun: list[int] = []
    ref = apgas.GlobalRef(begun)
    with finish() as scope:
        futures = [async_(until_cancelled_here, ref) for _ in range(200)]
        wait_for(begun, 1)
        scope.cancel()
    never = sum(map(is_cancelled, futures))
    check(never == len(futures) - len(begun) and never > 50, (never, len(begun)))


def until_cancelled_here(begun: apgas.GlobalRef[list[int]]) -> None:
    begun.get().append(here().id)
    until = time.monotonic() + PATIENCE_S
    while not apgas.cancelled() and time.monotonic() < until:
        time.sleep(0.001)


def main() -> None:
    the_block_cancels()
    another_place_cancels()
    nested_finishes_are_cancelled_too()
    at(places()[-1], nested_finishes_are_cancelled_too)
    real_errors_are_raised()
    what_waits_for_a_thread_is_not_started()
    print("fine", flush=True)


if __name__ == "__main__":
    apgas.run(main)
