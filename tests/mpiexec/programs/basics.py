"""Uses every call of the runtime once; prints "fine" if all of it held."""

from __future__ import annotations

import operator
import time

import apgas
from apgas import async_, async_at, at, finish, here, places

calls: list[int] = []


def square(number: int) -> int:
    return number * number


def fail(number: int) -> None:
    raise ValueError(f"no {number}")


def whisper(into: apgas.PlaceLocal[list[int]], number: int) -> None:
    into.get().append(number)


def count(of: apgas.PlaceLocal[list[int]]) -> int:
    return len(of.get())


def tree(depth: int, reached: apgas.GlobalRef[list[int]]) -> None:
    at(reached.place, note, reached)
    if depth:
        for place in places():
            async_at(place, tree, depth - 1, reached)


def note(reached: apgas.GlobalRef[list[int]]) -> None:
    reached.get().append(1)


def read_elsewhere(ref: apgas.GlobalRef[list[int]]) -> str:
    try:
        ref.get()
    except apgas.UsageError as error:
        return str(error)
    return "read"


def nested(levels: int) -> int:
    """Each level waits for its own finish before it answers."""
    if not levels:
        return here().id
    with finish():
        futures = [async_at(place, nested, levels - 1) for place in places()]
    return sum(future.result(timeout=0) for future in futures)


class Late:
    """Takes its time to arrive."""

    def __reduce__(self) -> tuple[object, ...]:
        return time.sleep, (0.3,)


def early() -> bool:
    """A local activity ends last, while the main thread, which waits for messages, unpickles an answer."""
    time.sleep(0.05)
    with finish():
        future = async_at(places()[-1], Late)
        async_(time.sleep, 0.1)
    return not future.done()


def check(condition: object, what: object) -> None:
    if not condition:
        raise AssertionError(what)


def errors_are_gathered(k: int) -> None:
    try:
        with finish():
            for place in places():
                async_at(place, fail, place.id)
            raise KeyError("the body's own")
    except ExceptionGroup as group:
        kinds = sorted(type(error).__name__ for error in group.exceptions)
        check(kinds == ["KeyError"] + ["ValueError"] * k, kinds)
        notes = "".join("".join(getattr(error, "__notes__", [])) for error in group.exceptions)
        check(all(f"place {place.id} " in notes for place in places()) and "in fail" in notes, notes)


def main() -> None:
    k = len(places())
    check(here().id == 0 and [place.id for place in places()] == list(range(k)), places())
    check([at(place, square, 3 + place.id) for place in places()] == [(3 + i) ** 2 for i in range(k)], "at")
    check(async_(operator.add, 1, 2).result(timeout=600) == 3, "async_")
    errors_are_gathered(k)
    try:
        at(places()[-1], fail, 7)
    except ValueError as error:
        check("no 7" in str(error), error)
    else:
        raise AssertionError("at did not raise")
    reached: list[int] = []
    with finish():
        async_at(places()[-1], tree, 2, apgas.GlobalRef(reached))
    check(len(reached) == 1 + k + k * k, len(reached))
    check(nested(2) == sum(range(k)) * k, "nested")
    check(not async_(early).result(), "a finish has ended before an answer that it waits for")
    local: apgas.PlaceLocal[list[int]] = apgas.PlaceLocal(list)
    for place in places():
        for number in range(place.id + 1):
            apgas.immediate(place, whisper, local, number)
        check(at(place, count, local) in range(place.id + 2), "count")
    if k > 1:
        answer = at(places()[1], read_elsewhere, apgas.GlobalRef([1]))
        check("place(0)" in answer, answer)
    try:
        async_at(places()[-1], square, (i for i in "x")) if k > 1 else fail(0)  # type: ignore[arg-type]  # wrong on purpose
    except (TypeError, ValueError):
        print("fine", flush=True)


if __name__ == "__main__":
    apgas.run(main)
