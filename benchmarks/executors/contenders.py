"""The contenders, as programs: ``NAME CONFIG`` starts one, an executor with the workers that CONFIG asks for."""

from __future__ import annotations

import json
import os
import random
import sys
import time
from collections import deque
from concurrent.futures import Executor
from functools import partial
from typing import Any, Final

from ..compare.contender import Answer, Channel, Command, Config, call_rate, executor_of, noop, timed

_TOGETHER: Final = 8
"""Large arguments that are under way at once."""


def durations(count: int, least_s: float, most_s: float) -> list[float]:
    """Return seconds of tasks whose logarithms are evenly spread, in an order that is always the same."""
    each = [least_s * (most_s / least_s) ** (number / (count - 1)) for number in range(count)]
    random.Random(1).shuffle(each)
    return each


def size(array: Any) -> int:
    """Take a large argument."""
    return len(array)


def _submit(executor: Executor, command: Command) -> Answer:
    def batch(items: int) -> None:
        for future in [executor.submit(noop) for _ in range(items)]:
            future.result()

    return call_rate(batch, command)


def _map(executor: Executor, command: Command) -> Answer:
    return call_rate(lambda items: deque(executor.map(abs, range(items)), maxlen=0), command)


def _sweep(executor: Executor, command: Command) -> Answer:
    """Take naps; ``over_ideal``: the time beside that of workers which are never idle."""
    naps = durations(command["count"], command["least_s"], command["most_s"])
    began_s = time.perf_counter()
    deque(executor.map(time.sleep, naps), maxlen=0)
    return {"over_ideal": (time.perf_counter() - began_s) / (sum(naps) / command["workers"])}


def _large(executor: Executor, command: Command) -> Answer:
    import numpy as np

    array = np.ones(command["bytes"] // 8)

    def rate(argument: object) -> float:
        def batch() -> None:
            for future in [executor.submit(size, argument) for _ in range(_TOGETHER)]:
                future.result()

        samples = timed(batch, command["n"], command["limit_s"])
        return _TOGETHER * len(samples) / sum(samples)

    found = {"per_s": rate(array)}
    if hasattr(executor, "scatter"):
        found["scattered_per_s"] = rate(executor.scatter(array))
    return found


def main(name: str, config: Config) -> None:
    """Serve as an executor whose workers have all been started."""
    channel = Channel()
    with executor_of(name, config.places) as executor:
        for future in [executor.submit(os.getpid) for _ in range(2 * config.places)]:
            future.result()
        asked = {"submit": _submit, "map": _map, "sweep": _sweep, "large": _large}
        channel.serve({measure: partial(answer, executor) for measure, answer in asked.items()})


if __name__ == "__main__":
    main(sys.argv[1], Config(*json.loads(sys.argv[2])))
