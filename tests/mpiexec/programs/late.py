"""Finishes and calls that run out of time; prints "fine" if all of it held."""

from __future__ import annotations

import time

import apgas
from apgas import DeadlineError, async_at, at, deadline, finish, here, places

PATIENCE_S = 600.0
SOON_S = 0.2


def check(condition: object, what: object) -> None:
    if not condition:
        raise AssertionError(what)


def until_freed(gate: apgas.GlobalRef[list[int]]) -> int:
    """Run, deaf to any cancellation, until place 0 lets go."""
    until = time.monotonic() + PATIENCE_S
    while not at(gate.place, is_free, gate) and time.monotonic() < until:
        time.sleep(0.01)
    return 7


def is_free(gate: apgas.GlobalRef[list[int]]) -> bool:
    return bool(gate.get())


def until_cancelled() -> None:
    until = time.monotonic() + PATIENCE_S
    while not apgas.cancelled() and time.monotonic() < until:
        time.sleep(0.001)
    check(apgas.cancelled(), "never cancelled")


def fails_at_once() -> None:
    raise ValueError("a real error")


def a_finish_in_time_is_like_any_other() -> None:
    with finish(timeout=PATIENCE_S) as scope:
        futures = [async_at(place, here) for place in places()]
    check([future.result(0) for future in futures] == places() and not scope.cancelled, "in time")


def a_finish_out_of_time_says_where_it_waits(where: apgas.Place, freed: apgas.PlaceLocal[list[int]]) -> None:
    began = time.monotonic()
    try:
        with finish(timeout=SOON_S):
            async_at(where, deaf, freed)
    except TimeoutError as error:
        check(f"1 on {where} ({where.node})" in str(error), error)
        check(time.monotonic() - began < PATIENCE_S / 2, "it waited")
    else:
        raise AssertionError("it never ran out of time")
    at(where, free, freed)


def deaf(freed: apgas.PlaceLocal[list[int]]) -> None:
    until = time.monotonic() + PATIENCE_S
    while not freed.get() and time.monotonic() < until:
        time.sleep(0.01)


def free(freed: apgas.PlaceLocal[list[int]]) -> None:
    freed.get().append(1)


def what_listens_ends(where: apgas.Place) -> None:
    try:
        with finish(timeout=SOON_S):
            at(where, until_cancelled)  # its value may be just in time
    except DeadlineError:
        return
    raise AssertionError("a finish outlived its timeout")


def real_errors_come_along() -> None:
    try:
        with finish(timeout=SOON_S):
            async_at(places()[-1], fails_at_once).exception(PATIENCE_S)
            until_cancelled()
    except ExceptionGroup as group:
        check([type(error) for error in group.exceptions] == [ValueError, DeadlineError], group.exceptions)
    else:
        raise AssertionError("no error")


def a_call_has_a_deadline(where: apgas.Place) -> None:
    gate: list[int] = []
    with finish():
        with deadline(PATIENCE_S):
            check(at(where, here) == where, "a call in time")
            try:
                with deadline(SOON_S):
                    at(where, until_freed, apgas.GlobalRef(gate))
            except TimeoutError:
                check(at(where, here) == where, "the deadline outlives its block")
            else:
                raise AssertionError("a call outlived its deadline")
        gate.append(1)
        future = async_at(where, until_freed, apgas.GlobalRef(gate))
        with deadline(PATIENCE_S):
            check(future.result() == 7 and future.exception() is None, "a value in time")


def a_finish_has_a_deadline(where: apgas.Place) -> None:
    try:
        with deadline(SOON_S), finish():
            async_at(where, until_cancelled)
    except TimeoutError as error:
        check(f"1 on {where}" in str(error), error)
    else:
        raise AssertionError("a finish outlived the deadline")


def main() -> None:
    where = places()[-1]
    a_finish_in_time_is_like_any_other()
    what_listens_ends(where)
    real_errors_come_along()
    a_call_has_a_deadline(where)
    a_finish_has_a_deadline(where)
    a_finish_out_of_time_says_where_it_waits(where, apgas.PlaceLocal(list))
    try:
        with finish(timeout=-1):
            raise AssertionError("a negative timeout")
    except apgas.UsageError:
        print("fine", flush=True)


if __name__ == "__main__":
    apgas.run(main)
