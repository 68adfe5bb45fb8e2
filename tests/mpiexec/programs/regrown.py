"""Grows again and again; prints which places are forks. But for that all newcomers are alike."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import apgas
from apgas.testing.handlers import ReleaseNewest


def forked() -> bool:
    return "forkserver" in Path("/proc/self/cmdline").read_text(encoding="utf-8")


def seen() -> tuple[object, ...]:
    ours = os.environ
    streams = [Path(f"/proc/self/fd/{number}").readlink() for number in (0, 1, 2)]
    return ours["CHOSEN"], "REMOVED" in ours, Path.cwd(), sys.argv, sys.path, streams, os.getsid(0) == os.getpid()


def child_of() -> int:
    return os.getppid()


def resize(words: str, orders: int) -> None:
    apgas.schedule_orders(f"0:{words}")
    until = time.monotonic() + 600
    while len(apgas.resizes()) < orders and time.monotonic() < until:
        time.sleep(0.005)
    assert [resize.outcome for resize in apgas.resizes()] == ["done"] * orders, apgas.resizes()


def main() -> None:
    os.environ["CHOSEN"] = "here"
    os.environ.pop("REMOVED", None)
    apgas.define_malleable_handler(ReleaseNewest())
    for order, words in enumerate(("+1", "+1", "+2", "-3", "+1"), start=1):
        resize(words, order)
        print("".join("-f"[apgas.at(place, forked)] for place in apgas.places()), flush=True)
        first, *others = [apgas.at(place, seen) for place in apgas.places()[1:]]
        assert all(other == first for other in others), (first, others)
        assert len({apgas.at(place, child_of) for place in apgas.places()[1:]}) == 1
    apgas.disable_malleable_handler()


if __name__ == "__main__":
    apgas.run(main)
