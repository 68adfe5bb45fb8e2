"""Forks in an activity, in its main function or in a bag; the children come back instead of ending themselves."""

from __future__ import annotations

import os
import sys
import time

import apgas
import glb
from glb.testing import Numbers, Total


def fork() -> None:
    os.fork()


def fork_and_fail() -> None:
    if os.fork() == 0:
        raise ValueError("in the child")


def fork_and_exit() -> None:
    if os.fork() == 0:
        sys.exit()


class ForkingNumbers(Numbers):
    def process(self, n: int) -> bool:
        if 100 in self.tasks:
            os.fork()
        return super().process(n)


def main(how: str) -> None:
    last = apgas.places()[-1]
    match how:
        case "returns":
            apgas.at(last, fork)
        case "fails":
            apgas.at(last, fork_and_fail)
        case "exits":
            apgas.at(last, fork_and_exit)
        case "often":
            with apgas.finish():
                for place in apgas.places() * 3:
                    apgas.async_at(place, fork)
        case "uncounted":
            apgas.uncounted(last, fork)
            apgas.at(last, time.sleep, 0.2)
        case "immediate":
            apgas.immediate(last, fork)
            apgas.at(last, time.sleep, 0.2)
        case "main":
            fork()
            apgas.at(last, fork)
        case "bag":
            outcome = glb.compute(ForkingNumbers([1], 3000), Total, glb.Config(workers=1))
            assert outcome.statistics.tasks == 2999
        case _:
            raise ValueError(how)
    print("finished", flush=True)
    if sys.argv[2:]:
        time.sleep(1000)


if __name__ == "__main__":
    apgas.run(main, sys.argv[1])
