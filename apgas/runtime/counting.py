"""Counts the references to objects of a place: handles, what they lead to, and ``core.references`` interpreted."""

from __future__ import annotations

import itertools
import logging
import queue
import threading
import time
import weakref
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import Any, Final

from apgas.core import messages as m
from apgas.core.effects import Effect, Send
from apgas.core.finish import ReferenceEffect, References, Unreferenced
from apgas.core.messages import RefId
from apgas.core.place import PlaceCore
from apgas.runtime.serialization import Carrying, Handle
from apgas.transport.base import Buffer, Transport

LINGER_S: Final = 0.02
"""How long a handle that is not used any more is kept: it may be needed again soon."""

_MOST_REFERENCES: Final = 1 << 40
_runs = itertools.count()
"""References of a program that is over must not be taken for those of another one in the same process."""

_log = logging.getLogger("apgas")


class Counting:
    """The handles of one place.

    Handles end wherever the garbage collector runs, so their ends are queued, for a thread that begins with the first
    handle. ``SimpleQueue`` is made for that: its ``put`` may interrupt itself.

    Attributes:
        carried: By place, the handles that belong to the next message of it.
    """

    def __init__(
        self,
        core: PlaceCore,
        transport: Transport,
        lock: threading.RLock,
        objects: Objects,
        carry_out: Callable[[Iterable[Effect]], None],
    ) -> None:
        self.carried: dict[int, tuple[Handle, ...]] = {}
        self._core = core
        self._transport = transport
        self._lock = lock
        self._objects = objects
        self._carry_out = carry_out
        self._references = References(core.here, next(_runs) * _MOST_REFERENCES)
        self._handles: dict[RefId, weakref.ref[Handle]] = {}
        self._kept: set[Handle] = set()
        self._todo: queue.SimpleQueue[RefId | Callable[[], object] | None] = queue.SimpleQueue()
        self._working = False

    def make(self) -> Handle:
        """Make a reference, and its first handle."""
        with self._lock:
            return self._new(self._references.make())

    def handle(self, ref: RefId) -> Handle:
        """The handle of ``ref``; one that does not count if this place has none."""
        with self._lock:
            return self._known(ref) or Handle(ref, counts=False)

    def keep(self, handle: Handle) -> None:
        """Hold a handle for ever: a copy of it was made that cannot be counted."""
        if handle.counts:
            self._kept.add(handle)

    def send_ahead(self, dst: int, payload: Carrying) -> list[Send]:
        """(under the lock) What has to be sent to ``dst`` just before a message with ``payload``."""
        refs = [handle.ref for handle in payload.handles if handle.counts]
        return [self._references.sent(dst, refs, self._core.epoch)] if refs else []

    def received(self, src: int, message: m.OfReferences) -> None:
        """Take a message about references."""
        match message:
            case m.Carries():
                with self._lock:
                    self.carried[src] = tuple(self._arrived(ref, src) for ref in message.refs)
            case m.RefReport():
                self._reported(src, message)
            case m.Freed():
                self._later(partial(self._objects.free, message.ref))

    def attach(self, src: int, buffers: list[Buffer]) -> list[Buffer]:
        """Let the payload that has arrived from ``src`` hold the handles that came ahead of it, if any did."""
        handles = self.carried.pop(src, None)
        return buffers if handles is None else Carrying(buffers, handles)

    def free_everywhere(self, ref: RefId) -> None:
        """Let the objects of a ``PlaceLocal`` go, on every place."""
        core = self._core
        with self._lock:
            others = [place for place in core.membership.members if place != core.here]
            self._carry_out([Send(place, m.Freed(core.epoch, ref), []) for place in others])
        self._objects.free(ref)

    def entered(self) -> None:
        """(under the lock) This place has entered an epoch: take what has waited for it."""
        self._change(lambda: self._references.entered(self._core.epoch))

    def leave(self) -> None:
        """This place leaves: it holds nothing from now on; what it has to report goes by way of place 0."""
        with self._lock:
            effects = self._references.leave(self._core.epoch)
            self._carry_out([Send(0, effect.message, []) for effect in effects if isinstance(effect, Send)])

    def close(self) -> None:
        """End the thread."""
        self._todo.put(None)

    def _reported(self, src: int, report: m.RefReport) -> None:
        home = report.ref.home
        apply = partial(self._change, lambda: self._references.reported(report, self._core.epoch))
        if home != self._core.here:
            with self._lock:
                self._carry_out([Send(home, report, [])] if home in self._core.membership.members else [])
        elif src == report.by:
            apply()
        else:
            # a leaver's: what it has reported before has arrived when its connection has ended
            self._transport.on_gone(report.by, apply)

    def _arrived(self, ref: RefId, src: int) -> Handle:
        self._references.arrived(ref, src)
        known = self._known(ref)
        if known is None:
            return self._new(ref)
        self._references.dropped(ref, self._core.epoch)
        return known

    def _new(self, ref: RefId) -> Handle:
        self._start()
        handle, put = Handle(ref, counts=True), self._todo.put
        # In any thread, at any moment and under any lock, for the garbage collector does it. A ``__del__`` of
        # the handle would run before it is gone: another thread could still get hold of it.
        self._handles[ref] = weakref.ref(handle, lambda _: put(ref))
        return handle

    def _known(self, ref: RefId) -> Handle | None:
        watched = self._handles.get(ref)
        return None if watched is None else watched()

    def _let_go(self, refs: list[RefId]) -> list[ReferenceEffect]:
        for ref in {*refs}:
            if self._known(ref) is None:
                self._handles.pop(ref, None)
        return [effect for ref in refs for effect in self._references.dropped(ref, self._core.epoch)]

    def _start(self) -> None:
        if not self._working:
            self._working = True
            name = f"apgas-{self._core.here}-references"
            threading.Thread(target=self._work, name=name, daemon=True).start()

    def _later(self, act: Callable[[], object]) -> None:
        """Let go of objects on our own thread: what the program does when one ends is its own affair."""
        self._start()
        self._todo.put(act)

    def _work(self) -> None:
        while (first := self._todo.get()) is not None:
            # what arrives again and again is held most of the time then, and reported once, not each time
            time.sleep(LINGER_S)
            together = [first]
            with suppress(queue.Empty):  # that was all, for now
                while (what := self._todo.get_nowait()) is not None:
                    together.append(what)
                return
            try:
                self._change(partial(self._let_go, [what for what in together if isinstance(what, RefId)]))
                for what in together:
                    if not isinstance(what, RefId):
                        what()
            except Exception:  # noqa: BLE001 - the next references have nothing to do with it
                _log.exception("place %d: a reference could not be let go", self._core.here)

    def _change(self, act: Callable[[], list[ReferenceEffect]]) -> None:
        with self._lock:
            effects = act()
            self._carry_out([effect for effect in effects if isinstance(effect, Send)])
        for effect in effects:
            if isinstance(effect, Unreferenced):
                everywhere = effect.ref in self._objects.placed
                self._objects.placed.discard(effect.ref)
                self._later(partial(self.free_everywhere if everywhere else self._objects.free, effect.ref))


# The objects that references lead to ---------------------------------------------------------------------------------


class Objects:
    """The objects that one place keeps for references.

    Attributes:
        homed: The objects of its ``GlobalRef``s.
        local: Its objects of ``PlaceLocal``s and ``PlaceState``s.
        placed: The ``PlaceLocal``s that were made here: their objects are on all places.
    """

    def __init__(self) -> None:
        self.homed: dict[RefId, Any] = {}
        self.local: dict[object, Any] = {}
        self.placed: set[RefId] = set()
        self._lock = threading.Lock()
        self._making: dict[object, threading.RLock] = {}

    def made(self, key: object, make: Callable[[], Any]) -> Any:
        """The object of ``key`` on this place, made if there is none yet; threads that ask meanwhile wait for it."""
        with self.making(key):
            if key not in self.local:
                self.local[key] = make()
            return self.local[key]

    def making(self, key: object) -> threading.RLock:
        """The lock under which the object of ``key`` is made.

        One for each, not one for all: a factory may wait for another place, and that for another object here.
        """
        with self._lock:
            return self._making.setdefault(key, threading.RLock())

    def free(self, ref: RefId) -> None:
        """Let the object of ``ref`` on this place go."""
        self.homed.pop(ref, None)
        self.local.pop(ref, None)
        with self._lock:
            self._making.pop(ref, None)
