"""An example with arrays, resized between its steps, one order after another: `resized.py NAME STEPS ORDERS`."""

import sys
import time
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import apgas
from apgas import arrays

sys.path.insert(0, str(Path(__file__).parents[3] / "docs" / "examples"))
NAME, STEPS, ORDERS = sys.argv[1:]
program: Any = import_module(NAME)
steps = arrays.steps


def patient(count: int) -> Iterator[int]:
    """From the 12th step on an order ends before every second step; so rows move at many boundaries, some beside steps.

    No order is left at the end.
    """
    for step in steps(count):
        while len(apgas.resizes()) < min((step - 10) // 2, len(ORDERS.split(","))):
            apgas.safe_point()
            time.sleep(0.001)
        yield step


def main() -> None:
    vars(arrays)["steps"] = patient
    program.STEPS = int(STEPS)
    program.main(ORDERS)
    print(*(f"{record.n:+d}" if record.kind == "grow" else f"-{record.n}" for record in apgas.resizes()))
    print(*{record.outcome for record in apgas.resizes()})


if __name__ == "__main__":
    apgas.run(main)
