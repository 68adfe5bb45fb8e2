"""Arrays, an executor and the balancer in one job whose places come and go: `arrays_beside_tasks.py ORDERS`."""

import sys
import time
from collections import Counter

import numpy as np
from numbered import Numbers, Total

import apgas
import glb
from apgas import arrays
from apgas.futures import MalleableExecutor


def double(block: arrays.Block, table: arrays.Block) -> None:
    block.local = block.local * 2 + table.local[:, 0]


def where() -> int:
    time.sleep(0.002)
    return apgas.here().id


def main() -> None:
    orders = sys.argv[1].split(",")
    table = arrays.from_function(lambda i, j: i + j, (50, 20_000)).freeze()  # 8 MB: several portions
    numbers, alone = arrays.zeros(50), np.zeros(50)
    right = True
    steps = arrays.steps()  # before the others: it leads
    with MalleableExecutor() as pool:
        for step in steps:
            if step == 2:
                apgas.schedule_orders(sys.argv[1])
            tasks = [pool.submit(where) for _ in range(4)]
            outcome = glb.compute(Numbers([1], 2000), Total, glb.Config(workers=1, granularity=10))
            arrays.map_blocks(double, numbers, table)
            alone = alone * 2 + np.arange(50)
            right &= outcome.result.done == Counter(range(1, 2000)) and len([task.result(60) for task in tasks]) == 4
            right &= np.array_equal(numbers.gather(), alone) and table.sum() == 50 * 20_000 * (24.5 + 9999.5)
            if len(apgas.resizes()) == len(orders):
                break
        there = {task.result(60) for task in [pool.submit(where) for _ in range(200)]}
    print(right, len(apgas.places()), there == {place.id for place in apgas.places()})
    print(*(record.outcome for record in apgas.resizes()))


if __name__ == "__main__":
    apgas.run(main)
