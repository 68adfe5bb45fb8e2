"""A program whose place 0 dies in its computation: `glb_again.py WHAT FOLDER`; WHAT differs from life to life."""

from __future__ import annotations

import os
import signal
import sys
from collections import Counter
from functools import partial
from pathlib import Path

from numbered import Numbers, Total

import apgas
import glb

LIMIT = 2000


def die(at: int, tasks: int, places: int, workers: int) -> None:
    if tasks >= at:
        os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    what, folder = sys.argv[1], Path(sys.argv[2])
    life = len(list(folder.glob("life*")))
    (folder / f"life{life}").touch()
    if what == "always" and life:
        os.kill(os.getpid(), signal.SIGKILL)  # earlier than before, so that it certainly comes no further
    limit = LIMIT + (life if what == "changes" else 0)
    dies = {"once": life == 0, "always": True, "changes": True}[what]
    config = glb.Config(
        workers=1, rate=1000, granularity=1, backup_s=0.05, on_progress=partial(die, 1 if dies else sys.maxsize)
    )
    outcome = glb.compute(Numbers([1], limit), Total, config)
    print("right", outcome.result.done == Counter(range(1, limit)), outcome.statistics.tasks == limit - 1)


if __name__ == "__main__":
    apgas.run(main, resilient=True)
