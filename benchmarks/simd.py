"""Vectors of many lanes for numba kernels, as generic LLVM IR; importing this module needs numba.

LLVM lowers the IR to whatever the CPU has (16 lanes are one AVX-512 register, two of AVX2, four of SSE2 or NEON), so
kernels need neither a compiler nor a test of the CPU. An intrinsic is a Python function that emits the IR at the place
of a call, see ``emits``.

numba's cache watches the module of a kernel, not this one: after a change of what is emitted here, touch the modules
named ``vector``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, TypeAlias

import numba.extending
from llvmlite import binding, ir
from numba import types
from numba.core import cgutils, config
from numba.core.compiler_lock import global_compiler_lock

Value: TypeAlias = Any  # an ir.Value; llvmlite has no types
Builder: TypeAlias = Any

intrinsic: Any = numba.extending.intrinsic
"""numba's decorator; some versions have types for it that ask for the typing context at the place of a call."""


def emits(result: Any, *kinds: Any) -> Callable[[Callable[..., Value | None]], Any]:
    """Return the decorator of an intrinsic that takes and returns these types.

    What it decorates has the builder of the IR and a value for each argument, and returns a value, or None for void.
    """

    def decorate(emit: Callable[..., Value | None]) -> Any:
        def generate(context: Any, builder: Builder, _signature: Any, arguments: list[Value]) -> Value:
            value = emit(builder, *arguments)
            return context.get_dummy_value() if value is None else value

        @wraps(emit)  # numba finds the names of the arguments there
        def typed(_typing: Any, *_kinds: Any) -> Any:
            return result(*kinds), generate

        return intrinsic(typed)

    return decorate


WORD = ir.IntType(32)
_COMPRESS_LANES = 16
_COMPRESS = f"llvm.experimental.vector.compress.v{_COMPRESS_LANES}i32"


def has_wide_registers() -> bool:
    """Return whether the CPU that numba compiles for has registers of 16 words, and 32 of them (AVX-512)."""
    target: Any = config
    if target.CPU_FEATURES is not None:
        return "+avx512f" in target.CPU_FEATURES
    return target.CPU_NAME in (None, "host") and bool(binding.get_host_cpu_features().get("avx512f", False))


_address: Any = types.CPointer  # has no types


@emits(_address(types.int64), types.int64)
def stack_words(builder: Builder, count: Value) -> Value:
    """Return the address of ``count`` words of 64 bits on the stack, aligned to a cache line; not for use in a loop.

    A kernel that allocates nothing else needs none of numba when it runs, see ``harness.machine_code``.
    """
    words = builder.alloca(ir.IntType(64), size=count)
    words.align = 64
    return words


def pointer(builder: Builder, address: Value) -> Value:
    """Return the address, an integer, as a pointer to words."""
    return builder.inttoptr(address, WORD.as_pointer())


def _declare(builder: Builder, kind: Value, name: str) -> Value:
    return cgutils.get_or_insert_function(builder.module, kind, name)  # type: ignore[no-untyped-call]  # has no types


class Lanes:
    """Emits operations on vectors of 32-bit words.

    Args:
        count: Words per vector.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._vector = ir.VectorType(WORD, count)
        self._mask = ir.VectorType(ir.IntType(1), count)
        self._bits = ir.IntType(count)

    def constant(self, lanes: int | Sequence[int]) -> Value:
        """Return a constant vector; one number goes to all lanes."""
        values = [lanes] * self._count if isinstance(lanes, int) else lanes
        return ir.Constant(self._vector, [value & 0xFFFFFFFF for value in values])

    def splat(self, builder: Builder, word: Value) -> Value:
        """Return a vector with ``word`` in every lane."""
        undefined = ir.Constant(self._vector, ir.Undefined)
        first = builder.insert_element(undefined, word, ir.Constant(WORD, 0))
        return builder.shuffle_vector(first, undefined, self.constant(0))

    def load(self, builder: Builder, words: Value, offset: Value) -> Value:
        """Return the vector at ``words`` + ``offset`` words; any alignment will do."""
        place = builder.bitcast(builder.gep(words, [offset]), self._vector.as_pointer())
        return builder.load(place, align=4)

    def store(self, builder: Builder, vector: Value, words: Value, offset: Value) -> None:
        """Store the vector at ``words`` + ``offset`` words; any alignment will do."""
        place = builder.bitcast(builder.gep(words, [offset]), self._vector.as_pointer())
        builder.store(vector, place, align=4)

    def rotate_left(self, builder: Builder, vector: Value, bits: int) -> Value:
        """Return every lane rotated."""
        kind = ir.FunctionType(self._vector, [self._vector] * 3)
        shift = _declare(builder, kind, f"llvm.fshl.v{self._count}i32")
        return builder.call(shift, [vector, vector, self.constant(bits)])

    def popcount(self, builder: Builder, mask: Value) -> Value:
        """Return the number of lanes set in a mask, as a 64-bit integer."""
        kind = ir.FunctionType(self._bits, [self._bits])
        count = _declare(builder, kind, f"llvm.ctpop.i{self._count}")
        return builder.zext(builder.call(count, [builder.bitcast(mask, self._bits)]), ir.IntType(64))

    def compressor(self, builder: Builder) -> Callable[[Value, Value], Value]:
        """Return a function of vector and mask that moves the lanes of the mask to the front; see ``has_compress``."""
        kind = ir.FunctionType(self._vector, [self._vector, self._mask, self._vector])
        compress = _declare(builder, kind, f"llvm.experimental.vector.compress.v{self._count}i32")
        return lambda vector, mask: builder.call(compress, [vector, mask, ir.Constant(self._vector, ir.Undefined)])


def has_compress() -> bool:
    """Return whether this LLVM knows the compression of vectors; a kernel that uses it elsewhere ends the process.

    The intrinsic came with LLVM 19 and its name is experimental. Nothing is compiled to find out: LLVM attaches
    attributes to the declaration of an intrinsic that it knows, and none to an unknown name. Another thread may compile
    meanwhile, in the same context of LLVM, which is not made for that.
    """
    lanes = _COMPRESS_LANES
    with global_compiler_lock:
        module = binding.parse_assembly(
            f"declare <{lanes} x i32> @{_COMPRESS}(<{lanes} x i32>, <{lanes} x i1>, <{lanes} x i32>)"
        )
        return any(True for _ in module.get_function(_COMPRESS).attributes)
