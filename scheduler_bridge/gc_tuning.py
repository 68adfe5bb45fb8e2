"""Python's search for objects that hold each other, seldom.

Simulations and the live scheduler make many objects and hardly any such, and keep many: each search through all of them
holds a scheduler with 10,000 jobs up for a fifth of a second.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_NEW_OBJECTS: Final = 50_000
"""Python looks after 700 (from 3.13 on after 2,000); each time it looks at all that is new, and now and then at
everything. As many may be garbage meanwhile, some 10 MB."""

_lock = threading.Lock()
_before: list[tuple[int, int, int]] = []
"""How often it was, for each that has begun and not ended, the first one's first."""


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
