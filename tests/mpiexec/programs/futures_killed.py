"""Maps whose places are killed at random: `futures_killed.py KILLS FOLDER SEED`; "fine": each value is there once."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from random import Random

from apgas.futures import MalleableExecutor

TASKS = 400
FOLDER = Path(sys.argv[2])


def note(folder: Path, program: int) -> None:
    """Let the program know the process, unless that is its own."""
    if os.getpid() != program:
        (folder / f"{os.getpid()}").touch()


def square(number: int) -> int:
    time.sleep(0.002)
    return number * number


def main() -> None:
    kills, rng = int(sys.argv[1]), Random(sys.argv[3])
    killed: set[int] = set()
    over = threading.Event()

    def hunt() -> None:
        while len(killed) < kills and not over.wait(rng.uniform(0, 0.2)):
            living = sorted({int(path.name) for path in FOLDER.iterdir()} - killed)
            for pid in rng.sample(living, min(len(living), rng.choice((1, 1, 2)))):
                killed.add(pid)
                with suppress(ProcessLookupError):  # it has left
                    os.kill(pid, signal.SIGKILL)

    with MalleableExecutor(places=4, initializer=note, initargs=(FOLDER, os.getpid()), retries=2 * kills) as executor:
        hunter = threading.Thread(target=hunt)
        hunter.start()
        try:
            while len(killed) < kills:
                assert list(executor.map(square, range(TASKS))) == [number * number for number in range(TASKS)]
                if len(executor.places) < 4:
                    executor.resize(4)
        finally:
            over.set()
            hunter.join()
        assert list(executor.map(square, range(TASKS))) == [number * number for number in range(TASKS)]
    print(len(killed), "killed, fine", flush=True)


if __name__ == "__main__":
    main()
