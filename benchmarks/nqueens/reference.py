"""The oracle: plain recursion over the rows without bits and symmetry, and the kernel run alone."""

from __future__ import annotations


def count_solutions(size: int, columns: tuple[int, ...] = ()) -> int:
    """Return the number of solutions that begin with queens in ``columns``, row by row."""
    row = len(columns)
    if row == size:
        return 1
    return sum(
        count_solutions(size, (*columns, column))
        for column in range(size)
        if all(column != other and abs(column - other) != row - above for above, other in enumerate(columns))
    )


def run_kernel(size: int) -> int:
    """Return the number of solutions as one bag finds it without any stealing."""
    from .bag import QueensBag
    from .symmetry import PARTS

    bag = QueensBag.of_board(size)
    while bag.process(1 << 40):
        pass
    return bag.count // PARTS


def warm_up() -> None:
    """Load the kernel, or compile it the first time on a machine, and run it once."""
    run_kernel(6)
