"""Compiled kernels kept as machine code, for places that load them without the compiler.

A place that imports numba to load what is compiled already takes some 120 MB and 0.3 s of CPU time for a compiler that
it does not use. So the process that has compiled a module of kernels also links what numba made of them into an image:
the sections of the object files one after the other, and where an address is to be put in. Loading one is a mapping, a
copy and a few additions, in the standard library. Whatever is not as expected is left to numba: another format or
machine, code that calls anything but ``memcpy`` and the like (so kernels allocate nothing), a folder that others can
write.

Images are keyed by the sources, the versions of Python, numba and LLVM, numba's settings and the CPU with its features.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib
import importlib.util
import json
import mmap
import os
import stat
import struct
import sys
import tempfile
import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import chain, count
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, NamedTuple

from .jit import is_writable, setup_cache, user_cache

_FOLDER: Final = "malleable-apgas-kernels"
_MAGIC: Final = b"malleable-apgas kernels 1\n"
_MOST_KEPT: Final = 16
"""Images of a module in a folder; the oldest make room, for every change of a source makes another."""
_NUMBERS: Final = {"int64": "q", "uint64": "Q", "int32": "i", "uint32": "I", "float64": "d", "bool": "?"}
"""As ``struct`` calls them."""
_WORD: Final = 8


def load_kernels(module: str) -> Any:
    """Return what a module of kernels offers: the module, or, without numba, what an earlier process kept of it.

    Args:
        module: Dotted name. Its public functions that numba compiles have one signature each, with arrays in C order
            and numbers, and its public numbers and texts are constants.

    Returns:
        An object with the functions, which release the GIL, and the constants as attributes.
    """
    key = _key(module)
    if key is not None:
        with suppress(OSError, _Unusable):
            return _loaded(*_found(f"{module}-{key}"))
    setup_cache()
    found = importlib.import_module(module)
    if key is not None:
        with suppress(_Unusable):
            description, code = _linked(found)
            _keep(module, f"{module}-{key}", json.dumps(description).encode() + b"\n" + code)
    return found


class _Unusable(Exception):
    """There is no image, or none can be made; the text says why."""


def _key(module: str) -> str | None:
    """Return a hash of all that the machine code depends on; None where images are not for this machine."""
    if sys.platform != "linux" or os.uname().machine != "x86_64" or sys.implementation.name != "cpython":
        return None
    own = importlib.util.find_spec(module)
    tools = [importlib.util.find_spec(name) for name in ("numba", "llvmlite")]
    origins = [Path(spec.origin) for spec in (own, *tools) if spec is not None and spec.origin is not None]
    if len(origins) != 3:
        return None
    folder = origins[0].parent
    sources = sorted(chain(folder.glob("*.py"), folder.parent.glob("*.py"), Path(__file__).parent.glob("*.py")))
    digest = hashlib.sha256(repr((module, sys.version, _settings())).encode())
    try:
        for path in (*sources, *(origin.with_name("_version.py") for origin in origins[1:])):
            digest.update(hashlib.sha256(path.read_bytes()).digest())
        with Path("/proc/cpuinfo").open(encoding="ascii", errors="replace") as processors:
            for line in iter(processors.readline, "\n"):  # the first one
                if line.startswith(("vendor_id", "cpu family", "model", "stepping", "flags")):
                    digest.update(line.encode())
                elif not line:
                    break
    except OSError:
        return None
    return digest.hexdigest()[:32]


def _settings() -> list[tuple[str, str]]:
    """Return the settings of numba, except where it keeps its files."""
    return sorted(item for item in os.environ.items() if item[0].startswith("NUMBA_") and item[0] != "NUMBA_CACHE_DIR")


# Where images are kept: folders of the user's own, that others cannot write ------------------------------------------


def _folders() -> list[Path]:
    """Return where images may be, the best place first."""
    if chosen := os.environ.get("NUMBA_CACHE_DIR"):
        return [Path(chosen) / _FOLDER]
    temporary = Path(tempfile.gettempdir()) / f"{_FOLDER}-{os.getuid()}"
    return [Path(__file__).parents[1] / "__pycache__" / _FOLDER, user_cache() / _FOLDER, temporary]


@contextmanager
def _opened(folder: Path) -> Iterator[Path]:
    """Open a folder of images; the path that is yielded leads to this one, whatever becomes of its name.

    Raises:
        OSError: It cannot be opened.
        _Unusable: It is not the user's own, or others can look into it.
    """
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if not _is_ours(opened, 0o077):
            raise _Unusable(f"{folder} is not one's own")
        yield Path(f"/proc/self/fd/{opened}")
    finally:
        os.close(opened)


def _is_ours(file: int, forbidden: int) -> bool:
    status = os.fstat(file)
    return status.st_uid == os.getuid() and not status.st_mode & forbidden


def _found(name: str) -> tuple[dict[str, Any], bytes]:
    """Return the description and the code of an image.

    Raises:
        _Unusable: There is none that can be trusted and is whole.
    """
    for folder in _folders():
        with suppress(OSError, _Unusable), _opened(folder) as opened:
            return _read(opened / name)
    raise _Unusable("there is no image")


def _read(path: Path) -> tuple[dict[str, Any], bytes]:
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode) or not _is_ours(file.fileno(), 0o022):
            raise _Unusable("not a file of one's own")
        content = file.read()
    head = len(_MAGIC) + hashlib.sha256().digest_size
    if content[:head] != _MAGIC + hashlib.sha256(content[head:]).digest():
        raise _Unusable("damaged")
    description, _, code = content[head:].partition(b"\n")
    return json.loads(description), code


def _keep(module: str, name: str, content: bytes) -> None:
    """Write an image, at once and whole, where that is possible first, if anywhere; the oldest make room."""
    for folder in _folders():
        if is_writable(folder):
            with suppress(OSError, _Unusable):
                folder.parent.mkdir(parents=True, exist_ok=True)
                folder.mkdir(mode=0o700, exist_ok=True)
                with _opened(folder) as opened:
                    unfinished = opened / f"{name}.{os.getpid()}"
                    try:
                        unfinished.touch(0o600, exist_ok=False)
                        unfinished.write_bytes(_MAGIC + hashlib.sha256(content).digest() + content)
                        unfinished.replace(opened / name)
                    finally:
                        unfinished.unlink(missing_ok=True)
                    for old in sorted(opened.glob(f"{module}-*"), key=_age)[:-_MOST_KEPT]:
                        old.unlink(missing_ok=True)
                return


def _age(path: Path) -> tuple[float, str]:
    return path.stat().st_mtime, path.name


# Loading: a mapping that is written, then executable, never both -----------------------------------------------------


def _loaded(description: dict[str, Any], code: bytes) -> SimpleNamespace:
    memory = mmap.mmap(-1, len(code), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory[:] = code
    base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    libc = ctypes.CDLL(None, use_errno=True)
    for at, target in description["inner"]:
        struct.pack_into("<Q", memory, at, base + target)
    for at, name in description["outer"]:
        struct.pack_into("<Q", memory, at, ctypes.cast(getattr(libc, _CALLABLE[name]), ctypes.c_void_p).value)
    if libc.mprotect(ctypes.c_void_p(base), ctypes.c_size_t(len(code)), mmap.PROT_READ | mmap.PROT_EXEC):
        raise OSError(ctypes.get_errno(), "machine code cannot be made executable")
    functions = {
        name: _function(name, memory, base + kernel, base + entry, arguments, result)
        for name, (kernel, entry, arguments, result) in description["functions"].items()
    }
    return SimpleNamespace(**description["constants"], **functions)


_CALL: Final = """
def call(*arguments):
    if len(arguments) != {count}:
        raise TypeError(f"{name} takes {count} arguments, not {{len(arguments)}}")
    [{arguments}] = arguments
    words, address, last = block.parts
    if {others}:
        take_apart([{arrays}], words, last)
    try:
        pack(words, word, {numbers})
    except error as wrong:
        raise TypeError(f"{name} was compiled for other numbers: {{wrong}}") from wrong
    if run(address):
        raise RuntimeError("{name} failed in compiled code; NUMBA_DISABLE_JIT=1 shows why")
    return unpack(words, {result_at}){member}
"""
"""Written for its arguments: one function for all would go through them several times, and take twice as long."""


def _function(
    name: str, memory: mmap.mmap, kernel: int, entry: int, arguments: list[str], result: str | list[str]
) -> Any:
    """Return one function of an image, which releases the GIL and is called with a block of words, see ``_entry``.

    Args:
        name: Its name.
        memory: The image, which lives as long as the function.
        kernel: Where what was compiled begins.
        entry: Where that begins which takes the block.
        arguments: "uint32 3" for an array of three dimensions, "int64" for a number.
        result: The numbers in the result, a list if it is a tuple.
    """
    import numpy as np

    numbers = {f"a{i}": f"{_NUMBERS[kind]}0q" for i, kind in enumerate(arguments) if " " not in kind}
    arrays = {f"a{i}": kind.split() for i, kind in enumerate(arguments) if " " in kind}
    kinds = [(np.dtype(kind), int(dimensions)) for kind, dimensions in arrays.values()]
    pack = struct.Struct("".join(numbers.values()))
    unpack = struct.Struct("".join(_NUMBERS[kind] for kind in ([result] if isinstance(result, str) else result)))
    parts = struct.Struct(f"{sum(_ARRAY_PARTS + 2 * dimensions for _, dimensions in kinds)}q")
    parts_at = _WORD + pack.size
    result_at = parts_at + parts.size

    def take_apart(arrays: list[Any], words: Any, last: list[Any]) -> None:
        values: list[int] = []
        for array, kind in zip(arrays, kinds, strict=True):
            # writeable and aligned, too
            if (array.dtype, array.ndim) != kind or not array.flags.carray:
                raise TypeError(f"{name} was compiled for an array of {kind[0]} with {kind[1]} dimensions in C order")
            values += (0, 0, array.size, array.itemsize, array.ctypes.data, *array.shape, *array.strides)
        parts.pack_into(words, parts_at, *values)
        last[:] = arrays

    made: dict[str, Any] = {
        "memory": memory,
        "block": _Block(kernel, result_at + unpack.size, len(arrays)),
        "take_apart": take_apart,
        "pack": pack.pack_into,
        "error": struct.error,
        "word": _WORD,
        "run": ctypes.CFUNCTYPE(ctypes.c_int32)(entry),
        "unpack": unpack.unpack_from,
    }
    source = _CALL.format(
        name=name,
        count=len(arguments),
        arguments=", ".join(f"a{i}" for i in range(len(arguments))),
        # mostly they are those of the call before, and to take them to pieces takes longer than to call
        others=" or ".join(f"{array} is not last[{i}]" for i, array in enumerate(arrays)) or "False",
        arrays=", ".join(arrays),
        numbers=", ".join(numbers),
        result_at=result_at,
        member="[0]" if isinstance(result, str) else "",
    )
    exec(source, made)
    return made["call"]


class _Block(threading.local):
    """What a thread calls a kernel with: words, their address, and the arrays whose parts are in them."""

    def __init__(self, kernel: int, size: int, arrays: int):
        words = (ctypes.c_int64 * -(-size // _WORD))(kernel)
        self.parts = words, ctypes.byref(words), [None] * arrays


_ARRAY_PARTS: Final = 5
"""Two owners, which kernels do not need; numbers of elements and bytes of each, address; then shape and strides."""


# Linking: what numba has compiled becomes an image -------------------------------------------------------------------

_CALLABLE: Final = {
    "memcpy": "memcpy",
    "memmove": "memmove",
    "memset": "memset",
    "NRT_MemInfo_call_dtor": "abort",  # who owns an array is not passed, so its count never falls to zero
}
"""What kernels may call, by what."""


def _linked(module: Any) -> tuple[dict[str, Any], bytes]:
    """Return the description of an image, and its code.

    Raises:
        _Unusable: A kernel is not of the kind that can be linked.
    """
    from numba.core.dispatcher import Dispatcher

    image = _Image()
    constants: dict[str, int | str] = {}
    functions: dict[str, tuple[object, ...]] = {}
    for name, value in vars(module).items():
        if name.startswith("_"):
            continue
        if isinstance(value, int | str):
            constants[name] = value
        elif isinstance(value, Dispatcher) and value.signatures:
            version = _compiled(value)
            kinds, names = version.signature, version.fndesc
            arguments, result = [_argument(kind) for kind in kinds.args], _result(kinds.return_type)
            # the wrappers unpack Python's objects, for which they call much
            unused = (names.llvm_cpython_wrapper_name, names.llvm_cfunc_wrapper_name)
            kernel = image.add(version.library._get_compiled_object(), names.llvm_func_name, unused)  # noqa: SLF001
            functions[name] = kernel, image.add(_entry(version), "entry", ()), arguments, result
    if not functions:
        raise _Unusable("no kernels")
    description = {"constants": constants, "functions": functions, "inner": image.inner, "outer": image.outer}
    return description, bytes(image.code)


def _compiled(dispatcher: Any) -> Any:
    """Return what numba compiled; it is compiled again if numba has loaded it from its cache."""
    from numba import njit

    if len(dispatcher.signatures) != 1 or not dispatcher.targetoptions.get("nogil"):
        raise _Unusable("not one signature, or with the GIL")
    (version,) = dispatcher.overloads.values()
    try:
        version.library._get_compiled_object()  # noqa: SLF001 - numba shows it nowhere else
    except RuntimeError:
        options = {name: value for name, value in dispatcher.targetoptions.items() if name != "nopython"}
        again = njit(dispatcher.nopython_signatures[0], **options)(dispatcher.py_func)
        (version,) = again.overloads.values()
    return version


def _entry(version: Any) -> bytes:
    """Return the object file of ``entry``, which calls a function with its arguments from a block of words.

    First in the block is the function's address, then its numbers, its arrays in parts, and the result.
    """
    from llvmlite import binding, ir
    from numba.core.compiler_lock import global_compiler_lock

    dimensions = [getattr(kind, "ndim", None) for kind in version.signature.args]
    numbers, parts = count(1), count(1 + dimensions.count(None))
    places = [
        next(numbers if each is None else parts)
        for each in dimensions
        for _ in range(1 if each is None else _ARRAY_PARTS + 2 * each)
    ]
    names, codegen, word = version.fndesc, version.library.codegen, ir.IntType(64)
    kind = version.target_context.call_conv.get_function_type(names.restype, names.argtypes)
    module = codegen._create_empty_module("entry")  # noqa: SLF001 - as numba makes all others
    function = ir.Function(module, ir.FunctionType(kind.return_type, [word.as_pointer()]), "entry")
    builder = ir.IRBuilder(function.append_basic_block())

    def pointer(place: int, kind: Any) -> Any:
        return builder.bitcast(builder.gep(function.args[0], [word(place)]), kind)

    result, failure, *others = kind.args
    arguments = [
        pointer(next(parts), result),
        builder.bitcast(builder.alloca(word), failure),
        *(builder.load(pointer(place, each.as_pointer())) for place, each in zip(places, others, strict=True)),
    ]
    kernel = builder.load(pointer(0, kind.as_pointer().as_pointer()))
    builder.ret(builder.call(kernel, arguments))
    with global_compiler_lock:
        return bytes(codegen._tm.emit_object(binding.parse_assembly(str(module))))  # noqa: SLF001


def _argument(kind: Any) -> str:
    from numba import types

    if isinstance(kind, types.Array):
        if kind.layout == "C" and kind.mutable and kind.aligned and str(kind.dtype) not in ("bool", "complex128"):
            return f"{kind.dtype} {kind.ndim}"
    elif str(kind) in _NUMBERS and str(kind) != "bool":
        return str(kind)
    raise _Unusable(f"an argument is {kind}")


def _result(kind: Any) -> str | list[str]:
    members = getattr(kind, "types", None)  # of a tuple
    numbers = [str(each) for each in members or [kind]]
    if not _NUMBERS.keys() >= set(numbers):
        raise _Unusable(f"a result is {kind}")
    return numbers[0] if members is None else numbers


class _Section(NamedTuple):
    """A section header; System V ABI, chapter 4."""

    name: int
    type: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int
    entry_size: int


_ABSOLUTE_64, _RELATIVE_32, _CALL_32, _RELATIVE_64 = 1, 2, 4, 24
"""What is put into x86-64 code: an address, or the distance to one."""
_PROGBITS, _SYMTAB, _RELA, _NOBITS = 1, 2, 4, 8
_WRITE, _ALLOC = 1, 2
_X86_64: Final = 62


class _Image:
    """Functions one after the other, linked as far as that is possible before they are loaded.

    Attributes:
        code: The sections that are needed.
        inner: Where addresses within ``code`` are to be put, and which.
        outer: Where addresses of other functions are to be put, and of which.
    """

    def __init__(self) -> None:
        self.code = bytearray()
        self.inner: list[tuple[int, int]] = []
        self.outer: list[tuple[int, str]] = []

    def add(self, content: bytes, function: str, unused: Collection[str]) -> int:
        """Add the object file of a function, and return where it begins.

        Args:
            content: The file, ELF for x86-64.
            function: The symbol at which the function begins.
            unused: Symbols of functions that will not be called.

        Raises:
            _Unusable: The file has variables, calls too much, or is of another kind.
        """
        if content[:6] != b"\x7fELF\x02\x01" or struct.unpack_from("<H", content, 18) != (_X86_64,):
            raise _Unusable("not an object file for this machine")
        (headers,), (count,) = struct.unpack_from("<Q", content, 40), struct.unpack_from("<H", content, 60)
        sections = [_Section(*struct.unpack_from("<IIQQQQIIQQ", content, headers + 64 * i)) for i in range(count)]
        starts = self._place(content, sections)
        symbols: list[tuple[str, int | None]] = []  # name, and place in the image if it is there
        spared: list[range] = []
        for table in sections:
            if table.type == _SYMTAB:
                names = _part(content, sections[table.link])
                for at, _, _, section, value, size in struct.iter_unpack("<IBBHQQ", _part(content, table)):
                    name = names[at : names.index(b"\0", at)].decode()
                    place = starts[section] + value if section in starts else None
                    symbols.append((name, place))
                    if name in unused and place is not None:
                        spared.append(range(place, place + size))
        for table in sections:
            if table.type == _RELA and table.info in starts:
                for offset, info, addend in struct.iter_unpack("<QQq", _part(content, table)):
                    at, (name, target) = starts[table.info] + offset, symbols[info >> 32]
                    if not any(at in each for each in spared):
                        self._relocate(at, name, target, info & 0xFFFFFFFF, addend)
        begins = [place for name, place in symbols if name == function]
        if len(begins) != 1 or begins[0] is None:
            raise _Unusable("its beginning is not found")
        return begins[0]

    def _place(self, content: bytes, sections: Sequence[_Section]) -> dict[int, int]:
        """Put the sections that are needed one after the other; return where they are, by number."""
        starts = {}
        for number, section in enumerate(sections):
            if section.flags & _ALLOC and section.size:
                if section.flags & _WRITE or section.type == _NOBITS:
                    raise _Unusable("it has variables")
                if section.type == _PROGBITS:
                    self.code += bytes(-len(self.code) % max(section.alignment, 1))
                    starts[number] = len(self.code)
                    self.code += _part(content, section)
        return starts

    def _relocate(self, at: int, name: str, place: int | None, kind: int, addend: int) -> None:
        if place is None:
            if kind != _ABSOLUTE_64 or addend or name not in _CALLABLE:
                raise _Unusable(f"it calls {name}")
            self.outer.append((at, name))
        elif kind == _ABSOLUTE_64:
            self.inner.append((at, place + addend))
        elif kind in (_RELATIVE_32, _CALL_32):
            struct.pack_into("<i", self.code, at, place + addend - at)
        elif kind == _RELATIVE_64:
            struct.pack_into("<q", self.code, at, place + addend - at)
        else:
            raise _Unusable(f"relocation {kind}")


def _part(content: bytes, section: _Section) -> bytes:
    return content[section.offset : section.offset + section.size]
