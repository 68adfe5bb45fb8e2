"""What an executor does with single tasks: `python tasks.py`."""

from concurrent.futures import as_completed

from apgas.futures import MalleableExecutor


def area(width: float, height: float) -> float:
    if width < 0:
        raise ValueError(f"a width of {width}")
    return width * height


def main() -> None:
    with MalleableExecutor(places=2) as executor:
        futures = [executor.submit(area, width, 2.0) for width in (3.0, 1.0, 2.0)]
        print(sorted(future.result() for future in as_completed(futures)))
        error = executor.submit(area, -1.0, 2.0).exception()
        print(repr(error))

        before = len(executor.places)
        executor.resize(3)
        print(before, "places, then", len(executor.places))


if __name__ == "__main__":
    main()
