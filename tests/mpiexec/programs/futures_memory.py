"""Maps over many items of a generator, whose values are large; prints how many MiB this process has grown meanwhile."""

from __future__ import annotations

import sys
from pathlib import Path

from apgas.futures import MalleableExecutor


def large(number: int) -> bytes:
    return bytes(4096) + number.to_bytes(8)


def used_mib() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) / 256


def main() -> None:
    count = int(sys.argv[1])
    items = (number for number in range(count))
    with MalleableExecutor(places=2) as executor:
        settled_mib, taken = 0.0, 0
        for taken, value in enumerate(executor.map(large, items, buffersize=1000)):
            assert value[4096:] == taken.to_bytes(8)
            if taken == 5000:
                settled_mib = used_mib()
        assert taken == count - 1
        print(round(used_mib() - settled_mib), flush=True)


if __name__ == "__main__":
    main()
