"""Resizes its executor by asking the scheduler that runs it; prints how many places it has each time."""

from __future__ import annotations

from contextlib import suppress

from apgas.errors import ApgasError
from apgas.futures import MalleableExecutor


def square(number: int) -> int:
    return number * number


def main() -> None:
    with MalleableExecutor() as executor:
        stream = executor.map(square, range(20_000))
        sizes: list[int] = []
        for count in (1, 3, 2):
            while len(executor.places) != count:
                # the scheduler is done with an order shortly after the program is, and refuses until then
                with suppress(ApgasError):
                    executor.resize(count)
            sizes.append(len(executor.places))
        try:
            executor.resize(9)
        except ApgasError as error:
            refused = str(error)
        else:
            refused = "granted"
        assert list(stream) == [number * number for number in range(20_000)]
        print(*sizes, refused, flush=True)


if __name__ == "__main__":
    main()
