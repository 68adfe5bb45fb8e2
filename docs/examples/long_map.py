"""How much memory a long map takes: `python docs/examples/long_map.py [ITEMS]`."""

import sys
import time
from resource import RUSAGE_SELF, getrusage

from apgas.futures import MalleableExecutor


def twice(number: int) -> int:
    return 2 * number


def most_memory() -> str:
    return f"{getrusage(RUSAGE_SELF).ru_maxrss >> 10} MiB"


def main(items: int) -> None:
    with MalleableExecutor(places=2) as executor:
        began_s = time.monotonic()
        assert sum(executor.map(twice, (number for number in range(items)))) == items * (items - 1)
        print(f"{items} items in {time.monotonic() - began_s:.1f} s")
        print("most memory here:", most_memory(), "- of a worker:", executor.submit(most_memory).result())


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20_000)
