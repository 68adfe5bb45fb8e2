"""Grows until a newcomer is a fork, shrinks, grows once more; prints "fine" if all newcomers are alike but for that."""

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


def resize(words: str) -> None:
    orders = len(apgas.resizes()) + 1
    apgas.schedule_orders(f"0:{words}")
    until = time.monotonic() + 600
    while len(apgas.resizes()) < orders and time.monotonic() < until:
        time.sleep(0.005)
    assert [resize.outcome for resize in apgas.resizes()] == ["done"] * orders, apgas.resizes()


def grow() -> bool:
    """Whether the newcomer is a fork."""
    resize("+1")
    first, *others = [apgas.at(place, seen) for place in apgas.places()[1:]]
    assert all(other == first for other in others), (first, others)
    assert len({apgas.at(place, child_of) for place in apgas.places()[1:]}) == 1
    return apgas.at(apgas.places()[-1], forked)


def main() -> None:
    os.environ["CHOSEN"] = "here"
    os.environ.pop("REMOVED", None)
    apgas.define_malleable_handler(ReleaseNewest())
    assert not grow()
    until = time.monotonic() + 600
    while not grow():  # there is a server, but it has not loaded all
        assert time.monotonic() < until
        if len(apgas.places()) > 8:
            resize("-6")
    resize("-1")
    assert grow()
    apgas.disable_malleable_handler()


if __name__ == "__main__":
    apgas.run(main)
    print("fine", flush=True)
