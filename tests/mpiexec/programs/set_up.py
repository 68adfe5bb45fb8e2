"""What the top of the main script and `setup` do is there on newcomers, too; prints "fine" if so.

Arguments: whether `setup` fails: nowhere, on newcomers, or everywhere.
"""

from __future__ import annotations

import logging
import os
import sys
import time
import warnings
from pathlib import Path

import apgas
from apgas import at, places
from apgas.testing.handlers import ReleaseNewest

os.environ["SET_BY_SCRIPT"] = "x" * 20_000
os.environ["MPIR_CVAR_SET_BY_SCRIPT"] = "it's"
os.environ.pop("REMOVED_BY_SCRIPT", None)
warnings.filterwarnings("error", message="a warning of the program")

FAILS = sys.argv[1]


def setup() -> None:
    of_the_process = vars(sys)  # the variables of this file travel with its functions
    of_the_process["set_up"] = of_the_process.get("set_up", 0) + 1
    first = "first" in of_the_process
    logging.basicConfig(level="ERROR")
    if FAILS == "everywhere" or (FAILS == "on newcomers" and not first):
        raise ValueError("cannot be set up")
    if first:
        try:
            apgas.here()
        except apgas.UsageError:
            return
        raise AssertionError("a place before setup")


def seen() -> tuple[object, ...]:
    """What a place has of that."""
    try:
        warnings.warn("a warning of the program", stacklevel=1)
        warned = "warned"
    except UserWarning:
        warned = "raised"
    names = ("SET_BY_SCRIPT", "MPIR_CVAR_SET_BY_SCRIPT", "REMOVED_BY_SCRIPT", "SET_BY_MAIN")
    variables = tuple(os.environ.get(name) for name in names)
    return (*variables, warned, logging.getLogger().level, str(Path.cwd()), tuple(sys.argv), vars(sys)["set_up"])


def main() -> None:
    os.environ["SET_BY_MAIN"] = "yes"
    os.chdir("/")
    apgas.define_malleable_handler(ReleaseNewest())
    apgas.schedule_orders("0:+1")
    while not apgas.resizes():
        time.sleep(0.005)
    (record,) = apgas.resizes()
    if FAILS == "on newcomers":
        assert record.outcome == "aborted", record
        assert record.reason.endswith(": setup raised ValueError: cannot be set up"), record
        assert len(places()) == 1, places()
    else:
        assert (record.outcome, len(places())) == ("done", 2), record
        expected = ("x" * 20_000, "it's", None, "yes", "raised", logging.ERROR, "/", tuple(sys.argv), 1)
        for place in places():
            found = at(place, seen)
            assert found == expected, (place, found)
    print("fine", flush=True)


if __name__ == "__main__":
    vars(sys)["first"] = True
    apgas.run(main, setup=setup)
