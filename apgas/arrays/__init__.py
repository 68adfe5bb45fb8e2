"""Arrays over places that come and go: NumPy on every place, and the library moves the rows.

``array.py`` is what programs call, and ``operations.py`` carries it out; ``stepping.py`` lets the rows follow the
places between two steps. ``spread.py``, on place 0, knows which rows are where, and brings them back after a loss.
``layout.py`` plans who sends which rows to whom, and ``turns.py`` what a place does next; both are pure. ``block.py``
is what a place holds.
"""

from apgas.arrays.array import (
    BlockArray,
    Halo,
    Whole,
    from_array,
    from_function,
    map_blocks,
    reduce_blocks,
    update_blocks,
    zeros,
)
from apgas.arrays.block import Block
from apgas.arrays.operations import Reduction
from apgas.arrays.stepping import steps

__all__ = [
    "Block",
    "BlockArray",
    "Halo",
    "Reduction",
    "Whole",
    "from_array",
    "from_function",
    "map_blocks",
    "reduce_blocks",
    "steps",
    "update_blocks",
    "zeros",
]
