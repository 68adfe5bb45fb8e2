"""Computations whose places are killed at random, place 0, too: `glb_reviving.py NAME SEED FOLDER`; prints JSON.

Whatever differs from life to life is decided by who kills: main does the same each time.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from random import Random

import apgas
import glb
from benchmarks.survival.program import compute, warm_up

COMPUTATIONS = 2
MOST_DEATHS = 3


def hunt(rng: Random, folder: Path, over: threading.Event) -> None:
    """Kill some places, or none, and then this one, as soon as it would be started again."""
    books = Path(os.environ["APGAS_BOOKS"])
    while not any(books.glob("*")):
        time.sleep(0.01)
    if over.wait(rng.uniform(0, 0.5)):
        return
    others = {path.name: int(path.read_text()) for path in folder.iterdir() if path.name.isdecimal()}
    others.pop("0", None)
    for place in rng.sample(sorted(others), min(len(others), rng.choice((0, 0, 1, 2)))):
        with suppress(ProcessLookupError):  # it was released
            os.kill(others[place], signal.SIGKILL)
        time.sleep(rng.choice((0, 0.1)))
    os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    name, seed, folder = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
    for path in folder.iterdir():
        if path.name.split(".")[0].isdecimal():
            path.unlink()  # of places of an earlier life
    life = sum(path.name.startswith("life") for path in folder.iterdir())
    (folder / f"life{life}").touch()
    rng, by_life = Random(f"{name} {seed}"), Random(f"{name} {seed} {life}")
    config = glb.Config(
        workers=1, warm_up=partial(warm_up, folder, None), backup_s=rng.choice((0.05, 0.2, 1.0)), seed=seed
    )
    over = threading.Event()
    if life < rng.randint(1, MOST_DEATHS):
        threading.Thread(target=hunt, args=(by_life, folder, over), daemon=True).start()
    runs = [compute(name, rng, folder, config) for _ in range(COMPUTATIONS)]
    over.set()
    print(json.dumps({"runs": runs, "lives": life + 1}))


if __name__ == "__main__":
    apgas.run(main, resilient=True)
