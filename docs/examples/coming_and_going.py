"""Draws what an executor does while nodes come and go: `python docs/examples/coming_and_going.py PICTURE.png [TASKS]`.

A task waits for 20 ms, as one that has a core of its own would take, so that the number of cores here does not matter.
"""

import sys
import threading
import time
from itertools import pairwise

import matplotlib.pyplot as plt

from apgas.futures import MalleableExecutor

ORDERS = [(4.0, 6), (11.0, 3), (16.0, 5)]  # (seconds since the start, places that there are to be)


def task(number: int) -> int:
    time.sleep(0.02)
    return number


def main(picture: str, tasks: int) -> None:
    with MalleableExecutor(places=2) as executor:
        began_s = time.monotonic()
        sizes = [(0.0, 2)]
        over = threading.Event()

        def order() -> None:
            for at_s, count in ORDERS:
                if over.wait(at_s - (time.monotonic() - began_s)):
                    return
                executor.resize(count)
                sizes.append((time.monotonic() - began_s, count))

        orders = threading.Thread(target=order)
        orders.start()
        done_s: list[float] = []
        futures = [executor.submit(task, number) for number in range(tasks)]
        for future in futures:
            future.add_done_callback(lambda _: done_s.append(time.monotonic() - began_s))
        assert [future.result() for future in futures] == list(range(tasks))
        over.set()
        orders.join()
    assert len(done_s) == tasks
    draw(picture, sizes, done_s)


def draw(picture: str, sizes: list[tuple[float, int]], done_s: list[float]) -> None:
    figure, (above, below) = plt.subplots(2, 1, figsize=(9, 4), sharex=True, layout="constrained")
    times, counts = zip(*sizes, (done_s[-1], sizes[-1][1]), strict=True)
    above.step(times, counts, where="post", color="tab:blue")
    above.fill_between(times, counts, step="post", alpha=0.25)
    above.set(ylabel="places", ylim=(0, None), title=f"{len(done_s):,} tasks while nodes come and go")
    below.plot(done_s, range(1, len(done_s) + 1), color="tab:green")
    for (_, before), (at_s, count) in pairwise(sizes):
        below.axvline(at_s, color="0.8", zorder=0)
        below.annotate(f" {count - before:+d}", (at_s, 0), color="0.4")
    below.set(xlabel="seconds", ylabel="tasks done", ylim=(0, None), xlim=(0, done_s[-1]))
    figure.savefig(picture, dpi=110)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 3600)
