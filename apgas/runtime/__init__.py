"""The runtime: processes that are places, what they send one another, and how jobs grow and shrink.

A program calls ``api``, ``collectives``, ``refs`` and ``malleable``; they find the place of their thread (``context``)
and ask its ``driver``, which keeps the core of the place, packs calls (``serialization``), sends and runs them.
``program`` is ``apgas.run``; ``process`` makes a process a place and ends it, in what ``environment`` has prepared for
MPI. On place 0, ``resizing`` carries out orders: ``spawning`` starts places, which come by ``joining``.
"""

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
