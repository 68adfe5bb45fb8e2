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
from typing import TYPE_CHECKING, Any, Final

from apgas.core import messages as m
from apgas.core.effects import Send
from apgas.core.messages import RefId
from apgas.core.references import ReferenceEffect, References, Unreferenced
from apgas.transport.base import Buffer

if TYPE_CHECKING:
    from apgas.runtime.driver import Driver


LINGER_S: Final = 0.02
"""For so long a handle that nobody has is held on."""

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

    def __init__(self, driver: Driver) -> None:
        self.carried: dict[int, tuple[Handle, ...]] = {}
        self._driver = driver
        self._references = References(driver.core.here, next(_runs) * _MOST_REFERENCES)
        self._handles: dict[RefId, Watch] = {}
        self._kept: set[Handle] = set()
        self._todo: queue.SimpleQueue[RefId | Callable[[], object] | None] = queue.SimpleQueue()
        self._working = False

    def make(self) -> Handle:
        """Make a reference, and its first handle."""
        with self._driver.lock:
            return self._new(self._references.make())

    def handle(self, ref: RefId) -> Handle:
        """The handle of ``ref``; one that does not count if this place has none."""
        with self._driver.lock:
            return self._known(ref) or Handle(ref, counts=False)

    def keep(self, handle: Handle) -> None:
        """Hold a handle for ever: a copy of it was made that cannot be counted."""
        if handle.counts:
            self._kept.add(handle)

    def send_ahead(self, dst: int, payload: Carrying) -> list[Send]:
        """(under the lock) What has to be sent to ``dst`` just before a message with ``payload``."""
        refs = [handle.ref for handle in payload.handles if handle.counts]
        return [self._references.sent(dst, refs, self._driver.core.epoch)] if refs else []

    def received(self, src: int, message: m.OfReferences) -> None:
        """Take a message about references."""
        match message:
            case m.Carries():
                with self._driver.lock:
                    self.carried[src] = tuple(self._arrived(ref, src) for ref in message.refs)
            case m.RefReport():
                self._reported(src, message)
            case m.Freed():
                self._later(partial(self._driver.objects.free, message.ref))

    def attach(self, src: int, buffers: list[Buffer]) -> list[Buffer]:
        """Let the payload that has arrived from ``src`` hold the handles that came ahead of it, if any did."""
        handles = self.carried.pop(src, None)
        return buffers if handles is None else Carrying(buffers, handles)

    def free_everywhere(self, ref: RefId) -> None:
        """Let the objects of a ``PlaceLocal`` go, on every place."""
        core = self._driver.core
        with self._driver.lock:
            others = [place for place in core.membership.members if place != core.here]
            self._driver.carry_out([Send(place, m.Freed(core.epoch, ref), []) for place in others])
        self._driver.objects.free(ref)

    def leave(self) -> None:
        """This place leaves: it holds nothing from now on; what it has to report goes by way of place 0."""
        with self._driver.lock:
            effects = self._references.leave(self._driver.core.epoch)
            self._driver.carry_out([Send(0, effect.message, []) for effect in effects if isinstance(effect, Send)])

    def close(self) -> None:
        """End the thread."""
        self._todo.put(None)

    def _reported(self, src: int, report: m.RefReport) -> None:
        driver, home = self._driver, report.ref.home
        apply = partial(self._change, partial(self._references.reported, report))
        if home != driver.core.here:
            with driver.lock:
                driver.carry_out([Send(home, report, [])] if home in driver.core.membership.members else [])
        elif src == report.by:
            apply()
        else:
            # a leaver's: what it has reported before has arrived when its connection has ended
            driver.transport.on_gone(report.by, apply)

    def _arrived(self, ref: RefId, src: int) -> Handle:
        self._references.arrived(ref, src)
        known = self._known(ref)
        if known is None:
            return self._new(ref)
        self._references.dropped(ref, self._driver.core.epoch)
        return known

    def _new(self, ref: RefId) -> Handle:
        self._start()
        handle = Handle(ref, counts=True)
        self._handles[ref] = watch(handle, self._todo.put)
        return handle

    def _known(self, ref: RefId) -> Handle | None:
        watched = self._handles.get(ref)
        return None if watched is None else watched()

    def _let_go(self, refs: list[RefId]) -> list[ReferenceEffect]:
        for ref in {*refs}:
            if self._known(ref) is None:
                self._handles.pop(ref, None)
        return [effect for ref in refs for effect in self._references.dropped(ref, self._driver.core.epoch)]

    def _start(self) -> None:
        if not self._working:
            self._working = True
            name = f"apgas-{self._driver.core.here}-references"
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
                _log.exception("place %d: a reference could not be let go", self._driver.core.here)

    def _change(self, act: Callable[[], list[ReferenceEffect]]) -> None:
        with self._driver.lock:
            effects = act()
            self._driver.carry_out([effect for effect in effects if isinstance(effect, Send)])
        for effect in effects:
            if isinstance(effect, Unreferenced):
                everywhere = self._driver.objects.displace(effect.ref)
                self._later(partial(self.free_everywhere if everywhere else self._driver.objects.free, effect.ref))


# What the references of ``apgas.runtime.refs`` lead to on one place --------------------------------------------------


class Objects:
    """The objects that one place keeps for references.

    Attributes:
        homed: The objects of its ``GlobalRef``s.
        local: Its objects of ``PlaceLocal``s.
        states: Its objects of ``PlaceState``s.
        lock: Held while one of those is made.
    """

    def __init__(self) -> None:
        self.homed: dict[RefId, Any] = {}
        self.local: dict[RefId, Any] = {}
        self.states: dict[object, Any] = {}
        self.lock = threading.RLock()
        self._placed: set[RefId] = set()
        self._lock = threading.Lock()
        self._making: dict[RefId, threading.RLock] = {}

    def making(self, key: RefId) -> threading.RLock:
        """The lock under which the object of ``key`` is made.

        One for each, not one for all: a factory may wait for another place, and that for another object here.
        """
        with self._lock:
            return self._making.setdefault(key, threading.RLock())

    def place(self, ref: RefId) -> None:
        """Note that a ``PlaceLocal`` was made here: its objects are on all places."""
        self._placed.add(ref)

    def displace(self, ref: RefId) -> bool:
        """Note that ``ref`` is not used any more; returns whether it was a ``PlaceLocal``."""
        was_placed = ref in self._placed
        self._placed.discard(ref)
        return was_placed

    def free(self, ref: RefId) -> None:
        """Let the object of ``ref`` on this place go."""
        self.homed.pop(ref, None)
        self.local.pop(ref, None)
        with self._lock:
            self._making.pop(ref, None)


# What keeps the object behind a reference: handles, and payloads that hold those of the references in them -----------


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
