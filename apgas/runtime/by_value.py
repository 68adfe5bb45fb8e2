"""Pickling by value, for functions and classes that have no name elsewhere: with cloudpickle, loaded when needed."""

from __future__ import annotations

import io
from typing import Any

import cloudpickle

from apgas.runtime import exceptions
from apgas.runtime.serialization import Carrier, Handle


class _Plain(cloudpickle.Pickler):  # type: ignore[misc]  # it has no types
    """Pickles functions and classes that cannot be named, too."""

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
