"""Arrays whose rows are spread over the places of a program, and what place 0 can have done with them."""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from types import BuiltinFunctionType
from typing import Any, Final, NamedTuple, SupportsIndex, TypeVar

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from apgas.arrays import layout as layouts
from apgas.arrays.block import Block, Held, Rows, read_only
from apgas.arrays.layout import Form, Layout, whole_number
from apgas.arrays.operations import (
    Operand,
    Operation,
    Part,
    Ranges,
    Reducing,
    Reduction,
    by_value,
    in_order,
    operations,
    reduced,
)
from apgas.arrays.spread import HeldRef, by_route, ranges_of, spread_of_program
from apgas.errors import UsageError
from apgas.runtime.api import async_at, finish, here
from apgas.runtime.driver import required_driver
from apgas.runtime.refs import PlaceLocal

T = TypeVar("T")

_COMPUTED_BYTES: Final = 1 << 16
"""How many bytes of elements a function computes at once: what it works with then fits a cache. From 128 KiB on, the
system would give each such array fresh memory, and to zero that takes as long as to compute the elements."""


class BlockArray:
    """An array of one dimension or two whose rows are spread over the places, each of which holds a block of them.

    Place 0 has the array, and says what is to be done with it; the rows are where they are. ``zeros``,
    ``from_function`` and ``from_array`` make one. Arrays with as many rows as one another, in blocks of the same kind,
    have them on the same places, at every moment.

    Attributes:
        shape: Of the whole array.
        dtype: Of its elements.
        block: How many rows a block has, if blocks are dealt to the places in turn; else 0, and each place has one.
        constant: Whether it is for reading only; see ``freeze``.

    Example:
        >>> from apgas import arrays
        >>> squares = arrays.from_function(lambda i: i * i, 10)
        >>> int(squares.sum()), int(squares.max()), squares.shape
        (285, 81, (10,))
    """

    def __init__(self, shape: tuple[int, ...], dtype: DTypeLike, block: int = 0) -> None:
        self.shape = shape
        self.dtype: np.dtype[Any] = np.dtype(dtype)
        self.block = block
        self.form = Form(shape[0], block)
        self.constant = False
        self._spread = spread_of_program()
        self.held: HeldRef = PlaceLocal(partial(Held, shape[1:], self.dtype))
        self._spread.add(self)

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return f"BlockArray({self.shape}, {self.dtype}, on {len(ranges_of(self.layout))} places)"

    def __reduce__(self) -> str:
        raise TypeError(f"{self} stays on place 0: give it to map_blocks, which hands its blocks to a function")

    @property
    def layout(self) -> Layout:
        """Which place holds which rows now."""
        return self._spread.layout(self.form)

    @property
    def local(self) -> NDArray[Any]:
        """The rows that place 0 holds: a view, until the rows move; a copy if they are dealt in blocks.

        It is for reading only where the array is constant, or arrays have copies: what is written to it would be lost
        with a place.
        """
        self._spread.await_updates()
        rows = self.held.get().local
        return read_only(rows) if self.constant or self._spread.copied else rows.view()

    def freeze(self) -> BlockArray:
        """Let the array be for reading only from now on, for good: a matrix, say, or what has been measured.

        In a resize its rows are copied while steps go on, and only those of other arrays move between two steps.
        Functions get its blocks for reading, and raise ``ValueError`` when they write to them.

        Returns:
            The array itself.

        Example:
            >>> from apgas import arrays
            >>> matrix = arrays.from_function(lambda i, j: i + j, (100, 100)).freeze()
            >>> matrix.constant, matrix.local.flags.writeable
            (True, False)
        """
        self._spread.await_updates()
        if self._spread.copied:
            self._spread.save()  # operations that have written to it must not have to be done again
        self.constant = True
        return self

    def halo(self, width: SupportsIndex, *, above: Any = 0, below: Any = 0) -> Halo:
        """Have ``map_blocks`` bring each block the rows of its neighbours: ``map_blocks(fn, array.halo(1))``.

        Args:
            width: How many rows, before the block and after it.
            above: What stands where rows before the first one would be: a number, or a row, or ``width`` rows.
            below: Likewise after the last one.

        Returns:
            What to give to ``map_blocks`` in place of the array; the block's ``padded`` then has these rows.

        Raises:
            UsageError: ``width`` is less than 1, or no whole number.

        Example:
            >>> from apgas import arrays
            >>> numbers = arrays.from_function(lambda i: i, 4)
            >>> padded = arrays.map_blocks(lambda block: block.padded, numbers.halo(1, above=-1, below=-2))
            >>> [int(rows[0]) for rows in padded][0], [int(rows[-1]) for rows in padded][-1]
            (-1, -2)
        """
        rows = whole_number(width, "the width of a halo is a whole number of rows")
        if rows < 1:
            raise UsageError(f"a halo has at least 1 row, not {width}")
        return Halo(self, rows, (above, below))

    def whole(self) -> Whole:
        """Have ``map_blocks`` bring every place all rows: ``map_blocks(fn, other, array.whole())``.

        Returns:
            What to give to ``map_blocks`` in place of the array; the function gets all elements, a NumPy array to read
            within the call, for the next one overwrites it. The array may have any number of rows.

        Example:
            >>> from apgas import arrays
            >>> numbers = arrays.from_function(lambda i: i, 10)
            >>> def rank(block, every):
            ...     return [int((every < value).sum()) for value in block.local]
            >>> sum(arrays.map_blocks(rank, numbers, numbers.whole()), [])
            [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
        """
        return Whole(self)

    def gather(self) -> NDArray[Any]:
        """Bring all rows together here.

        Returns:
            The whole array, a copy.

        Example:
            >>> from apgas import arrays
            >>> arrays.from_function(lambda i, j: 10 * i + j, (2, 3)).gather().tolist()
            [[0.0, 1.0, 2.0], [10.0, 11.0, 12.0]]
        """
        return np.concatenate(self._read(_apply, np.asarray))

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        """Gather, for ``np.asarray`` and others that take all that can become an array."""
        if copy is False:
            raise ValueError(f"{self} has its rows on several places: a NumPy array of them is a copy")
        return self.gather().astype(self.dtype if dtype is None else dtype, copy=False)

    def __array_ufunc__(self, ufunc: np.ufunc, *_: Any, **__: Any) -> Any:
        """Compute nothing with elements here: of ``np.sin(array)`` the result should be spread, too."""
        raise TypeError(
            f"np.{ufunc.__name__} does not work on {self}: have map_blocks call it where the blocks are "
            "(block.local), or give it array.gather()"
        )

    # reductions ------------------------------------------------------------------------------------------------------

    def sum(self, **options: object) -> Any:
        """Add all elements up, as ``np.sum`` does; how they are grouped, hence rounded, depends on the places."""
        return self._reduced(np.sum, options)

    def max(self, **options: object) -> Any:
        """Find the largest element, as ``np.max`` does; NaN if there is one."""
        return self._reduced(np.max, options)

    def min(self, **options: object) -> Any:
        """Find the smallest element, as ``np.min`` does; NaN if there is one."""
        return self._reduced(np.min, options)

    def norm(self) -> float:
        """Compute the square root of the sum of all elements' squares."""
        return float(np.linalg.norm(self._read(_apply, np.linalg.norm)))

    def _reduced(self, fn: Callable[..., Any], options: dict[str, object]) -> Any:
        """``fn`` of all elements: numpy's function of that name calls the method with its options, which are None."""
        if given := [name for name, value in options.items() if value is not None]:
            raise UsageError(f"{fn.__name__} of {self} is of all elements, without {', '.join(given)}: gather() it")
        return fn(self._read(_apply, fn))

    def _read(self, fn: Callable[..., T], *args: Any) -> list[T]:
        """``map_blocks`` with what changes nothing, so that it need not be done again after a loss."""
        return self._spread.carry_out(partial(_on_blocks, _Call.of(fn, (*args, self))), in_turn=True)

    def __matmul__(self, vector: BlockArray | ArrayLike) -> BlockArray:
        """Multiply an array of two dimensions with a vector, of which every place gets all.

        Raises:
            UsageError: The shapes do not fit.
        """
        vector = vector if isinstance(vector, BlockArray) else np.asarray(vector)
        if len(self.shape) != 2 or vector.shape != self.shape[1:]:
            raise UsageError(f"an array of shape {self.shape} cannot be multiplied with one of shape {vector.shape}")
        product = BlockArray(self.shape[:1], np.result_type(self.dtype, vector.dtype), self.block)
        map_blocks(_multiply, self, product, vector.whole() if isinstance(vector, BlockArray) else vector)
        return product


class Halo:
    """An array whose blocks are to come with rows of their neighbours: what ``BlockArray.halo`` returns."""

    def __init__(self, array: BlockArray, width: int, ends: tuple[Any, ...]) -> None:
        self.array = array
        self.width = width
        self.ends = ends


class Whole:
    """An array that is to come with all its rows: what ``BlockArray.whole`` returns."""

    def __init__(self, array: BlockArray) -> None:
        self.array = array
        self.width = None
        self.ends: tuple[Any, ...] = ()


# making arrays -------------------------------------------------------------------------------------------------------


def zeros(
    shape: SupportsIndex | tuple[SupportsIndex, ...], dtype: DTypeLike = np.float64, *, block: SupportsIndex = 0
) -> BlockArray:
    """(place 0) Make an array of zeros.

    Args:
        shape: Of one dimension or two; a number is that of a vector's elements.
        dtype: Of the elements.
        block: How many rows a block has: blocks are dealt to the places in turn (block-cyclic), so that a part of the
            rows, wherever it lies, is on all places. 0: each place has one block.

    Returns:
        The array, its rows spread over all places.

    Raises:
        UsageError: Not on place 0, or the shape is none of one or two dimensions with a row at least, or ``block`` is
            negative, or one of the numbers is no whole one.

    Example:
        >>> from apgas import arrays
        >>> arrays.zeros((4, 3)).gather().shape
        (4, 3)
        >>> def count(block):
        ...     return len(block.rows)
        >>> arrays.map_blocks(count, arrays.zeros(10, block=4))
        [4, 4, 2]
    """
    rows = whole_number(block, "block is a whole number of rows, or 0 for one block on each place")
    if rows < 0:
        raise UsageError(f"a block has 1 row at least, or is 0 for one block on each place; not {block}")
    says = "a shape is a whole number of rows, or a tuple of those of rows and columns"
    whole = tuple(whole_number(size, says, shape) for size in (shape if np.iterable(shape) else (shape,)))
    if len(whole) not in (1, 2) or whole[0] < 1 or min(whole) < 0:
        raise UsageError(f"an array has one dimension or two, and a row at least; its shape cannot be {shape}")
    return BlockArray(whole, dtype, rows)


def from_function(
    fn: Callable[..., Any],
    shape: SupportsIndex | tuple[SupportsIndex, ...],
    dtype: DTypeLike = np.float64,
    *,
    block: SupportsIndex = 0,
) -> BlockArray:
    """(place 0) Make an array whose elements are a function of their indices; each place computes its own.

    Args:
        fn: Gets an array of the indices of rows, and for two dimensions one of those of columns, with shapes ``(n, 1)``
            and ``(1, m)``; returns the elements, or what broadcasts to them. It is called for some rows at a time, and
            is sent as with ``async_at``.
        shape: As for ``zeros``.
        dtype: Of the elements.
        block: As for ``zeros``.

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
    array = zeros(shape, dtype, block=block)
    map_blocks(_compute, fn, array)
    return array


def from_array(values: Any, *, block: SupportsIndex = 0) -> BlockArray:
    """(place 0) Make an array of the elements of a NumPy array, or of what can become one.

    Args:
        values: It; each place gets its rows.
        block: As for ``zeros``.

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
    array = zeros(whole.shape, whole.dtype, block=block)
    spread_of_program().carry_out(partial(_scatter, array, whole), lambda: partial(_scatter, array, whole.copy()))
    return array


# work on blocks ------------------------------------------------------------------------------------------------------


def map_blocks(fn: Callable[..., T], *args: Any) -> list[T]:
    """(place 0) Run ``fn`` once for each block, where that is, and wait for all of them.

    Args:
        fn: It is sent as with ``async_at``. What it writes to blocks stays.
        *args: Its arguments. Of each array it gets the ``Block`` of its place; of ``array.halo(...)``, too, with the
            rows beside it; of ``array.whole()`` all elements. Of everything else it gets a copy. A place that has
            several blocks runs ``fn`` for one after the other.

    Returns:
        What ``fn`` returned, in the order of the blocks.

    Raises:
        UsageError: There is no array among the arguments, or they have not all the same number of rows and kind of
            blocks (but for those that come whole), or one comes with several halos, or this is not place 0.
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
    call = _Call.of(fn, args)
    return spread_of_program().carry_out(partial(_on_blocks, call), partial(_frozen, call), in_turn=True)


def reduce_blocks(fn: Callable[..., Any], *args: Any, op: Callable[[Any, Any], Any] = np.add, wait: bool = True) -> Any:
    """(place 0) Run ``fn`` once for each block, as ``map_blocks`` does, and reduce what it returns, in their order.

    Args:
        fn: Returns a number or an array, or a tuple of such, each of which is reduced by itself.
        *args: Its arguments.
        op: Combines two values.
        wait: False: go on meanwhile, as with ``update_blocks``. Solvers whose next step needs a sum over all blocks
            then run without waiting for place 0.

    Returns:
        The value, or a tuple of values; how sums are rounded depends on the places. If this does not wait: a
        ``Reduction``, to be an argument of later operations; its ``result()`` waits.

    Raises:
        UsageError: As for ``map_blocks``.
        ExceptionGroup: What ``fn`` raised, on one or more places.

    Example:
        >>> from apgas import arrays
        >>> numbers = arrays.from_function(lambda i: i, 10)
        >>> def moments(block):
        ...     return len(block.rows), block.local.sum(), (block.local**2).sum()
        >>> [float(value) for value in arrays.reduce_blocks(moments, numbers)]
        [10.0, 45.0, 285.0]
        >>> def scale(block, total):
        ...     block.local /= total
        >>> total = arrays.reduce_blocks(lambda block: block.local.sum(), numbers, wait=False)
        >>> arrays.update_blocks(scale, numbers, total)
        >>> float(total.result()), float(numbers.max())
        (45.0, 0.2)
    """
    spread = spread_of_program()
    if not wait and not spread.copied:
        operation = spread.update(lambda: _started(_Call.of(fn, args), wanted=False, op=op)[0])
        return Reduction(operation.reduced, operation)
    value = reduced(op, map_blocks(fn, *args))
    return value if wait else Reduction(lambda: value)


def update_blocks(fn: Callable[..., object], *args: Any) -> None:
    """(place 0) Run ``fn`` once for each block, as ``map_blocks`` does, and go on meanwhile.

    A place carries its updates out in their order, each as soon as the rows that it needs of others have come. So in a
    loop of updates places wait for their neighbours only, and not for place 0, which is a few updates ahead, 0.1 s at
    most. All else that is done with arrays comes after the updates before it, resizes too. Where arrays have copies
    (``redundancy=1``), this waits for the end, as ``map_blocks`` does.

    Args:
        fn: As for ``map_blocks``; what it returns is dropped.
        *args: As for ``map_blocks``.

    Raises:
        UsageError: As for ``map_blocks``.
        ExceptionGroup: An update before this one has failed. As with ``async_``, the finish around, at the latest the
            end of the program, raises that, too.

    Example:
        >>> from apgas import arrays
        >>> numbers = arrays.from_function(lambda i: i, 10)
        >>> def double(block):
        ...     block.local *= 2
        >>> for _ in range(3):
        ...     arrays.update_blocks(double, numbers)
        >>> float(numbers.sum())
        360.0
    """
    spread = spread_of_program()
    if spread.copied:
        map_blocks(fn, *args)
    else:
        spread.update(lambda: _started(_Call.of(fn, args), wanted=False)[0])


class _Call(NamedTuple):
    """A function, the arrays among its arguments, None for others, and the others, with the ends of arrays."""

    fn: Callable[..., Any]
    arrays: Sequence[Halo | Whole | None]
    given: Sequence[Any]

    @classmethod
    def of(cls, fn: Callable[..., Any], args: Sequence[Any]) -> _Call:
        while isinstance(fn, partial) and not fn.keywords:
            bound: partial[Any] = fn
            fn, args = bound.func, [*bound.args, *args]  # a function alone need not be sent for each operation
        arrays = [
            Halo(arg, 0, ()) if isinstance(arg, BlockArray) else arg if isinstance(arg, Halo | Whole) else None
            for arg in args
        ]
        return cls(fn, arrays, [arg if array is None else array.ends for array, arg in zip(arrays, args, strict=True)])


def _on_blocks(call: _Call) -> list[Any]:
    operation, layout = _started(call, wanted=True)
    operation.wait()
    return in_order((place for place, _, _ in layout.blocks()), operation.values())


def _started(call: _Call, *, wanted: bool, op: Callable[[Any, Any], Any] | None = None) -> tuple[Operation, Layout]:
    fn, arrays, given = call
    blocks = [each for each in arrays if isinstance(each, Halo)]
    layout = spread_of_program().layout(_common_form([each.array for each in blocks]))
    halos = [each.array for each in blocks if each.width]
    if len(set(halos)) < len(halos):
        raise UsageError("an operation takes an array with one halo: the widest has the rows of the others")
    driver = required_driver()
    known, known_op = driver.stable(fn), op if isinstance(op, np.ufunc | BuiltinFunctionType) else driver.stable(op)
    key = None if known is None or known_op is None is not op else (known, wanted, known_op, *map(_kind, arrays))
    used = (layout, *(each.array.layout for each in arrays if isinstance(each, Whole)))
    plan = operations.get().plan(key, used, partial(_parts, fn, arrays, layout, op, own_copy=not wanted))
    return operations.get().start(plan, given, arrays, wanted=wanted), layout


def _common_form(found: Sequence[BlockArray]) -> Form:
    forms = {array.form for array in found}
    if len({form.rows for form in forms}) != 1:
        rows = ", ".join(str(len(array)) for array in found) or "none"
        raise UsageError(f"an operation needs arrays with the same number of rows; there are {rows}")
    if len(forms) != 1:
        blocks = ", ".join(str(array.block) for array in found)
        raise UsageError(f"an operation needs arrays with blocks of the same kind; there are those of block={blocks}")
    return forms.pop()


def _kind(arg: Halo | Whole | None) -> object:
    """The same for arguments that have the same part in operations, but for what is given anew."""
    return None if arg is None else (weakref.ref(arg.array), arg.array.constant, arg.width)


def _parts(
    fn: Callable[..., object],
    arrays: Sequence[Halo | Whole | None],
    layout: Layout,
    op: Callable[[Any, Any], Any] | None,
    *,
    own_copy: bool,
) -> dict[int, Part]:
    owners = list(ranges_of(layout))
    sends: dict[int, dict[int, list[tuple[int, Ranges]]]] = {place: {} for place in owners}
    for number, arg in enumerate(arrays):
        moves: Iterable[layouts.Move] = ()
        if isinstance(arg, Halo):
            moves = layouts.halo(layout, arg.width)
        elif arg is not None:
            moves = layouts.everywhere(arg.array.layout, owners)
        for source, targets in by_route(moves).items():
            for target, ranges in targets.items():
                sends.setdefault(source, {}).setdefault(target, []).append((number, ranges))
    awaited = Counter(target for targets in sends.values() for target in targets)
    operands = [
        None if arg is None else Operand(arg.array.held, len(arg.array), arg.width, arg.array.constant)
        for arg in arrays
    ]
    # this place runs the function later, when variables may have changed that other places have a copy of
    own_fn = by_value(fn)() if own_copy else fn
    own, places = here().id, sorted(sends)
    reducing = None if op is None else Reducing(op, [place for place, _, _ in layout.blocks()])
    return {
        place: Part(own_fn if place == own else fn, operands, sends[place], awaited[place], reducing, places)
        for place in places
    }


def _frozen(call: _Call) -> Callable[[], object]:
    """The same call later, whatever becomes of its arguments."""
    copied = by_value((call.fn, [each.result() if isinstance(each, Reduction) else each for each in call.given]))

    def apply() -> list[Any]:
        fn, given = copied()
        return _on_blocks(_Call(fn, call.arrays, given))

    return apply


def _scatter(array: BlockArray, whole: Rows) -> None:
    with finish():
        for place, ranges in ranges_of(array.layout).items():
            async_at(place, _put, array.held, [(first, whole[first:end]) for first, end in ranges])


def _put(held: HeldRef, parts: list[tuple[int, Rows]]) -> None:
    for first, rows in parts:
        held.get().put(first, rows)


def _apply(fn: Callable[[Rows], T], block: Block) -> T:
    return fn(block.local)


def _compute(fn: Callable[..., Any], block: Block) -> None:
    at_once = max(1, _COMPUTED_BYTES // max(1, block.local[:1].nbytes))
    for first in range(0, len(block.rows), at_once):
        some = slice(first, first + at_once)
        part = Block(block.rows[some], block.local[some], block.local[some])
        part.local = fn(*part.indices)


def _multiply(matrix: Block, product: Block, vector: Rows) -> None:
    product.local = matrix.local @ vector
