"""Solves a sparse system on places that come and go. `mpiexec -n 2 python conjugate_gradient.py`.

Each point of a grid is coupled to its 26 neighbours.
"""

import sys

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

import apgas
from apgas import arrays

SIDE, STEPS = 24, 60
ROWS, REACH = SIDE**3, SIDE**2 + SIDE + 1
"""Points of the grid, a row of the matrix each; how far apart coupled ones are."""


def entry(row, k):
    """The k-th of 27 entries in a row; those that would lie outside of the grid are 0."""
    at = [row // SIDE**2 + k // 9 - 1, row // SIDE % SIDE + k // 3 % 3 - 1, row % SIDE + k % 3 - 1]
    inside = np.logical_and.reduce([(x >= 0) & (x < SIDE) for x in at])
    return np.where(k == 13, 26.0, np.where(inside, -1.0, 0.0))


def neighbours(padded):
    """For each row what the vector is at the 27 points that are coupled; it is padded by REACH at both ends."""
    k = np.arange(27)
    apart = ((k // 9 - 1) * SIDE + k // 3 % 3 - 1) * SIDE + k % 3 - 1
    return sliding_window_view(padded, 2 * REACH + 1)[:, REACH + apart]


def multiply(ap, values, p, r, rr, before):
    p.padded[:] = r.padded + rr / before * p.padded
    np.sum(values.local * neighbours(p.padded), axis=1, out=ap.local)
    return p.local @ ap.local


def descend(x, r, p, ap, rr, pap):
    x.local += rr / pap * p.local
    r.local -= rr / pap * ap.local
    return r.local @ r.local


def main(orders: str = "0:+2,0.1:-1") -> None:
    values = arrays.from_function(entry, (ROWS, 27)).freeze()
    x, p, ap = (arrays.zeros(ROWS) for _ in range(3))
    r = arrays.from_function(lambda row: np.sin(0.001 * row), ROWS)
    rr, before = arrays.reduce_blocks(lambda r: r.local @ r.local, r), np.inf
    for step in arrays.steps(STEPS):
        if step == 1 and orders:
            apgas.schedule_orders(orders)  # a batch scheduler would send these
        # sums that nothing waits for here: places have them of one another
        pap = arrays.reduce_blocks(multiply, ap, values, p.halo(REACH), r.halo(REACH), rr, before, wait=False)
        rr, before = arrays.reduce_blocks(descend, x, r, p, ap, rr, pap, wait=False), rr
    print(f"{x.norm():.10f} {x.max():.10f} {rr.result() < 1e-12}")


if __name__ == "__main__":
    apgas.run(main, *sys.argv[1:])
