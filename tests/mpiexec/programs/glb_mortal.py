"""Counts a tree; place 0 is killed: `glb_mortal.py WHEN FOLDER`. Says what it counted, and how often it began.

WHEN: ``computing``, ``growing``, ``shrinking``: in the first life, and ``computing twice`` in the second one, too;
``always``: in the first life while it computes, and at once in all others, which so come no further. The first life
takes long that waits for an order, the second one with ``computing once``. ``asked``: in the first life as soon as the
folder has the file ``die``; the others wait for ``go`` there before they compute.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import apgas
import glb
from apgas.testing.handlers import ReleaseNewest
from benchmarks.levelbag import Count
from benchmarks.uts.problems import bag_of
from benchmarks.uts.tree import Tree

TREE = Tree(depth=7, seed=19, branching=4)
PATIENCE_S = 600.0


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class Mortal(ReleaseNewest):
    """Place 0 is killed when all has been done for an order but to say so, or before anything is."""

    def __init__(self, when: str) -> None:
        self._when = when

    def postGrow(self, nb_places: int, continued_places: object, new_places: object) -> None:
        if self._when == "growing":
            die()

    def preShrink(self, nb_places: int) -> Sequence[apgas.Place]:
        if self._when == "shrinking":
            die()
        return ()


def look(at: int, tasks: int, places: int, workers: int) -> None:
    if tasks >= at:
        die()


def look_for(file: Path, tasks: int, places: int, workers: int) -> None:
    if file.exists():
        die()


def wait_for(file: Path) -> None:
    end_s = time.monotonic() + PATIENCE_S
    while not file.exists() and time.monotonic() < end_s:
        time.sleep(0.05)


def main() -> None:
    when, folder = sys.argv[1], Path(sys.argv[2])
    life = len(list(folder.glob("life*")))
    (folder / f"life{life}").write_text(str(os.getpid()), encoding="utf-8")
    print(f"life {life} on {len(apgas.places())}", flush=True)
    nodes = TREE.known_nodes()
    assert nodes is not None
    at = never = nodes * 2
    if when == "always" and life:
        die()
    if when == "always" or (life <= (when == "computing twice") and when.startswith("computing")):
        at = nodes * (life + 1) // 4
    asked = when == "asked"
    if asked and life:
        wait_for(folder / "go")
    slow = when == "computing once" if life else at == never
    glb.set_user_handler(Mortal(when if life == 0 else ""))
    progress = partial(look_for, folder / "die") if asked and not life else partial(look, at)
    config = glb.Config(workers=1, rate=100 if slow else 8000, backup_s=0.1, on_progress=progress)
    count = glb.compute(bag_of(TREE), Count, config).result.value
    print(f"{count == nodes} after {life + 1} lives on {len(apgas.places())}", flush=True)


if __name__ == "__main__":
    apgas.run(main, resilient=True)
