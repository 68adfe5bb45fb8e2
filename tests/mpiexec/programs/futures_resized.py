"""Runs a number of tasks while places come and go; prints how many resizes there were, and "fine" if each ran once."""

from __future__ import annotations

import sys
import threading
from collections import Counter

from apgas.futures import MalleableExecutor


def same(number: int) -> int:
    return number


if __name__ == "__main__":
    tasks, resizes = map(int, sys.argv[1:])
    with MalleableExecutor(places=2) as executor:
        done = 0

        def resize() -> None:
            global done
            while done < resizes and not over.is_set():
                executor.resize(2 + (done + 1) % 3)
                done += 1

        over = threading.Event()
        thread = threading.Thread(target=resize)
        thread.start()
        counts: Counter[int] = Counter()
        rounds = 0
        while not rounds or done < resizes:
            counts.update(executor.map(same, range(tasks)))
            rounds += 1
        over.set()
        thread.join()
    assert len(counts) == tasks, len(counts)
    assert set(counts.values()) == {rounds}, set(counts.values())
    print(done, "fine", flush=True)
