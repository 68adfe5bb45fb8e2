"""Place 2 enters the control group that is named and takes more memory than that has; place 0 says what it hears."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import apgas


def take_all() -> None:
    """An activity without end but that of its place."""
    (Path(sys.argv[1]) / "cgroup.procs").write_text(str(os.getpid()))
    taken = []
    while True:
        taken.append(bytearray(os.urandom(2**20) * 16))


def main() -> None:
    try:
        apgas.at(apgas.places()[2], take_all)
    except apgas.DeadPlaceError as error:
        print(f"DeadPlaceError of place {error.place}, left {[place.id for place in apgas.places()]}")


apgas.run(main)
