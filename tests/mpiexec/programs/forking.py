"""Forks in an activity, in its main function or in a bag; the children come back, or stay away for long."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

from numbered import Numbers, Total

import apgas
import glb


def fork() -> None:
    os.fork()


def fork_and_fail() -> None:
    if os.fork() == 0:
        raise ValueError("in the child")


def fork_and_exit() -> None:
    if os.fork() == 0:
        sys.exit()


def leave_behind(how: str) -> int:
    """Start a process that outlives this place, unless that is ended; return its pid."""
    if "popen" in how:
        alone = "alone" in how
        output = subprocess.DEVNULL if alone else None
        child = subprocess.Popen(["sleep", "1000"], start_new_session=alone, stdout=output, stderr=output)
        child.returncode = 0  # nothing is said of its being left
        return child.pid
    if pid := os.fork():
        return pid
    if "setsid" in how:
        os.setsid()
    if "twice" in how and os.fork():
        os._exit(0)
    if "deaf" in how:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if "exec" in how:
        os.execvp("sleep", ["sleep", "1000"])
    time.sleep(1000)
    os._exit(0)


class ForkingNumbers(Numbers):
    def process(self, n: int) -> bool:
        if 100 in self.tasks:
            os.fork()
        return super().process(n)


def main(how: str) -> None:
    last = apgas.places()[-1]
    if how.startswith("leaves"):
        for place in apgas.places():
            print("left", apgas.at(place, leave_behind, how), flush=True)
    else:
        come_back(how, last)
    print("finished", flush=True)
    if sys.argv[2:]:
        time.sleep(1000)


def come_back(how: str, last: apgas.Place) -> None:
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


if __name__ == "__main__":
    apgas.run(main, sys.argv[1])
