"""Arrays whose rows are spread over the places of a program, and what place 0 can have done with them."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from apgas.arrays import layout as layouts
from apgas.arrays.block import Block, Held
from apgas.arrays.layout import Layout, Move
from apgas.core.identity import Place
from apgas.errors import UsageError
from apgas.runtime.api import async_at, finish, here, places
from apgas.runtime.context import Future
from apgas.runtime.driver import PlaceState
from apgas.runtime.refs import PlaceLocal

T = TypeVar("T")
_Held = PlaceLocal[Held]


class BlockArray:
    """An array of one dimension or two whose rows are spread over the places, each of which holds a block of them.

    Place 0 has the array, and says what is to be done with it; the rows are where they are. ``zeros``,
    ``from_function`` and ``from_array`` make one. Arrays with as many rows as one another have them on the same
    places, at every moment.

    Attributes:
        shape: Of the whole array.
        dtype: Of its elements.

    Example:
        >>> from apgas import arrays
        >>> squares = arrays.from_function(lambda i: i * i, 10)
        >>> int(squares.sum()), int(squares.max()), squares.shape
        (285, 81, (10,))
    """

    def __init__(self, shape: tuple[int, ...], dtype: DTypeLike) -> None:
        self.shape = shape
        self.dtype: np.dtype[Any] = np.dtype(dtype)
        self._spread = spread_of_program()
        self._held: _Held = PlaceLocal(partial(Held, shape[1:], self.dtype))
        self.operand = _Operand(self._held)
        self._spread.add(self, self._held)

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return f"BlockArray({self.shape}, {self.dtype}, on {len(list(self.layout.blocks()))} places)"

    def __reduce__(self) -> str:
        raise TypeError(f"{self} stays on place 0: give it to map_blocks, which hands its blocks to a function")

    @property
    def layout(self) -> Layout:
        """Which place holds which rows now."""
        return self._spread.layout(len(self))

    @property
    def local(self) -> NDArray[Any]:
        """The rows that place 0 holds: a view, until the rows move."""
        return self._held.get().local

    def halo(self, width: int, *, above: Any = 0, below: Any = 0) -> Halo:
        """Have ``map_blocks`` bring each block the rows of its neighbours: ``map_blocks(fn, array.halo(1))``.

        Args:
            width: How many rows, before the block and after it.
            above: What stands where rows before the first one would be: a number, or a row, or ``width`` rows.
            below: Likewise after the last one.

        Returns:
            What to give to ``map_blocks`` in place of the array; the block's ``padded`` then has these rows.

        Raises:
            UsageError: ``width`` is less than 1.

        Example:
            >>> from apgas import arrays
            >>> numbers = arrays.from_function(lambda i: i, 4)
            >>> padded = arrays.map_blocks(lambda block: block.padded, numbers.halo(1, above=-1, below=-2))
            >>> [int(rows[0]) for rows in padded][0], [int(rows[-1]) for rows in padded][-1]
            (-1, -2)
        """
        if width < 1:
            raise UsageError(f"a halo has at least 1 row, not {width}")
        return Halo(self, _Operand(self._held, width, above, below))

    def gather(self) -> NDArray[Any]:
        """Bring all rows together here.

        Returns:
            The whole array, a copy.

        Example:
            >>> from apgas import arrays
            >>> arrays.from_function(lambda i, j: 10 * i + j, (2, 3)).gather().tolist()
            [[0.0, 1.0, 2.0], [10.0, 11.0, 12.0]]
        """
        return np.concatenate(map_blocks(_rows_of, self))

    # reductions ------------------------------------------------------------------------------------------------------

    def sum(self) -> Any:
        """Add all elements up; how they are grouped, hence rounded, depends on the places."""
        return np.sum(map_blocks(_apply, np.sum, self))

    def max(self) -> Any:
        """Find the largest element; NaN if there is one."""
        return np.max(map_blocks(_apply, np.max, self))

    def min(self) -> Any:
        """Find the smallest element; NaN if there is one."""
        return np.min(map_blocks(_apply, np.min, self))

    def norm(self) -> float:
        """Compute the square root of the sum of all elements' squares."""
        return float(np.linalg.norm(map_blocks(_apply, np.linalg.norm, self)))

    def __matmul__(self, vector: BlockArray | NDArray[Any]) -> BlockArray:
        """Multiply an array of two dimensions with a vector, of which every place gets all.

        Raises:
            UsageError: The shapes do not fit.
        """
        if len(self.shape) != 2 or vector.shape != self.shape[1:]:
            raise UsageError(f"an array of shape {self.shape} cannot be multiplied with one of shape {vector.shape}")
        whole = vector.gather() if isinstance(vector, BlockArray) else vector
        product = BlockArray(self.shape[:1], np.result_type(self.dtype, whole.dtype))
        map_blocks(_multiply, self, product, whole)
        return product


class Halo:
    """An array whose blocks are to come with rows of their neighbours: what ``BlockArray.halo`` returns."""

    def __init__(self, array: BlockArray, operand: _Operand) -> None:
        self.array = array
        self.operand = operand


# making arrays -------------------------------------------------------------------------------------------------------


def zeros(shape: int | tuple[int, ...], dtype: DTypeLike = np.float64) -> BlockArray:
    """(place 0) Make an array of zeros.

    Args:
        shape: Of one dimension or two; a number is that of a vector's elements.
        dtype: Of the elements.

    Returns:
        The array, its rows spread over all places.

    Raises:
        UsageError: Not on place 0, or the shape is none of one or two dimensions with a row at least.

    Example:
        >>> from apgas import arrays
        >>> arrays.zeros((4, 3)).gather().shape
        (4, 3)
    """
    return BlockArray(_shape(shape), dtype)


def from_function(fn: Callable[..., Any], shape: int | tuple[int, ...], dtype: DTypeLike = np.float64) -> BlockArray:
    """(place 0) Make an array whose elements are a function of their indices; each place computes its own.

    Args:
        fn: Gets an array of the indices of rows, and for two dimensions one of those of columns, with shapes ``(n, 1)``
            and ``(1, m)``; returns the elements, or what broadcasts to them. It is sent as with ``async_at``.
        shape: As for ``zeros``.
        dtype: Of the elements.

    Returns:
        The array.

    Raises:
        UsageError: As for ``zeros``.
        ExceptionGroup: What ``fn`` raised, on one or more places.

    Example:
        >>> from apgas import arrays
        >>> arrays.from_function(lambda i, j: i == j, (2, 2), bool).gather().tolist()
        [[True, False], [False, True]]
    """
    array = zeros(shape, dtype)
    map_blocks(_compute, fn, array)
    return array


def from_array(values: Any) -> BlockArray:
    """(place 0) Make an array of the elements of a NumPy array, or of what can become one.

    Args:
        values: It; each place gets its rows.

    Returns:
        The array, a copy.

    Raises:
        UsageError: Not on place 0, or it has not one or two dimensions, or no row.

    Example:
        >>> from apgas import arrays
        >>> float(arrays.from_array([3.0, 4.0]).norm())
        5.0
    """
    whole = np.asarray(values)
    array = zeros(whole.shape, whole.dtype)
    with finish():
        for place, first, end in array.layout.blocks():
            async_at(place, _put, array.operand.held, whole[first:end])
    return array


def _shape(shape: int | Sequence[int]) -> tuple[int, ...]:
    whole = (shape,) if isinstance(shape, int) else tuple(shape)
    if len(whole) not in (1, 2) or whole[0] < 1 or min(whole) < 0:
        raise UsageError(f"an array has one dimension or two, and a row at least; its shape cannot be {shape}")
    return whole


# work on blocks ------------------------------------------------------------------------------------------------------


def map_blocks(fn: Callable[..., T], *args: Any) -> list[T]:
    """(place 0) Run ``fn`` once for each block, where that is, and wait for all of them.

    Args:
        fn: It is sent as with ``async_at``. What it writes to blocks stays.
        *args: Its arguments. Of each array it gets the ``Block`` of its place; of ``array.halo(...)``, too, with the
            rows beside it. Of everything else it gets a copy.

    Returns:
        What ``fn`` returned, in the order of the blocks.

    Raises:
        UsageError: There is no array among the arguments, or they have not all the same number of rows, or one comes
            with several halos, or this is not place 0.
        ExceptionGroup: What ``fn`` raised, on one or more places.

    Example:
        >>> from apgas import arrays
        >>> numbers = arrays.from_function(lambda i: i, 10)
        >>> def double(block, by):
        ...     block.local *= by
        ...     return len(block.rows)
        >>> sum(arrays.map_blocks(double, numbers, 2)), float(numbers.sum())
        (10, 90.0)
    """
    layout = _common_layout([arg.array if isinstance(arg, Halo) else arg for arg in args])
    sent = [arg.operand if isinstance(arg, BlockArray | Halo) else arg for arg in args]
    halos = [operand for operand in sent if isinstance(operand, _Operand) and operand.width]
    if len({id(each.held) for each in halos}) < len(halos):
        raise UsageError("map_blocks takes an array with one halo: the widest has the rows of the others")
    if halos:
        _exchange(halos, layout)
    futures: list[Future[T]] = []
    with finish():
        futures += [async_at(place, _run, fn, sent, layout.rows) for place, _, _ in layout.blocks()]
    return [future.result() for future in futures]


def _common_layout(args: list[Any]) -> Layout:
    found = [arg for arg in args if isinstance(arg, BlockArray)]
    if len({len(array) for array in found}) != 1:
        rows = ", ".join(str(len(array)) for array in found) or "none"
        raise UsageError(f"map_blocks needs arrays with the same number of rows; there are {rows}")
    return found[0].layout


class _Operand:
    """An array among the arguments, as it travels."""

    def __init__(self, held: _Held, width: int = 0, above: Any = 0, below: Any = 0) -> None:
        self.held = held
        self.width = width
        self.ends = above, below

    def block(self, total: int) -> Block:
        """(its place) The rows here, of ``total``."""
        held = self.held.get()
        if self.width:
            held.fill_ends(self.width, total, *self.ends)
        return held.block(self.width)


def _run(fn: Callable[..., T], args: list[Any], total: int) -> T:
    for arg in args:
        if isinstance(arg, _Operand):
            arg.held.get().reserve(arg.width)  # before any block is handed out: rows may move for it
    return fn(*(arg.block(total) if isinstance(arg, _Operand) else arg for arg in args))


def _exchange(halos: list[_Operand], layout: Layout) -> None:
    """Bring every block the rows beside it."""
    with finish():
        for each in halos:
            for source, sends in _by_source(layouts.halo(layout, each.width)).items():
                async_at(source, _send_halo, each.held, each.width, sends)


def _send_halo(held: _Held, width: int, sends: list[Move]) -> None:
    for _, target, first, end in sends:
        async_at(target, _take_halo, held, width, first, held.get().part(first, end))


def _take_halo(held: _Held, width: int, first: int, rows: NDArray[Any]) -> None:
    held.get().take_halo(width, first, rows)


def _by_source(moves: list[Move]) -> dict[int, list[Move]]:
    found: dict[int, list[Move]] = {}
    for move in moves:
        found.setdefault(move.source, []).append(move)
    return found


def _rows_of(block: Block) -> NDArray[Any]:
    return block.local


def _apply(fn: Callable[[NDArray[Any]], T], block: Block) -> T:
    return fn(block.local)


def _put(held: _Held, rows: NDArray[Any]) -> None:
    held.get().local[:] = rows


def _compute(fn: Callable[..., Any], block: Block) -> None:
    indices = np.ogrid[block.rows.start : block.rows.stop, : block.local.shape[-1]]
    block.local = fn(*indices) if block.local.ndim == 2 else fn(np.arange(block.rows.start, block.rows.stop))


def _multiply(matrix: Block, product: Block, vector: NDArray[Any]) -> None:
    product.local = matrix.local @ vector


# the layouts of a program's arrays -----------------------------------------------------------------------------------


class Spread:
    """(place 0) The arrays of the program, and over which places they are spread."""

    def __init__(self) -> None:
        self._places = [place.id for place in places()]
        self._layouts: dict[int, Layout] = {}
        self._held: weakref.WeakKeyDictionary[BlockArray, _Held] = weakref.WeakKeyDictionary()

    def layout(self, rows: int) -> Layout:
        """That of all arrays with ``rows`` rows."""
        return self._layouts.setdefault(rows, Layout.even(rows, self._places))

    def add(self, array: BlockArray, held: _Held) -> None:
        """Let every place make its rows of an array."""
        with finish():
            for place, first, end in self.layout(len(array)).blocks():
                async_at(place, _settle, held, first, end)
        self._held[array] = held

    def over(self, wanted: Sequence[Place]) -> None:
        """Spread all arrays over other places; until all rows have come, all stays as it was.

        Raises:
            ExceptionGroup: Rows could not be sent; all have theirs as before.
        """
        new_places = [place.id for place in wanted]
        new = {rows: layouts.rebalanced(layout, new_places) for rows, layout in self._layouts.items()}
        moving = [(held, self._layouts[len(array)], new[len(array)]) for array, held in self._held.items()]
        try:
            with finish():
                for held, old_layout, new_layout in moving:
                    blocks = {place: (first, end) for place, first, end in new_layout.blocks()}
                    for source, sends in _by_source(layouts.moves(old_layout, new_layout)).items():
                        async_at(source, _send_rows, held, [(move, *blocks[move.target]) for move in sends])
        except BaseException:
            self._settle(moving, forget=True)
            raise
        self._settle(moving)
        self._places, self._layouts = new_places, new

    def _settle(self, moving: Sequence[tuple[_Held, Layout, Layout]], *, forget: bool = False) -> None:
        with finish():
            for held, old, new in moving:
                blocks = dict.fromkeys(old.owners, (0, 0)) | {place: (first, end) for place, first, end in new.blocks()}
                for place, block in blocks.items():
                    async_at(place, *((_forget, held) if forget else (_settle, held, *block)))


def spread_of_program() -> Spread:
    """The one of the program.

    Raises:
        UsageError: Not on place 0.
    """
    if here().id != 0:
        raise UsageError(f"arrays are made and used on place 0, not on {here()}; map_blocks runs code where rows are")
    return _spread.get()


_spread: Final = PlaceState(Spread)


def _send_rows(held: _Held, sends: list[tuple[Move, int, int]]) -> None:
    for (_, target, first, end), new_first, new_end in sends:
        async_at(target, _take_rows, held, new_first, new_end, first, held.get().part(first, end))


def _take_rows(held: _Held, new_first: int, new_end: int, first: int, rows: NDArray[Any]) -> None:
    held.get().take(new_first, new_end, first, rows)


def _settle(held: _Held, first: int, end: int) -> None:
    held.get().settle(first, end)


def _forget(held: _Held) -> None:
    held.get().forget()
