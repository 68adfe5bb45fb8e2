"""Runs what a place was sent, or sent itself: activities on threads of the pool, or on the io thread if quick."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from apgas.core import effects as e
from apgas.core import messages as m
from apgas.errors import CancelledError, SlowPeerError
from apgas.runtime import codec, naming, trace
from apgas.runtime.calls import Call, Calls
from apgas.runtime.context import Future, Scope, call_within, pooled
from apgas.runtime.quick import QuickFunctions

if TYPE_CHECKING:
    from apgas.runtime.driver import Driver

_log = logging.getLogger("apgas")
_uncounted_log = logging.getLogger("apgas.uncounted")

Waiting: TypeAlias = Callable[[], AbstractContextManager[None]]
"""What a wait of an activity is wrapped in."""

T = TypeVar("T")

_SMALL_BYTES: Final = 64 * 1024
"""A call whose pickle is no larger than this is read by the io thread, and run by it if it is known to be quick."""


class Running:
    """Runs activities for ``driver``, whose ``calls`` tell what has arrived.

    Attributes:
        activities_run: How many ended well; about, for it is counted without a lock.
    """

    def __init__(self, driver: Driver, calls: Calls) -> None:
        self.activities_run = 0
        self._driver = driver
        self._calls = calls
        self._quick = QuickFunctions()

    def begin(self, src: int, spawn: m.Spawn, payload: e.Payload) -> None:
        """Take an activity that another place sent."""
        load = self._calls.arrived(src, payload)
        if len(payload[0]) <= _SMALL_BYTES and self._driver.transport.in_io_thread():
            self._driver.transport.run_last(partial(self._run_quickly, src, spawn, load))
        else:
            self._driver.executor.submit(partial(self._run, src, spawn, load))

    def _run_quickly(self, src: int, spawn: m.Spawn, load: Callable[[], Call]) -> None:
        """(io thread, last) Run an activity here if it is known to be quick, else on a thread of the pool."""
        try:
            call = load()
        except BaseException:  # noqa: BLE001 - the second attempt fails where its error is taken care of
            self._driver.executor.submit(partial(self._run, src, spawn, load))
            return
        if self._quick.expects(call[0]) and not self._driver.transport.crowded(src):
            self._quick.doubt(call[0])  # if it takes long this time, others of it are not to pile up behind it
            self._run(src, spawn, lambda: call, self._hand_over, soon=self._driver.transport.busy)
        else:
            self._driver.executor.submit(partial(self._run, src, spawn, lambda: call))

    @contextmanager
    def _hand_over(self) -> Iterator[None]:
        """Around a wait in an activity that the io thread runs."""
        self._driver.transport.hand_over()
        yield

    def _run(
        self,
        src: int,
        spawn: m.Spawn,
        load: Callable[[], Call],
        waiting: Waiting | None = None,
        *,
        soon: bool = False,
    ) -> None:
        """Run an activity that another place sent, and answer."""
        driver, core = self._driver, self._driver.core
        if not core.may_begin(spawn.finish):
            driver.change(lambda: core.dropped(src, spawn))
            return
        error: bytes | None = None
        try:
            answer = call_within(Scope(spawn.finish), waiting or driver.executor.waiting, self._answer, src, load)
        except BaseException as raised:  # noqa: BLE001 - an activity's error travels, whatever it is
            error = codec.dump_error(raised, core.here, driver.here.node)
            answer = [error]
        to_finish = None if spawn.to_caller else error
        with suppress(SlowPeerError):
            # the answer has to go, even to a place that takes nothing for a minute
            driver.transport.throttle(src)
        driver.change(lambda: core.answered(src, spawn, answer, ok=error is None, error=to_finish), soon=soon)

    def _answer(self, src: int, load: Callable[[], Call]) -> e.Payload:
        fn, args, kwargs = load()
        return codec.dumps(self._call(src, fn, args, kwargs))

    @naming.runs("fn")
    def _call(self, src: int, fn: Callable[..., T], args: tuple[Any, ...], kwargs: dict[str, Any]) -> T:
        began_s = time.perf_counter()
        if not trace.on():
            value = fn(*args, **kwargs)
        else:
            with trace.span(codec.name_of(fn), "activity", sent_by=src):
                value = fn(*args, **kwargs)
        self._quick.learn(fn, time.perf_counter() - began_s)
        self.activities_run += 1  # two threads may count one, which does no harm
        return value

    def run_local(self, scope: Scope, call: Call, future: Future[Any], *, to_caller: bool) -> None:
        """Run an activity that this place sent itself: nothing is pickled but an error for the finish."""
        driver, core = self._driver, self._driver.core
        if not core.may_begin(scope.finish):
            future.set_exception(CancelledError("its finish was cancelled before it began"))
            driver.change(lambda: core.ended(scope.finish))
            return
        error: bytes | None = None
        try:
            value = call_within(scope, driver.executor.waiting, self._call, core.here, *call)
        except BaseException as raised:  # noqa: BLE001 - an activity's error goes to its finish, whatever it is
            if not to_caller:
                error = codec.dump_error(raised, core.here, driver.here.node)
            future.set_exception(raised)
        else:
            future.set_result(value)
        driver.transport.nudge()
        driver.change(lambda: core.ended(scope.finish, error))

    @naming.runs("fn")
    def run_immediate(self, src: int, payload: e.Payload) -> None:
        """(io thread) Run an immediate."""
        load = self._calls.arrived(src, payload)
        try:
            fn, args, kwargs = load()
            fn(*args, **kwargs)
        except BaseException as error:  # noqa: BLE001 - the job ends with it
            here = self._driver.core.here
            _log.exception("place %d: an immediate failed", here)
            self._driver.fail(f"an immediate failed on place {here}: {codec.summary(error)}")

    @naming.runs("fn")
    def run_uncounted(self, src: int, load: Callable[[], Call]) -> None:
        """Run an activity that nobody waits for: what it raises is logged here."""
        driver, core = self._driver, self._driver.core
        name = "its function"
        try:
            with pooled(driver.executor.waiting):
                fn, args, kwargs = load()
                name = codec.name_of(fn)
                with trace.span(name, "activity", sent_by=src):
                    fn(*args, **kwargs)
        except BaseException as error:  # noqa: BLE001 - an activity's error, whatever it is
            from apgas.runtime import tracebacks

            tracebacks.folded(error)
            _uncounted_log.exception("place %d: %s, sent uncounted by place %d, failed", core.here, name, src)
        driver.change(core.uncounted_ended)
