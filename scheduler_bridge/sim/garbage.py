"""Python's search for objects that hold each other, seldom: a simulation makes many objects and hardly any such."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_NEW_OBJECTS: Final = 200_000
"""Python looks after 700; each time it looks at all that is new, and now and then at everything."""

_lock = threading.Lock()
_before: list[
    tuple[int, int, int]
] = []  # how often it was, for each that has begun and not ended, the first one's first


@contextmanager
def rare_searches() -> Iterator[None]:
    """Search only after many new objects, until the last one that asked for it has ended."""
    with _lock:
        _before.append(gc.get_threshold())
        gc.set_threshold(_NEW_OBJECTS, *_before[0][1:])
    try:
        yield
    finally:
        with _lock:
            first = _before[0]
            _before.pop()
            if not _before:
                gc.set_threshold(*first)
