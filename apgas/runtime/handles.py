"""What keeps the object behind a reference: handles, and payloads that hold those of the references in them."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from typing import Any

from apgas.core.messages import RefId
from apgas.transport.base import Buffer


class Handle:
    """A place's hold on a reference; ``counts``: not that of a copy that a program has pickled by itself."""

    __slots__ = ("__weakref__", "counts", "ref")

    def __init__(self, ref: RefId, *, counts: bool) -> None:
        self.ref = ref
        self.counts = counts


class Watch(weakref.ref[Handle]):
    """Leads to a handle as long as there is one, then tells ``gone`` its reference.

    That may be in any thread, at any moment and under any lock, for the garbage collector does it. A ``__del__`` of the
    handle would run before it is gone: another thread could still get hold of it.
    """

    __slots__ = ("ref",)
    ref: RefId


def watch(handle: Handle, gone: Callable[[RefId], None]) -> Watch:
    """Watch a handle; somebody has to keep what this returns."""
    made = Watch(handle, lambda ended: gone(ended.ref))
    made.ref = handle.ref
    return made


class Carrier:
    """Base of what travels with handles; no ABC, for whether something is one is asked of all that travels."""

    def handles(self) -> Iterable[Handle]:
        """The handles that whoever unpickles it needs."""
        raise NotImplementedError

    def travel(self) -> tuple[Any, ...]:
        """What ``__reduce__`` returns when the handles go with it."""
        raise NotImplementedError


class Carrying(list[Buffer]):
    """A payload, and the handles of the references in it, which it keeps."""

    def __init__(self, buffers: Iterable[Buffer], handles: tuple[Handle, ...]) -> None:
        super().__init__(buffers)
        self.handles = handles


def like(payload: list[Buffer], buffers: list[Buffer]) -> list[Buffer]:
    """Make ``buffers``, which were made of ``payload``, hold what that holds."""
    return Carrying(buffers, payload.handles) if isinstance(payload, Carrying) else buffers
