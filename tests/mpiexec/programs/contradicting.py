"""Damages the state of a place; the whole-state validator must end the job, whatever the program catches."""

from __future__ import annotations

import sys
from contextlib import suppress

import apgas
from apgas.runtime.driver import current_driver


def damage() -> None:
    driver = current_driver()
    assert driver is not None
    with driver.lock:
        driver.core.finishes.live += 1


def main() -> None:
    victim = apgas.places()[int(sys.argv[1])]
    with suppress(BaseException):  # whatever the place dies of
        apgas.at(victim, damage)
        with apgas.finish():
            apgas.async_at(victim, int)
    print("survived", flush=True)


if __name__ == "__main__":
    apgas.run(main)
