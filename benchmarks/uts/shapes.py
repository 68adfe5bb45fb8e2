"""Geometric trees of the other published shapes: the mean number of children depends on the level.

Source: the reference program of the benchmark, with the same formulas in double precision.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from .tree import MAX_DEPTH, Tree, root_hash

SHAPES: Final = ("linear", "expdec", "cyclic")
MAX_SHAPED_DEPTH: Final = 100
_CYCLES: Final = 5
_KNOWN_NODES: Final = {
    ("linear", 20, 34, 4): 4147582,
    ("cyclic", 16, 502, 6): 4117769,
    ("cyclic", 23, 220, 7): 96793510,
}
"""Nodes by shape, depth, seed and branching."""


@dataclass(frozen=True, slots=True)
class ShapedTree:
    """One geometric tree whose mean number of children depends on the level.

    "linear": it falls from ``branching`` to 0 on level ``depth``. "expdec": it falls with a power of the level, to 1 on
    level ``depth``. "cyclic": it goes up and down between ``branching`` and its inverse, once in ``depth`` levels, for
    five times as many levels.

    Args:
        shape: One of SHAPES.
        depth: What the shape refers to, in levels.
        seed: Seed of the root's hash.
        branching: Mean number of children of the root.

    Raises:
        ValueError: An argument is out of range.
    """

    shape: str
    depth: int
    seed: int
    branching: int

    def __post_init__(self) -> None:
        if self.shape not in SHAPES:
            raise ValueError(f'shape is "{self.shape}", but must be one of {", ".join(SHAPES)}')
        Tree(self.depth, self.seed, self.branching)  # the same ranges hold
        least = 2 if self.shape == "expdec" else 1
        if not least <= self.depth <= MAX_SHAPED_DEPTH:
            raise ValueError(f"depth is {self.depth}, but must be from {least} to {MAX_SHAPED_DEPTH}")

    @property
    def levels(self) -> int:
        """Level below which there are no nodes.

        A tree of shape "expdec" has no such level; but its nodes are so few below level ``depth`` that none was ever
        seen near the level that this returns: the chance is below 1e-9.
        """
        match self.shape:
            case "linear":
                return self.depth
            case "cyclic":
                return _CYCLES * self.depth + 1
            case _:
                return min(8 * self.depth + 40, MAX_DEPTH)

    def mean_children(self, level: int) -> float:
        """Return the mean number of children of the nodes on a level."""
        if level == 0:
            return self.branching
        match self.shape:
            case "linear":
                return max(0.0, self.branching * (1 - level / self.depth))
            case "cyclic":
                if level > _CYCLES * self.depth:
                    return 0
                # the constant of the reference program, not math.pi
                return float(self.branching ** math.sin(2.0 * 3.141592653589793 * level / self.depth))
            case _:
                return float(self.branching * level ** (-math.log(self.branching) / math.log(self.depth)))

    def root(self) -> bytes:
        """Return the hash of the root, 20 bytes."""
        return root_hash(self.seed)

    def known_nodes(self) -> int | None:
        """Return the number of nodes if it is recorded, else None."""
        return _KNOWN_NODES.get((self.shape, self.depth, self.seed, self.branching))
