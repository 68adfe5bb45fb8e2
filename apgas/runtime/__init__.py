"""The runtime: processes that are places, what they send one another, and how jobs grow and shrink."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def at_once() -> Iterator[None]:
    """Load modules within the block without the garbage collector, which takes a tenth of the time.

    What modules are made of stays: the collector would look at it again and again, and find nothing.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
