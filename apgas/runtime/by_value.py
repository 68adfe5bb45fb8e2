"""What cannot be named travels by value, by means of cloudpickle, which is loaded when the first such thing travels."""

from __future__ import annotations

from typing import Any

import cloudpickle

from apgas.runtime.handles import Carrier, Handle


class Pickler(cloudpickle.Pickler):  # type: ignore[misc]  # it has no types
    """Pickles functions and classes that cannot be named, too; ``handles`` are those of what it pickled."""

    handles: tuple[Handle, ...] = ()

    def reducer_override(self, obj: Any) -> Any:
        """Take the handles of what has any."""
        if isinstance(obj, Carrier):
            self.handles += tuple(obj.handles())
            return obj.travel()
        return super().reducer_override(obj)


def dumps(value: object) -> bytes:
    """Pickle something of a program without handles: a function, an error."""
    body: bytes = cloudpickle.dumps(value, protocol=5)
    return body
