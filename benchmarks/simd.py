"""Vectors of 16 lanes for numba kernels, as generic LLVM IR; importing this module needs numba.

LLVM lowers the IR to whatever the CPU has (one AVX-512 register, two of AVX2, four of SSE2 or NEON), so kernels need
neither a compiler nor a test of the CPU. An intrinsic is a Python function that emits the IR at the place of a call.

numba's cache watches the module of a kernel, not this one: after a change of what is emitted here, touch the modules
named ``vector``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numba.extending
from llvmlite import binding, ir
from numba.core import cgutils
from numba.core.compiler_lock import global_compiler_lock

LANES = 16

Value: TypeAlias = Any  # an ir.Value; llvmlite has no types
Builder: TypeAlias = Any

intrinsic: Any = numba.extending.intrinsic
"""numba's decorator; some versions have types for it that ask for the typing context at the place of a call."""

WORD = ir.IntType(32)
VECTOR = ir.VectorType(WORD, LANES)
MASK = ir.VectorType(ir.IntType(1), LANES)
_BITS = ir.IntType(LANES)
_COMPRESS = f"llvm.experimental.vector.compress.v{LANES}i32"


def constant(lanes: int | Sequence[int]) -> Value:
    """Return a constant vector; one number goes to all lanes."""
    values = [lanes] * LANES if isinstance(lanes, int) else lanes
    return ir.Constant(VECTOR, [value & 0xFFFFFFFF for value in values])


def splat(builder: Builder, word: Value) -> Value:
    """Return a vector with ``word`` in every lane."""
    undefined = ir.Constant(VECTOR, ir.Undefined)
    first = builder.insert_element(undefined, word, ir.Constant(WORD, 0))
    return builder.shuffle_vector(first, undefined, constant(0))


def pointer(builder: Builder, address: Value) -> Value:
    """Return the address, an integer, as a pointer to words."""
    return builder.inttoptr(address, WORD.as_pointer())


def load(builder: Builder, words: Value, offset: Value) -> Value:
    """Return the vector at ``words`` + ``offset`` words; any alignment will do."""
    place = builder.bitcast(builder.gep(words, [offset]), VECTOR.as_pointer())
    return builder.load(place, align=4)


def store(builder: Builder, vector: Value, words: Value, offset: Value) -> None:
    """Store the vector at ``words`` + ``offset`` words; any alignment will do."""
    place = builder.bitcast(builder.gep(words, [offset]), VECTOR.as_pointer())
    builder.store(vector, place, align=4)


def _declare(builder: Builder, kind: Value, name: str) -> Value:
    return cgutils.get_or_insert_function(builder.module, kind, name)  # type: ignore[no-untyped-call]


def rotate_left(builder: Builder, vector: Value, bits: int) -> Value:
    """Return every lane rotated."""
    kind = ir.FunctionType(VECTOR, [VECTOR] * 3)
    shift = _declare(builder, kind, f"llvm.fshl.v{LANES}i32")
    return builder.call(shift, [vector, vector, constant(bits)])


def popcount(builder: Builder, mask: Value) -> Value:
    """Return the number of lanes set in a mask, as a 64-bit integer."""
    kind = ir.FunctionType(_BITS, [_BITS])
    count = _declare(builder, kind, f"llvm.ctpop.i{LANES}")
    return builder.zext(builder.call(count, [builder.bitcast(mask, _BITS)]), ir.IntType(64))


def any_lane(builder: Builder, mask: Value) -> Value:
    """Return whether a lane is set in a mask."""
    return builder.icmp_unsigned("!=", builder.bitcast(mask, _BITS), ir.Constant(_BITS, 0))


def compressor(builder: Builder) -> Callable[[Value, Value], Value]:
    """Return a function of vector and mask that moves the lanes of the mask to the front; see ``has_compress``."""
    kind = ir.FunctionType(VECTOR, [VECTOR, MASK, VECTOR])
    compress = _declare(builder, kind, _COMPRESS)
    return lambda vector, mask: builder.call(compress, [vector, mask, ir.Constant(VECTOR, ir.Undefined)])


def has_compress() -> bool:
    """Tell whether this LLVM knows the compression of vectors; a kernel that uses it elsewhere ends the process.

    The intrinsic came with LLVM 19 and its name is experimental. Nothing is compiled to find out: LLVM attaches
    attributes to the declaration of an intrinsic that it knows, and none to an unknown name. Another thread may compile
    meanwhile, in the same context of LLVM, which is not made for that.
    """
    with global_compiler_lock:
        module = binding.parse_assembly(
            f"declare <{LANES} x i32> @{_COMPRESS}(<{LANES} x i32>, <{LANES} x i1>, <{LANES} x i32>)"
        )
        return any(True for _ in module.get_function(_COMPRESS).attributes)
