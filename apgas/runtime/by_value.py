"""Pickling by value, for functions and classes that have no name elsewhere: with cloudpickle, loaded when needed."""

from __future__ import annotations

import io
from collections import ChainMap
from collections.abc import Callable
from types import CodeType
from typing import Any

import cloudpickle

from apgas.runtime import exceptions
from apgas.runtime.serialization import Carrier, Handle

_reduced: Callable[[CodeType], tuple[Callable[..., CodeType], tuple[Any, ...]]]
_reduced = cloudpickle.Pickler.dispatch_table[CodeType]


def _with_file(rebuild: Callable[..., CodeType], words: tuple[Any, ...], file: str) -> CodeType:
    return rebuild(*words).replace(co_filename=file)


def _reduced_with_file(code: CodeType) -> tuple[Callable[..., CodeType], tuple[Any, ...]]:
    # cloudpickle 3.1.3 drops the file; without it no traceback from another place shows a line of the program
    rebuild, words = _reduced(code)
    return _with_file, (rebuild, words, code.co_filename)


class _Plain(cloudpickle.Pickler):  # type: ignore[misc]  # it has no types
    """Pickles functions and classes that cannot be named, too."""

    dispatch_table = ChainMap({CodeType: _reduced_with_file}, cloudpickle.Pickler.dispatch_table)

    def reducer_override(self, obj: Any) -> Any:
        """Have errors travel as what they are."""
        if isinstance(obj, BaseException) and (reduced := exceptions.reduced(obj)) is not NotImplemented:
            return reduced
        return super().reducer_override(obj)


class Pickler(_Plain):
    """Notes the references in what it pickles, too: ``handles`` are theirs."""

    handles: tuple[Handle, ...] = ()

    def reducer_override(self, obj: Any) -> Any:
        """Take the handles of what has any."""
        if isinstance(obj, Carrier):
            self.handles += tuple(obj.handles())
            return obj.travel()
        return super().reducer_override(obj)


def dumps(value: object) -> bytes:
    """Pickle something of a program without handles: a function, an error."""
    file = io.BytesIO()
    _Plain(file, 5).dump(value)
    return file.getvalue()
