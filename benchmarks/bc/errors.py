"""What can go wrong with a graph."""

from __future__ import annotations


class PathCountError(ArithmeticError):
    """Vertices at the same distance from a source have numbers of shortest paths that no double holds together.

    Args:
        first: First source of the block.
        last: End of the block.
    """

    def __init__(self, first: int, last: int) -> None:
        super().__init__(
            f"the numbers of shortest paths from one of the vertices {first} to {last - 1}, counted by falling degree, "
            "differ by more than a factor of 2^960 within one distance; no such graph (a very large grid, say) can be "
            "computed"
        )
