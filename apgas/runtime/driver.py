"""One place at work: carries out the effects of its core with sends, threads, futures and timers.

Locking: the core is touched under one lock, and the sends that it asks for are handed to the transport under the same
lock, because their order matters (a ``Final`` must stay behind the spawns before it); a send never waits. Everything
else is done after the lock is released.
"""

from __future__ import annotations

import logging
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import InvalidStateError
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import partial
from types import BuiltinFunctionType, CodeType
from typing import Any, Final, Generic, NoReturn, TypeAlias, TypeVar, assert_never, cast

import msgspec

from apgas.core import effects as e
from apgas.core import messages as m
from apgas.core.identity import Place
from apgas.core.place import PlaceCore
from apgas.errors import ApgasError, CancelledError, DeadlineError, DeadPlaceError, SlowPeerError, UsageError
from apgas.runtime import context, serialization, trace
from apgas.runtime.context import Executor, Future, Scope, call_within, this_thread
from apgas.runtime.counting import Counting, Objects
from apgas.runtime.serialization import Call, Calls, Carrying
from apgas.transport.base import Transport, TransportClosedError, UnknownPeerError

T = TypeVar("T")
Waiting: TypeAlias = Callable[[], AbstractContextManager[None]]
"""What a wait of an activity is wrapped in."""

LEAD_S: Final = 0.005
"""For so long a thread that waits reads what arrives itself: no other thread has to wake it when its answer comes."""
CUT_OFF_S: Final = 2.0
"""How long the connections of a place that is said to be dead may last."""
GATHER_S: Final = 0.001
"""The least time between two messages with reports of others; those that come meanwhile go together."""
HOLD_S: Final = 0.02
"""How long a place holds reports of others under whose finish it works itself: until then it often reports, too."""
_SMALL_BYTES: Final = 64 * 1024
"""A call whose pickle is no larger than this is read by the io thread, and run by it if it is expected to be short."""

_log = logging.getLogger("apgas")
_uncounted_log = logging.getLogger("apgas.uncounted")
_handler_log = logging.getLogger("apgas.handler")


def _ignore(*_: object) -> None:
    """What only place 0 reacts to."""


class Driver:
    """One running place.

    Attributes:
        core: Its state, touched under ``lock`` only.
        transport: Delivers its frames.
        executor: Runs the program's activities.
        chores: Runs the runtime's own calls, which must not wait behind activities, of which there may be many.
        executors: These, and those of ``serial_executor``: they end with this place.
        objects: What references lead to here.
        counting: Counts them.
        over: Set when the place has been released, or the program has ended.
        interrupted: What the main thread's wait ends with, for a signal came while it read messages; None: none came.
        activities_run: How many have ended well; about, for it is counted without a lock.
    """

    def __init__(self, core: PlaceCore, transport: Transport) -> None:
        self.core = core
        self.transport = transport
        self.lock = threading.RLock()
        begin = partial(keep_driver, self)
        self.executor = Executor(f"apgas-{core.here}", self._broken, begin=begin)
        self.chores = Executor(f"apgas-{core.here}-own", self._broken, begin=begin)
        self.executors = [self.executor, self.chores]
        self.objects = Objects()
        self.counting = Counting(core, transport, self.lock, self.objects, self.carry_out)
        self.over = threading.Event()
        self.interrupted: type[KeyboardInterrupt] | None = None
        self._forked = False
        _drivers.add(self)
        self.messages_sent = 0
        self.activities_run = 0
        self.on_leaver_drained: Callable[[int, int], None] = _ignore
        self.on_place_died: list[Callable[[Place], None]] = []
        self.on_stay: list[Callable[[], None]] = []
        self.on_place_lost: Callable[[int, str], None] = _ignore
        self.on_end: Callable[[str], None] = _ignore
        self.on_members: Callable[[int, list[int]], None] = _ignore
        self._futures: dict[int, tuple[m.FinishId, Future[Any]]] = {}
        self._settling: dict[int, tuple[m.FinishId, Future[Any]]] = {}
        self._fired: dict[m.FinishId, Future[e.FinishFired]] = {}
        self._expected: weakref.WeakSet[Future[Any]] = weakref.WeakSet()
        self._failing = False
        self._passed_on_s = 0.0
        self._given_up: BaseException | None = None
        self._calls = Calls()
        self._inline = InlinePolicy()
        self._nodes = {info.place: info.node for info in core.membership.members.values()}

    def start(self) -> None:
        """Begin to exchange frames with the other members."""
        others = {i.place: (i.host, i.port) for i in self.core.membership.members.values() if i.place != self.core.here}
        self.transport.learn(others)
        self.transport.loop.on_broken = self._loop_broke
        self.transport.start(self.core.here, self)
        # place 0 and the others notice each other's death even if nothing is ever sent; one that is gone is reported
        to = [0] if self.core.here != 0 else others if self.core.survives else []  # one may die before it has connected
        for place in to:
            with suppress(UnknownPeerError):
                self.transport.connect(place)

    def serial_executor(self, name: str) -> Executor:
        """Make an executor of calls to the program, one after another, whether they wait or not."""

        def log(error: BaseException) -> None:
            _handler_log.error("a handler call could not be carried out", exc_info=error)

        made = Executor(f"apgas-{self.core.here}-{name}", log, limit=1, begin=partial(keep_driver, self))
        self.executors.append(made)
        return made

    # what the program asks for ---------------------------------------------------------------------------------------

    @property
    def here(self) -> Place:
        """This place."""
        return self.place(self.core.here)

    def place(self, place: int) -> Place:
        """The place with this id, whether it is still a member or not."""
        return Place(place, self._nodes.get(place, ""))

    def located(self, where: Place | int) -> Place:
        """The place that a program has named, itself or by its id.

        Raises:
            TypeError: It has named none.
        """
        return where if type(where) is Place else self.place(Place.number(where))

    def places(self) -> list[Place]:
        """The current members that are not about to leave."""
        with self.lock:
            return [Place(info.place, info.node) for info in self.core.membership.staying]

    def open_finish(self, outer: Scope | None = None, *, dense: bool = False) -> m.FinishId:
        """Open a finish in an activity of ``outer``, if that is given; ``close_finish`` waits for it."""
        with self.lock:
            self._check_not_given_up()
            finish = self.core.open_finish(None if outer is None else outer.finish, dense=dense)
            self._fired[finish] = Future()
            return finish

    def close_finish(self, finish: m.FinishId) -> list[BaseException]:
        """Like ``end_finish``; returns the errors only, of a cancelled one without those that only say so."""
        errors, cancelled = self.end_finish(finish)
        return [error for error in errors if not (cancelled and isinstance(error, CancelledError))]

    def end_finish(self, finish: m.FinishId) -> tuple[list[BaseException], bool]:
        """End the body of a finish and wait for all it spawned; returns the errors, and whether it was cancelled.

        Raises:
            DeadlineError: The thread's deadline has passed; the finish is cancelled, and not waited for any more.
        """
        self.end_forked_child()
        outcome = self._fired[finish]
        self.end_body(finish)
        try:
            fired = self.wait(outcome)
        except DeadlineError:
            raise self._out_of_time(finish) from None
        # an answer is counted before it is unpickled: another thread, which counts the last, may be ahead of that
        for future in [future for under, future in [*self._settling.values()] if under == finish]:
            future.exception()
        errors = [serialization.load_error(error) for error in fired.errors]
        errors += [self.death(place, count) for place, count in fired.lost]
        return errors, fired.cancelled

    def _out_of_time(self, finish: m.FinishId) -> DeadlineError:
        """Leave a finish, whose body has ended, to itself; returns the error that says so."""
        with self.lock:
            left = self.core.finishes.outstanding(finish)
        under_way = ", ".join(
            f"{count} on {self.place(place)} ({self.place(place).node})" for place, count in left.items()
        )
        self.cancel(finish)
        return DeadlineError(f"out of time: a finish at {self.here} was cancelled; under way: {under_way or 'nothing'}")

    def end_body(self, finish: m.FinishId) -> None:
        """End the body of a finish, and do not wait for what it spawned."""
        self.change(lambda: self.core.ended(finish))

    def cancel(self, finish: m.FinishId) -> None:
        """Start nothing more under ``finish``, anywhere."""
        self.change(lambda: self.core.cancel(finish))

    def stable(self, fn: object) -> object:
        """What stands for a function that may be sent once, to be called with other arguments; None: its copies differ.

        That is the function itself if others know it by name, or what was made of it with variables that are constant.
        """
        return self._calls.stable(fn)

    def spawn(
        self,
        scope: Scope | None,
        dst: Place,
        call: Call,
        *,
        to_caller: bool,
        throttled: bool = True,
    ) -> Future[Any]:
        """Run ``call`` as an activity on ``dst`` under the finish of ``scope``.

        ``throttled``: wait before while too much is queued for ``dst``; no holder of the lock may do that.

        Raises:
            UsageError: There is no finish around the caller.
            PlaceGoneError: The place is leaving or gone.
            TypeError: The call cannot be pickled.
        """
        if scope is None:
            raise UsageError("async_at, async_ and at work inside of apgas.run and inside of activities only")
        future: Future[Any] = Future()
        try:
            if dst.id == self.core.here:
                with self.lock:
                    self.core.spawn_here(scope.finish)
                try:
                    self.executor.submit(lambda: self._run_local(scope, call, future, to_caller=to_caller))
                except RuntimeError:  # there is no thread for it
                    self.change(lambda: self.core.ended(scope.finish))
                    raise
                return future
            payload, definition = self._calls.pack(dst.id, call)
            if throttled:
                self.transport.throttle(dst.id)
            with self.lock:
                self._check_not_given_up()
                number, effects = self.core.spawn(scope.finish, dst.id, payload, to_caller=to_caller)
                self._futures[number] = scope.finish, future
                self._send(effects, soon=not to_caller)
                self._calls.sent(dst.id, definition)
        except CancelledError as error:
            future.set_exception(error)
        return future

    def call(self, scope: Scope | None, dst: Place, call: Call) -> Any:
        """Run ``call`` on ``dst`` and wait for its value; raises what ``spawn`` and the call raise."""
        return self.wait(self.spawn(scope, dst, call, to_caller=True))

    def wait(self, future: Future[T]) -> T:
        """Wait for something that messages bring about."""
        if not future.done():
            self.end_forked_child()
            call_within(None, nullcontext, self.transport.loop.lead, future.done, LEAD_S)
            if self.interrupted is not None and threading.current_thread() is threading.main_thread():
                interrupted, self.interrupted = self.interrupted, None
                raise interrupted
        return future.result()

    def expected(self) -> Future[Any]:
        """A future that the caller lets end, or ``give_up``."""
        future: Future[Any] = Future()
        with self.lock:
            self._check_not_given_up()
            self._expected.add(future)
        return future

    def hold(self, scope: Scope) -> Callable[[BaseException | None], None]:
        """Let a finish wait until what is returned is called, from anywhere, with what is to be raised.

        Raises:
            CancelledError: The finish is cancelled.
        """
        with self.lock:
            self.core.spawn_here(scope.finish)

        def release(error: BaseException | None) -> None:
            dumped = None if error is None else serialization.dump_error(error, self.core.here, self.here.node)
            self.change(lambda: self.core.ended(scope.finish, dumped))

        return release

    def immediate(self, dst: Place, call: Call) -> None:
        """Run ``call`` on the io thread of ``dst``, uncounted; dropped if the place is leaving or gone."""
        payload, definition = self._calls.pack(dst.id, call)
        if dst.id == self.core.here:
            self.transport.loop.call_soon(lambda: self._run_immediate(dst.id, payload))
            return
        with self.lock:
            effects = self.core.immediate(dst.id, payload)
            self._send(effects)
            if effects:
                self._calls.sent(dst.id, definition)

    def uncounted(self, dst: Place, call: Call) -> None:
        """Run ``call`` as an activity on ``dst`` that no finish counts.

        Raises:
            PlaceGoneError: The place is leaving or gone.
            TypeError: The call cannot be pickled.
        """
        if dst.id == self.core.here:
            with self.lock:
                self.core.uncounted_here()
            self.executor.submit(partial(self._run_uncounted, dst.id, lambda: call))
            return
        payload, definition = self._calls.pack(dst.id, call)
        self.transport.throttle(dst.id)
        with self.lock:
            self._send(self.core.uncounted(dst.id, payload), soon=True)
            self._calls.sent(dst.id, definition)

    # what the transport delivers (io thread) -------------------------------------------------------------------------

    def on_frame(
        self, src: int, head: bytes | bytearray | memoryview, buffers: Sequence[bytearray | memoryview]
    ) -> None:
        """Take a frame; a frame that makes no sense ends the job, because counts can no longer be trusted."""
        try:
            message = m.decode_frame(head)
            if isinstance(message, m.OF_REFERENCES):
                self.counting.received(src, message)
                return
            payload: e.Payload = [*buffers]
            if self.counting.carried:
                payload = self.counting.attach(src, payload)
            self.change(lambda: self.core.received(src, message, payload))
        except (msgspec.DecodeError, ApgasError) as error:
            _log.exception("place %d: bad message from place %d", self.core.here, src)
            self.fail(f"place {self.core.here} received a bad message from place {src}: {error}")
        except BaseException as error:  # noqa: BLE001 - whatever it is, the message was not carried out
            self._broken(error)

    def on_lost(self, place: int, reason: str) -> None:
        """Take the loss of a connection."""
        self.counting.carried.pop(place, None)
        self.change(lambda: self.core.lost(place, reason))

    # effects ---------------------------------------------------------------------------------------------------------

    def fail(self, reason: str) -> None:
        """Something here went irrecoverably wrong: place 0 ends the job."""
        if self.core.here == 0:
            self.on_place_lost(0, reason)
        else:
            self.change(lambda: [e.Send(0, m.Lost(self.core.epoch, self.core.here, reason), [])])

    def give_up(self, error: BaseException) -> None:
        """Let everything here that waits for activities, or will, raise ``error``: the job is over without them."""
        with self.lock:
            self._given_up = error
            waiting = [*(future for _, future in self._futures.values()), *self._fired.values(), *self._expected]
        for future in waiting:
            with suppress(InvalidStateError):  # it has just ended otherwise
                future.set_exception(error)
        self.transport.loop.nudge()

    def _check_not_given_up(self) -> None:
        """Keep anything from being waited for after ``give_up``, with the lock held."""
        if self._given_up is not None:
            raise self._given_up

    def _broken(self, error: BaseException) -> None:
        """Something that must not fail did: an activity may be uncounted now, so the job could not end otherwise."""
        _log.error("place %d: an internal error", self.core.here, exc_info=error)
        if self._failing:
            return
        self._failing = True  # reporting it may fail, too
        self.fail(f"place {self.core.here} is out of order: {serialization.summary(error)}")

    def _loop_broke(self, error: BaseException) -> None:
        """The io thread has ended: nothing will be heard of the others any more, so this place ends, and the job."""
        self._broken(error)
        self.on_end(f"place {self.core.here} hears nothing any more: {serialization.summary(error)}")
        self.over.set()

    def change(self, act: Callable[[], Iterable[e.Effect]], *, soon: bool = False) -> None:
        """Change the core, and carry out what it asks for; ``soon``: messages may go a little later, with others."""
        with self.lock:
            rest = self._send(act(), soon=soon)
        self.interpret(rest)

    def carry_out(self, effects: Iterable[e.Effect]) -> None:
        """Interpret effects under the lock, which the caller holds; what needs no lock is done on another thread."""
        rest = self._send(effects)
        if rest:
            self.chores.submit(partial(self.interpret, rest))

    def _send(self, effects: Iterable[e.Effect], *, soon: bool = False) -> list[e.Effect]:
        rest: list[e.Effect] = []
        for effect in effects:
            match effect:
                case e.Send(dst, message, payload):
                    self.messages_sent += 1
                    if isinstance(payload, Carrying):
                        self._send(self.counting.send_ahead(dst, payload), soon=True)  # in one go with what follows
                    try:
                        self.transport.send(dst, m.encode(message), payload, soon=soon)
                    except (UnknownPeerError, TransportClosedError):
                        # lost or gone, which the transport reports where that matters; or the program is over
                        _log.debug("place %d: %s to place %d dropped", self.core.here, type(message).__name__, dst)
                    except Exception as error:
                        # what it was about is counted already, and will be waited for
                        self._broken(error)
                        raise
                case e.MembersChanged():
                    self._enter(effect)
                    if effect.died:
                        rest.append(effect)
                case e.ResolveCall(call) | e.CallLost(call):
                    self._settling[call] = self._futures.pop(call)
                    rest.append(effect)
                case _:
                    rest.append(effect)
        return rest

    def interpret(self, effects: Sequence[e.Effect]) -> None:  # noqa: C901 - one arm an effect
        """Carry out effects outside of the lock."""
        for effect in effects:
            match effect:
                case e.RunActivity(src, spawn, payload):
                    self._begin(src, spawn, payload)
                case e.RunImmediate(src, payload):
                    self._run_immediate(src, payload)
                case e.RunUncounted(src, payload):
                    self.executor.submit(partial(self._run_uncounted, src, self._calls.arrived(src, payload)))
                case e.ResolveCall(call, ok, payload):
                    self._resolve(call, payload, ok=ok)
                case e.CallLost(call, place):
                    self._settling[call][1].set_exception(self.death(place, 1))
                    del self._settling[call]
                    self.transport.loop.nudge()
                case e.FinishFired():
                    with suppress(InvalidStateError):  # its wait was given up
                        self._fired.pop(effect.finish).set_result(effect)
                    self.transport.loop.nudge()
                case e.PassOn(finish, lives):
                    wait_s = HOLD_S if lives else max(0.0, self._passed_on_s + GATHER_S - time.monotonic())
                    self.transport.loop.call_later(wait_s, partial(self._pass_on, finish))
                case e.LeaverDrained(order, place):
                    self.on_leaver_drained(order, place)
                case e.PlaceLost(place, reason):
                    self.on_place_lost(place, reason)
                case e.Leaves():
                    self.counting.leave()
                    # place 0 waits for our process to end, not only for our transport
                    self.transport.hold(0)
                    self.over.set()
                case e.Ends(reason):
                    self.on_end(reason)
                    self.over.set()
                case e.StaysOn():
                    for go_on in self.on_stay:
                        go_on()
                case e.MembersChanged(died=died):
                    for place in died:
                        self._await_cut_off(place)
                case e.Send():
                    raise AssertionError("sends are carried out under the lock")
                case _:
                    assert_never(effect)

    def _resolve(self, call: int, payload: e.Payload, *, ok: bool) -> None:
        future = self._settling[call][1]
        try:
            if not payload:
                raise CancelledError("its finish was cancelled before it began")
            value = serialization.loads(payload) if ok else serialization.load_error(payload[0])
        except BaseException as error:  # noqa: BLE001 - whatever unpickling raises belongs to the caller
            ok, value = False, error
        if ok:
            future.set_result(value)
        else:
            future.set_exception(value)
        del self._settling[call]

    def _pass_on(self, finish: m.FinishId) -> None:
        """(io thread) Pass reports of a dense finish on."""
        self._passed_on_s = time.monotonic()
        self.change(lambda: self.core.pass_on(finish))

    # members ---------------------------------------------------------------------------------------------------------

    def _enter(self, change: e.MembersChanged) -> None:
        """Enter an epoch, with the lock held; what died is left to ``_await_cut_off``."""
        self.transport.learn({info.place: (info.host, info.port) for info in change.added})
        self._nodes.update((info.place, info.node) for info in change.added)
        for place in (*change.removed, *change.died):
            self.transport.forget(place)
        for place in change.removed:
            # what it has sent uncounted may still be on its way
            self.transport.on_gone(place, partial(self._calls.forget, place))
        self.counting.entered()
        self.on_members(change.epoch, [info.place for info in change.added])
        for info in change.added:
            if self.transport.is_lost(info.place):
                # when its loss was reported it was none of ours, and is not reported again
                why = "it was lost before it was a member"
                self.transport.loop.call_soon(partial(self.on_lost, info.place, why))
            elif self.core.survives:
                # one that dies before it has said a word is noticed, too
                with suppress(UnknownPeerError, TransportClosedError):  # it is being reported, or the program is over
                    self.transport.connect(info.place)

    def _await_cut_off(self, place: int) -> None:
        """Take what a dead place has sent until its connection ends, or as long as that may last; then nothing more."""
        self.transport.on_gone(place, partial(self._cut_off, place))
        self.transport.loop.call_later(CUT_OFF_S, partial(self._cut_off, place))
        for hear in self.on_place_died:
            hear(self.place(place))

    def _cut_off(self, place: int) -> None:
        self.change(lambda: self.core.cut_off(place))
        self._calls.forget(place)

    def death(self, place: int, activities: int) -> DeadPlaceError:
        """Make the error that says that a place has died, and how many activities with it."""
        epoch, node = self.core.membership.dead[place]
        return DeadPlaceError(place, epoch, node, activities)

    # activities ------------------------------------------------------------------------------------------------------

    def _begin(self, src: int, spawn: m.Spawn, payload: e.Payload) -> None:
        """Take an activity that another place sent."""
        load = self._calls.arrived(src, payload)
        if len(payload[0]) <= _SMALL_BYTES and self.transport.loop.in_thread():
            self.transport.loop.run_last(partial(self._run_inline, src, spawn, load))
        else:
            self.executor.submit(partial(self._run, src, spawn, load))

    def _run_inline(self, src: int, spawn: m.Spawn, load: Callable[[], Call]) -> None:
        """(io thread, last) Run an activity here if it is expected to be short, else on a thread of the pool."""
        try:
            call = load()
        except BaseException:  # noqa: BLE001 - the second attempt fails where its error is taken care of
            self.executor.submit(partial(self._run, src, spawn, load))
            return
        if self._inline.expects(call[0]) and not self.transport.crowded(src):
            self._inline.doubt(call[0])  # if it takes long this time, others of it are not to pile up behind it
            self._run(src, spawn, lambda: call, self._hand_off, soon=self.transport.loop.busy)
        else:
            self.executor.submit(partial(self._run, src, spawn, lambda: call))

    @contextmanager
    def _hand_off(self) -> Iterator[None]:
        """Around a wait in an activity that the io thread runs."""
        self.transport.loop.hand_off()
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
        core = self.core
        if not core.may_begin(spawn.finish):
            self.change(lambda: core.dropped(src, spawn))
            return
        error: bytes | None = None
        try:
            answer = call_within(Scope(spawn.finish), waiting or self.executor.waiting, self._answer, src, load)
        except BaseException as raised:  # noqa: BLE001 - an activity's error travels, whatever it is
            error = serialization.dump_error(raised, core.here, self.here.node)
            answer = [error]
        to_finish = None if spawn.to_caller else error
        with suppress(SlowPeerError):
            # the answer has to go, even to a place that takes nothing for a minute
            self.transport.throttle(src)
        self.change(lambda: core.answered(src, spawn, answer, ok=error is None, error=to_finish), soon=soon)

    def _answer(self, src: int, load: Callable[[], Call]) -> e.Payload:
        fn, args, kwargs = load()
        return serialization.dumps(self._run_function(src, fn, args, kwargs))

    @context.runs("fn")
    def _run_function(self, src: int, fn: Callable[..., T], args: tuple[Any, ...], kwargs: dict[str, Any]) -> T:
        began_s = time.perf_counter()
        try:
            if not trace.on:
                value = fn(*args, **kwargs)
            else:
                with trace.span(serialization.name_of(fn), "activity", sent_by=src):
                    value = fn(*args, **kwargs)
        finally:
            self.end_forked_child()
        self._inline.learn(fn, time.perf_counter() - began_s)
        self.activities_run += 1  # two threads may count one, which does no harm
        return value

    def _run_local(self, scope: Scope, call: Call, future: Future[Any], *, to_caller: bool) -> None:
        """Run an activity that this place sent itself: nothing is pickled but an error for the finish."""
        core = self.core
        if not core.may_begin(scope.finish):
            future.set_exception(CancelledError("its finish was cancelled before it began"))
            self.change(lambda: core.ended(scope.finish))
            return
        error: bytes | None = None
        try:
            value = call_within(scope, self.executor.waiting, self._run_function, core.here, *call)
        except BaseException as raised:  # noqa: BLE001 - an activity's error goes to its finish, whatever it is
            if not to_caller:
                error = serialization.dump_error(raised, core.here, self.here.node)
            future.set_exception(raised)
        else:
            future.set_result(value)
        self.transport.loop.nudge()
        self.change(lambda: core.ended(scope.finish, error))

    def end_forked_child(self) -> None:
        """End this process if the program has forked it and it comes back here, where its parent goes on.

        It would wait for threads that it has not, and hold the job's connections and output for ever.
        """
        if self._forked:
            said = "apgas: a process that the program has forked came back to the runtime and is ended; use os._exit\n"
            with suppress(OSError):
                os.write(2, said.encode())  # the lock of sys.stderr may have been held when it was forked
            os._exit(1)

    @context.runs("fn")
    def _run_immediate(self, src: int, payload: e.Payload) -> None:
        """(io thread) Run an immediate."""
        load = self._calls.arrived(src, payload)
        try:
            fn, args, kwargs = load()
            try:
                fn(*args, **kwargs)
            finally:
                self.end_forked_child()
        except BaseException as error:  # noqa: BLE001 - the job ends with it
            here = self.core.here
            _log.exception("place %d: an immediate failed", here)
            self.fail(f"an immediate failed on place {here}: {serialization.summary(error)}")

    def _run_uncounted(self, src: int, load: Callable[[], Call]) -> None:
        """Run an activity that no finish counts: what it raises is logged here."""
        name = "its function"

        @context.runs("fn")
        def run() -> None:
            nonlocal name
            fn, args, kwargs = load()
            name = serialization.name_of(fn)
            with trace.span(name, "activity", sent_by=src):
                try:
                    fn(*args, **kwargs)
                finally:
                    self.end_forked_child()

        try:
            call_within(None, self.executor.waiting, run)
        except BaseException as error:  # noqa: BLE001 - an activity's error, whatever it is
            from apgas.runtime import exceptions

            exceptions.folded(error)
            _uncounted_log.exception("place %d: %s, sent uncounted by place %d, failed", self.core.here, name, src)
        self.change(self.core.uncounted_ended)


_drivers: Final[weakref.WeakSet[Driver]] = weakref.WeakSet()


def _mark_forked() -> None:
    for driver in _drivers:
        driver._forked = True  # noqa: SLF001 - the driver's own, of which a child has a copy


os.register_at_fork(after_in_child=_mark_forked)


# The inline policy ---------------------------------------------------------------------------------------------------

INLINE_S: Final = 200e-6
"""A call that returns within this time was short."""
TRUSTED: Final = 2
"""Short calls after which a function is expected to be short."""
_MOST: Final = 4096
"""Functions remembered; beyond it all are forgotten, for a program that makes more has no use for the memory."""


class InlinePolicy:
    """Decides by experience which functions the io thread runs itself, without a change of threads.

    It counts the short calls of each function; one long call outweighs eight. Functions are known by their code.
    """

    def __init__(self) -> None:
        self._scores: dict[int, int] = {}
        self._known: dict[int, object] = {}

    def expects(self, fn: object) -> bool:
        """Return whether ``fn`` is expected to return at once."""
        return self._scores.get(id(getattr(fn, "__code__", fn)), 0) >= TRUSTED

    def doubt(self, fn: object) -> None:
        """Expect no call of ``fn`` to return at once while one is under way: ``learn`` trusts it again if that did."""
        self._scores[id(getattr(fn, "__code__", fn))] = TRUSTED - 1

    def learn(self, fn: object, seconds: float) -> None:
        """Take note of how long a call of ``fn`` took. Any thread: a score that gets lost now and then does no harm."""
        key = getattr(fn, "__code__", fn)
        if not isinstance(key, CodeType | BuiltinFunctionType):
            return
        score = self._scores.get(id(key), 0)
        if seconds > INLINE_S:
            score = max(-8, score - 8)
        elif score < TRUSTED:
            score += 1
        else:
            return
        if id(key) not in self._known:
            if len(self._known) >= _MOST:
                self._scores.clear()
                self._known.clear()
            self._known[id(key)] = key
        self._scores[id(key)] = score


# The place of a thread -----------------------------------------------------------------------------------------------


def current_driver() -> Driver | None:
    """The place that this thread works for; None outside of ``apgas.run``."""
    found: Driver | None = this_thread.driver
    return found


def required_driver() -> Driver:
    """The place that this thread works for.

    Raises:
        UsageError: Called outside of ``apgas.run``.
    """
    found: Driver | None = this_thread.driver
    if found is None:
        raise UsageError("this works inside of apgas.run only: call apgas.run(main)")
    return found


def keep_driver(driver: Driver) -> None:
    """Let this thread work for ``driver`` for good: it may outlive its program, and must not work for the next."""
    this_thread.driver = driver


@contextmanager
def working_for(driver: Driver | None) -> Iterator[None]:
    """Let this thread work for ``driver`` within the block: simulated places share a process."""
    before = this_thread.__dict__.get("driver")
    this_thread.driver = driver
    try:
        yield
    finally:
        if before is None:
            del this_thread.driver
        else:
            this_thread.driver = before


# State of libraries --------------------------------------------------------------------------------------------------


class PlaceState(Generic[T]):
    """One object per place, for a module's variable: ``_state = PlaceState(State)`` where ``_state = State()`` stood.

    Every process imports the module and has a ``PlaceState`` of its own, so nothing travels. With one place in a
    process both are the same; where a process simulates places (``apgas_job``), each place has its own object. For
    objects of a program, which are made once and sent along, there is ``PlaceLocal``.

    Args:
        factory: Makes the object of a place when it is first asked for; it must not use other places.
    """

    def __init__(self, factory: Callable[[], T]) -> None:
        self._factory = factory

    def get(self) -> T:
        """Read this place's object.

        Returns:
            The object itself, not a copy.

        Raises:
            UsageError: Called outside of ``apgas.run``.
        """
        objects = required_driver().objects
        try:
            return cast(T, objects.local[self])
        except KeyError:
            return cast(T, objects.made(self, self._factory))

    def __reduce__(self) -> NoReturn:
        raise TypeError("a PlaceState does not travel: make it in a module that every place imports, or a PlaceLocal")
