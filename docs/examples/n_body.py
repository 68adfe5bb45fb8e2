"""Bodies attract one another, on places that come and go. `mpiexec -n 2 python n_body.py`."""

import sys

import numpy as np

import apgas
from apgas import arrays

BODIES, STEPS, STEP_S, SOFTENING = 600, 40, 0.001, 0.01


def pull(own, every):
    """The acceleration of some bodies by all; each has the mass 1 / BODIES."""
    apart = every[np.newaxis] - own[:, np.newaxis]
    cubed = (np.sum(apart**2, axis=2) + SOFTENING) ** 1.5
    return np.sum(apart / cubed[:, :, np.newaxis], axis=1) / BODIES


def move(x: arrays.Block, v: arrays.Block, every) -> None:
    v.local += STEP_S * pull(x.local, every)
    x.local += STEP_S * v.local


def main(orders: str = "0:+2,0.1:-1") -> None:
    x = arrays.from_function(lambda i, j: (i * 7919 + j * 104_729 + i * i % 1009 * 31) % 10_007 / 10_007, (BODIES, 3))
    v = arrays.zeros((BODIES, 3))
    for step in arrays.steps(STEPS):
        if step == 1 and orders:
            apgas.schedule_orders(orders)  # a batch scheduler would send these
        arrays.update_blocks(move, x, v, x.whole())
    print(f"{x.norm():.10f} {v.norm():.10f}")


if __name__ == "__main__":
    apgas.run(main, *sys.argv[1:])
