"""An example with arrays, resized between its steps, one order after another: `resized.py NAME STEPS +2 -1 ...`."""

import sys
import time
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import apgas
from apgas import arrays

sys.path.insert(0, str(Path(__file__).parents[3] / "docs" / "examples"))
NAME, STEPS, *ORDERS = sys.argv[1:]
program: Any = import_module(NAME)
steps = arrays.steps


def resized(count: int) -> Iterator[int]:
    """From the 12th step on give an order before every second step, and see that it has ended two steps later.

    So rows move at many boundaries, constant ones beside steps, and no order is left at the end.
    """
    given = 0
    for step in steps(count):
        if step >= 12 and step % 2 == 0:
            while len(apgas.resizes()) < given:
                apgas.safe_point()
                time.sleep(0.001)
            for change in ORDERS[given : given + 1]:
                apgas.schedule_orders(f"0:{change}")
                given += 1
        yield step


def main() -> None:
    vars(arrays)["steps"] = resized
    program.STEPS = int(STEPS)
    program.main("")
    print(*(f"{record.n:+d}" if record.kind == "grow" else f"-{record.n}" for record in apgas.resizes()))
    print(*{record.outcome for record in apgas.resizes()})


if __name__ == "__main__":
    apgas.run(main)
