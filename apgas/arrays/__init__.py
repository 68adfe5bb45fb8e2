"""Arrays over places that come and go: NumPy on every place, and the library moves the rows.

``array.py`` is what programs call; ``stepping.py`` lets the rows follow the places between two steps. ``layout.py``,
which is pure, plans who sends which rows to whom, and ``block.py`` is what a place holds.
"""

from apgas.arrays.array import BlockArray, Halo, from_array, from_function, map_blocks, zeros
from apgas.arrays.block import Block
from apgas.arrays.stepping import steps

__all__ = ["Block", "BlockArray", "Halo", "from_array", "from_function", "map_blocks", "steps", "zeros"]
