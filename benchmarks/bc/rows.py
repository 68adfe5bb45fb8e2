"""Rows of sixteen doubles as values of numba kernels, in vector registers; importing this module needs numba.

A row is a value like a number: a sum of rows that a loop makes stays in registers, where an array of sixteen numbers
would go through memory at each step. It is two registers of AVX-512, four of AVX2, eight of SSE2 or NEON; LLVM sees to
that. A mask has one bit a lane.

With ``NUMBA_DISABLE_JIT=1``, which is for looking into kernels, rows are arrays of NumPy.

numba's cache watches the module of a kernel, not this one: after a change here, touch ``vector.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import config
from numba.extending import models, register_model
from numpy.typing import NDArray

from ..simd import Builder, Value, emits, intrinsic
from .kernel import LANES

_NUMBER, _WORD = ir.DoubleType(), ir.IntType(64)
_ROW = ir.VectorType(_NUMBER, LANES)


class _Row(types.Type):
    def __init__(self) -> None:
        super().__init__(name="Row")


@register_model(_Row)
class _RowModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _ROW)  # type: ignore[no-untyped-call]  # has no types


_row = _Row()


def _or_plain(plain: Callable[..., Any], compiled: Callable[[Any], Any] = intrinsic) -> Callable[[Any], Any]:
    """Return the decorator of a function that emits code, for which ``plain`` stands in where nothing is compiled."""
    compiles: Any = config  # has no types
    return (lambda _emitter: plain) if compiles.DISABLE_JIT else compiled


def _place(context: Any, builder: Builder, signature: Any, rows: Value, index: Value) -> Value:
    """Return the address of a row in a table."""
    first = context.make_array(signature.args[0])(context, builder, rows).data
    word = builder.mul(index, ir.Constant(_WORD, LANES))
    return builder.bitcast(builder.gep(first, [word]), _ROW.as_pointer())


def _choice(builder: Builder, mask: Value) -> Value:
    return builder.bitcast(mask, ir.VectorType(ir.IntType(1), LANES))


def _spread(value: float) -> Value:
    return ir.Constant(_ROW, [value] * LANES)


@_or_plain(lambda rows, index: rows[index].copy())
def load(_typing: Any, rows: Any, _index: Any) -> Any:
    """Return row ``index`` of a table."""

    def emit(context: Any, builder: Builder, signature: Any, arguments: list[Value]) -> Value:
        return builder.load(_place(context, builder, signature, *arguments), align=8)

    return _row(rows, types.uint64), emit


@_or_plain(lambda rows, index, value: np.copyto(rows[index], value))
def store(_typing: Any, rows: Any, _index: Any, _value: Any) -> Any:
    """Set row ``index`` of a table."""

    def emit(context: Any, builder: Builder, signature: Any, arguments: list[Value]) -> Value:
        rows, index, value = arguments
        builder.store(value, _place(context, builder, signature, rows, index), align=8)
        return context.get_dummy_value()

    return types.void(rows, types.uint64, _row), emit


@_or_plain(lambda number: np.full(LANES, number), emits(_row, types.float64))
def fill(builder: Builder, number: Value) -> Value:
    """Return a row with the number in each lane."""
    undefined = ir.Constant(_ROW, ir.Undefined)
    first = builder.insert_element(undefined, number, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(first, undefined, ir.Constant(ir.VectorType(ir.IntType(32), LANES), None))


def _of_two(instruction: str, plain: Callable[..., Any]) -> Callable[[Any, Any], Any]:
    """Return the function that does an instruction of LLVM in each lane."""

    @_or_plain(np.errstate(all="ignore")(plain), emits(_row, _row, _row))
    def combined(builder: Builder, left: Value, right: Value) -> Value:
        return getattr(builder, instruction)(left, right)

    function: Callable[[Any, Any], Any] = combined
    return function


add = _of_two("fadd", lambda left, right: left + right)
multiply = _of_two("fmul", lambda left, right: left * right)
divide = _of_two("fdiv", lambda left, right: left / right)


def _lanes(mask: int) -> NDArray[np.bool_]:
    lanes: NDArray[np.bool_] = (int(mask) >> np.arange(LANES)) & 1 == 1
    return lanes


@_or_plain(lambda mask, chosen, others: np.where(_lanes(mask), chosen, others), emits(_row, types.uint16, _row, _row))
def choose(builder: Builder, mask: Value, chosen: Value, others: Value) -> Value:
    """Return the first row in the lanes of the mask, the second one in the others."""
    return builder.select(_choice(builder, mask), chosen, others)


@_or_plain(
    lambda mask, row: int(np.where(_lanes(mask), row + 0.5, 0.0).astype(np.int64).sum()),
    emits(types.int64, types.uint16, _row),
)
def rounded_sum(builder: Builder, mask: Value, row: Value) -> Value:
    """Return the sum of the numbers in the lanes of the mask, each rounded half up; they are not negative."""
    shifted = builder.select(_choice(builder, mask), builder.fadd(row, _spread(0.5)), _spread(0.0))
    words, count = builder.fptosi(shifted, ir.VectorType(_WORD, LANES)), LANES
    while count > 1:  # halves onto each other
        count //= 2
        kind = ir.VectorType(ir.IntType(32), count)
        low, high = (ir.Constant(kind, list(range(k, k + count))) for k in (0, count))
        words = builder.add(builder.shuffle_vector(words, words, low), builder.shuffle_vector(words, words, high))
    return builder.extract_element(words, ir.Constant(ir.IntType(32), 0))


@_or_plain(lambda: None, emits(types.void))
def rolled(builder: Builder) -> None:
    """Keep LLVM from unrolling the loop around."""
    empty = ir.InlineAsm(ir.FunctionType(ir.VoidType(), ()), "", "", side_effect=True)
    builder.call(empty, (), attrs=("convergent", "readnone", "nounwind"))
