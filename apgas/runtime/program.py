"""``apgas.run``: the life of a program, seen from place 0; interrupts, and its timeline."""

from __future__ import annotations

import _thread
import atexit
import logging
import math
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Final, NoReturn, ParamSpec, TypeVar, overload

from apgas.errors import ApgasError, UsageError
from apgas.malleability import ENV_SCHEDULER, ENV_V1_SCHEDULER
from apgas.runtime import context, environment, launched, process, resilience, serialization, watchdog
from apgas.runtime import trace as events
from apgas.runtime.api import at, places
from apgas.runtime.context import Scope, at_end, entered
from apgas.runtime.driver import Driver, current_driver
from apgas.runtime.watchdog import Alarm, Reminder

if TYPE_CHECKING:
    from pathlib import Path
    from sys import UnraisableHookArgs

    from apgas.malleability.communicator import Communicator
    from apgas.runtime.resizing import Resizing


P = ParamSpec("P")
T = TypeVar("T")

END_S: Final = 2.0
"""How long place 0 waits for the other places to end."""

LINGER_S: Final = 20.0
"""How much longer it waits at the end of its own process. On a machine that is busy with much else, newcomers loaded
what they need for 6 s and more when the program was over, and a job with its result failed for it."""

END_FAILED_S: Final = 1.2
"""Likewise if the program has failed, and activities may run that cannot be stopped."""

SETTLE_S: Final = 1.5
"""How long a job that fails waits for the order that it is carrying out."""

_log = logging.getLogger("apgas")


class Program:
    """The program of place 0; ``make`` makes what ``resizing`` returns, and nothing of that is loaded before.

    Attributes:
        driver: Its place.
        resizing_if_any: What ``resizing`` returns, once it has been asked for.
        at_end: Called when ``main`` and what it spawned have ended, by libraries that have work under way beside.
    """

    def __init__(self, driver: Driver, make: Callable[[], Resizing]) -> None:
        self.driver = driver
        self.resizing_if_any: Resizing | None = None
        self.at_end: list[Callable[[], object]] = []
        self._make = make
        self._making = threading.Lock()
        driver.objects.local[Program] = self

    @property
    def resizing(self) -> Resizing:
        """Its orders."""
        with self._making:
            if self.resizing_if_any is None:
                self.resizing_if_any = self._make()
            return self.resizing_if_any

    def disconnect(self) -> None:
        """Disconnect from the scheduler, if there is one."""
        if self.resizing_if_any is not None and self.resizing_if_any.communicator is not None:
            self.resizing_if_any.communicator.close()


class Job(Program):
    """The program that this process is place 0 of."""

    def __init__(self, driver: Driver, make: Callable[[], Resizing]) -> None:
        super().__init__(driver, make)
        driver.on_place_lost = self._lost
        self.interrupts = Interrupts(driver, self.stop)

    def _lost(self, place: int, reason: str) -> None:
        """A place died: report it and end the job, at once (no lock), before mpiexec does so without a message."""
        if self.driver.core.over:
            return
        if place and resilience.wanted():
            gone = self.driver.place(place)
            _report(f"apgas: {gone} on {gone.node} died: {reason}; the job goes on\n")
            return
        known = self.driver.core.membership.members.get(place) if place else None
        who = f"place {place} ({known.node}, pid {known.pid}) died: {reason}" if known else reason
        if known and watchdog.has_second():
            # it says how the place ended, and ends the job; unless it has died, too, as on a node that fails
            environment.kill_remains(watchdog.is_beside)
            time.sleep(watchdog.SPOKEN_S)
        _report(f"apgas: {who}; the job ends\n")
        process.abort(1)

    def stop(self, by: signal.Signals, error: BaseException | None = None) -> NoReturn:
        """A signal ended the job: end it before mpiexec, which has had the signal, too, kills the processes.

        Whether ``error`` is a defect of the program's clean-up, or comes of a lock that was taken, cannot be known.
        """
        self.interrupts.ending(by)
        _report_end(by, error)
        self.disconnect()
        process.abort(128 + by)


class Terminated(KeyboardInterrupt):
    """TERM came: to programs it is what Ctrl-C is, but who ends the process for it knows the two apart."""


def _interrupt_behind(error: BaseException | None) -> KeyboardInterrupt | None:
    """``error``, if it is a KeyboardInterrupt, or the one because of which it was raised."""
    if isinstance(error, SystemExit):
        return None  # the program has ended itself, after its clean-up
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error


def end_interrupted(error: BaseException) -> NoReturn:
    """End the process as ``run`` does for Ctrl-C or TERM, of which ``error`` is.

    The program may be over by now: the executor has ended it when the script left its block.
    """
    by = signal.SIGTERM if isinstance(_interrupt_behind(error), Terminated) else signal.SIGINT
    this = _of(current_driver())
    if isinstance(this, Job):
        this.stop(by, error)
    _report_end(by, error)
    process.abort(128 + by)


def _report_end(by: signal.Signals, error: BaseException | None) -> None:
    """Report that ``by`` ends the job, and what became of its KeyboardInterrupt if that is another ``error`` now."""
    became = ""
    if error is not None and not isinstance(error, KeyboardInterrupt):
        became = f" ({serialization.summary(error)})"
    _report(f"apgas: {watchdog.SIGNALS[by]}; the job ends{became}\n")


def _report(text: str) -> None:
    with suppress(Exception):  # its reader may be gone
        sys.stderr.write(text)


_unstarted: list[UsageError] = []
"""Why no program could begin here: reported without a traceback, for where ``apgas.run`` stands explains nothing."""


def _show_folded(show: Callable[[type[BaseException], BaseException, TracebackType | None], object]) -> None:
    """Have errors that end the process shown without the frames of the runtime, by whatever shows them."""

    def show_folded(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        from apgas.runtime import exceptions

        if isinstance(_interrupt_behind(error), Terminated):  # the script's, with a program of an executor's
            end_interrupted(error)
        if error in _unstarted and not exceptions.full():
            _report("".join(traceback.format_exception_only(error)))
            return
        error.__traceback__ = trace
        show(kind, exceptions.folded(error), error.__traceback__)

    sys.excepthook = show_folded


_unfinished: tuple[Job, list[int]] | None = None
"""The last program, if not all of it could be ended with it, and its other places."""

_ending: Final = environment.Processes()
"""The other processes of the last program on this machine, which may not have ended yet."""


def program() -> Program:
    """The program, on place 0.

    Raises:
        UsageError: This is not place 0, or ``apgas.run`` is not running.
    """
    found = _of(current_driver())
    if found is None:
        raise UsageError("this works on place 0, inside of apgas.run only")
    return found


def _of(driver: Driver | None) -> Program | None:
    found: Program | None = None if driver is None else driver.objects.local.get(Program)
    return found


@overload
def run(
    main: Callable[..., T], *args: object, setup: Callable[[], object], resilient: bool = ..., **kwargs: object
) -> T: ...


@overload
def run(main: Callable[..., T], *args: object, resilient: bool, **kwargs: object) -> T: ...


@overload
def run(main: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T: ...


def run(main: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    """Run ``main`` on place 0, while the other places serve; returns its value when all it spawned has ended.

    Started by ``mpiexec -n K python prog.py`` there are K places, by plain ``python prog.py`` one, which may grow on
    this machine. On the other places this call does not return: their process ends with the program. If a place dies,
    the whole job ends at once with a message and an exit code other than 0 (1, or the signal's number if mpiexec was
    quicker), unless it is resilient; Ctrl-C ends it with 130, TERM with 143: both raise
    ``KeyboardInterrupt`` in ``main``. A program that catches that goes on, or ends with a code of its own.

    Without mpiexec, and on the tcp transport, it can be called again when it has returned, or raised: in a notebook,
    say. Places that joined end with each program, ids and epochs begin anew, and references of an earlier program lead
    to nothing. In a notebook, and in any other interactive interpreter, Ctrl-C ends the program only, and
    raises ``KeyboardInterrupt``.

    Args:
        main: The program.
        *args: Its arguments.
        setup: Called without arguments by every place before anything else of the program runs there: by the first ones
            before MPI is loaded, by newcomers before they join. It does what the main script does at its top, which
            newcomers do not run: warnings, logging, limits of libraries. It is no activity, and there is no ``here()``
            in it. If it raises on one of the first places the job ends; on a newcomer, its order is aborted. Newcomers
            also have the environment of place 0, as it stands when they are spawned, its filters of warnings, its
            working folder, ``sys.path`` and ``sys.argv``.
        resilient: Whether the job goes on when places other than 0 die; False: if it was started with
            ``APGAS_RESILIENT=1``.
        **kwargs: Its keyword arguments.

    Returns:
        What ``main`` returned, on place 0.

    Raises:
        UsageError: A program runs already in this process, or something of the last one lives on, or no other can be
            run here; or the caller is not its main thread, or mpiexec belongs to another MPI, or was not started as
            a resilient job needs it.
        ExceptionGroup: Activities that no other finish covers raised errors.
        BaseException: What ``main`` raised.

    Example:
        >>> apgas.run(print, "hello from place 0")  # doctest: +SKIP
    """
    this = begin(kwargs.pop("setup", None), survive=kwargs.pop("resilient", False))
    try:
        value = run_main(this, main, *args, **kwargs)
        if this.resizing_if_any is not None and this.resizing_if_any.calibration is not None:
            this.resizing_if_any.calibration.store(this.resizing_if_any.records)
    except BaseException as error:
        by = this.interrupts.signalled
        if by is not None and _interrupt_behind(error) is not None and not _outlives(by):
            this.stop(by, error)
        if isinstance(error, Exception):
            from apgas.runtime import exceptions

            exceptions.folded(error)  # where errors are shown otherwise, the runtime's frames stay
        raise
    finally:
        shut_down(this, sys.exc_info()[1])
    return value


def begin(setup: Callable[[], object] | None = None, *, survive: bool = False, alone: bool = False) -> Job:
    """Begin a program, which goes on in the caller until ``shut_down``; on the other places this does not return.

    ``survive``: it goes on without places that are lost, whatever the variable says. ``alone``: without MPI, which
    would end all with one.

    Raises:
        UsageError: None can begin here, or now; see ``run``.
    """
    if threading.current_thread() is not threading.main_thread():
        raise UsageError("apgas.run works in the main thread only: there it hears of Ctrl-C")
    if _unfinished is not None:
        _finish_last_end()
    if current_driver() is not None:
        raise UsageError("a program runs already in this process: apgas.run cannot be called within it")
    _await_processes()
    if sys.excepthook.__module__ != __name__:
        _show_folded(sys.excepthook)
    try:
        alone = alone or environment.needs_no_mpi(os.environ)
        if not alone:
            process.check_that_mpi_lives()
    except UsageError as error:
        _unstarted.append(error)
        raise
    if setup is not None:
        setup()
    try:
        resilience.survive_anyway(survive=survive)
        start = process.start_alone() if alone else process.start_world()
    except UsageError as error:
        _unstarted.append(error)
        raise
    driver = process.build(start)
    if start.place != 0:
        process.leave(process.serve(driver))
    this = Job(driver, partial(_make_resizing, driver, start.token, setup, time.monotonic(), alone=alone))
    try:
        _prepare_resizing(this)
    except BaseException:
        shut_down(this, sys.exc_info()[1])
        raise
    return this


@context.runs("main")
def run_main(this: Program, main: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run ``main`` and wait for all that it spawned.

    If it raises, what still runs elsewhere is ended with the job: waiting for it could take for ever.

    Raises:
        BaseExceptionGroup: Activities that no other finish covers raised errors.
        BaseException: What ``main`` raised.
    """
    finish = this.driver.open_finish()
    with entered(Scope(finish)):
        try:
            value = main(*args, **kwargs)
        finally:
            this.driver.end_forked_child()
    at_end()
    errors = this.driver.close_finish(finish)
    for end in this.at_end:
        end()
    if this.resizing_if_any is not None:
        this.resizing_if_any.end()
        _write_timeline(this.driver, this.resizing_if_any)
    if errors:
        raise BaseExceptionGroup("activities failed", errors)
    return value


def _write_timeline(driver: Driver, resizing: Resizing) -> None:
    tracing = resizing.tracing
    if tracing is None:
        return
    finish = driver.open_finish()
    with entered(Scope(finish)):
        if driver.core.survives:  # one that dies takes no events of others along
            tracing.collect(driver.places())
        else:
            _, *others = driver.places()
            for place, taken in events.take_all(others):
                tracing.add(place, taken)
    driver.close_finish(finish)
    try:
        tracing.add_resizes(zip(resizing.records, resizing.records_zero_ns, strict=True))
        tracing.write()
    except OSError as error:
        # the program has its result: that must not be lost with a picture of how it came about
        _report(f"apgas: the timeline {tracing.path} cannot be written: {error.strerror}\n")


def _make_resizing(
    driver: Driver, token: bytes, setup: Callable[[], object] | None, began_s: float, *, alone: bool
) -> Resizing:
    from apgas.runtime.resizing import Resizing
    from apgas.runtime.spawning import ChildSpawner, LaunchSpawner, MpiSpawner

    spawner = ChildSpawner if alone else MpiSpawner if launched.begun is None else LaunchSpawner
    with driver.lock:
        return Resizing(driver, spawner(driver, token, setup), began_s=began_s)


def _prepare_resizing(this: Program) -> None:
    """Do what the environment asks for; a program that neither it nor ``main`` ever resizes does without all that."""
    places_per_node = environment.places_per_node(os.environ)
    if places_per_node > 1:
        this.resizing.share_nodes(places_per_node)
    if environment.ENV_CALIBRATION in os.environ:
        from apgas.runtime import calibration

        this.resizing.calibration = calibration.from_environment(os.environ)
    scheduler: Communicator | None = None
    if ENV_SCHEDULER in os.environ:
        from apgas.malleability.communicator import from_environment

        scheduler = from_environment()
    elif ENV_V1_SCHEDULER in os.environ:
        from apgas.malleability.v1 import communicator as v1

        scheduler = v1.from_environment()
    if scheduler is not None:
        this.resizing.communicator = scheduler
        scheduler.start(this.resizing)


def shut_down(this: Job, error: BaseException | None) -> None:
    """End every place, because the program is over or left ``main`` by ``error``; signals are not ours afterwards."""
    try:
        _end(this, error)
    except KeyboardInterrupt as interrupt:
        if this.interrupts.signalled is None or _outlives(this.interrupts.signalled):
            raise
        this.stop(this.interrupts.signalled, interrupt)
    finally:
        this.interrupts.restore_handlers()


def _outlives(by: signal.Signals = signal.SIGINT) -> bool:
    """Whether this process goes on after ``by``: a notebook, or another interactive interpreter."""
    alone = environment.launched_by(os.environ).kind == "none"
    return alone and by is signal.SIGINT and (hasattr(sys, "ps1") or bool(sys.flags.interactive))


def _end(this: Job, error: BaseException | None) -> None:
    """End every place, in good order where possible."""
    global _unfinished  # noqa: PLW0603 - of the process
    driver = this.driver
    if _outlives():
        error = None  # it ended the program, and not the process
    reason = "" if error is None or isinstance(error, SystemExit) else "the program failed"
    members = driver.core.membership.members.values()
    _ending.hold(info.pid for info in members if info.place and info.node == driver.here.node)
    others = end_places(this, reason)
    if all_gone(driver, others, END_S if error is None else END_FAILED_S) and not _spawning(this):
        _close(this, LINGER_S if error is None else END_FAILED_S)
        return
    if error is not None:
        _end_by_force(this, error)
    # what the program does with its result comes first; then mpiexec would wait for them, for ever perhaps
    _unfinished = this, others
    atexit.register(_finish_at_exit, this, others)


def _await_processes() -> None:
    """Wait for the last program's processes of this machine, whose connections have ended before.

    MPI may take one that is about to end, while it starts others, for one that has failed, and kill the job.

    Raises:
        UsageError: One does not end.
    """
    running = _ending.running(LINGER_S)
    if running:
        raise UsageError(f"the last program has not ended: its processes {running} still run")


def _finish_last_end() -> None:
    """Finish what the end of the last program has left to the end of the process.

    Raises:
        UsageError: Something of it lives on.
    """
    global _unfinished  # noqa: PLW0603 - of the process
    assert _unfinished is not None
    this, others = _unfinished
    if not all_gone(this.driver, others, LINGER_S) or _spawning(this):
        raise UsageError(f"the last program has not ended: of its places {others} one still runs, or is being started")
    atexit.unregister(_finish_at_exit)
    _unfinished = None
    _close(this)


def _spawning(this: Job) -> bool:
    """Whether MPI is still busy with newcomers."""
    if this.resizing_if_any is None:
        return False
    from apgas.runtime import spawning

    return spawning.under_way > 0


def _finish_at_exit(this: Job, places: Sequence[int]) -> None:
    """(end of this process) Give places that stand still or are slow to end a last chance, then end them by force."""
    driver = this.driver
    late = [place for place in places if not all_gone(driver, [place], 0.1)]
    if late and not all_gone(driver, late, LINGER_S):
        members = driver.core.membership.members
        who = ", ".join(f"place {place} ({members[place].node}, pid {members[place].pid})" for place in late)
        _report(f"apgas: {who} did not end within {LINGER_S:g} s after the program; the job is ended by force\n")
        process.abort(1)
    if _spawning(this):
        # a host has ceased to answer, say; an order that waited for it has been given up long ago
        process.abort(0)
    _close(this)


def _close(this: Job, flush_s: float = LINGER_S) -> None:
    this.disconnect()
    process.close(this.driver, flush_s)  # a newcomer that is still loading has to hear that the end is meant
    # threads of the program's own that wait for something of it wait no more
    this.driver.give_up(ApgasError("the program is over"))
    alone = environment.launched_by(os.environ).kind == "none" and process.mpi_plane is None
    process.forget()
    this.driver.objects.local.pop(Program)  # threads that outlive it are not of a program any more
    if alone:
        process.finalize_at_exit()  # until then another program may be run
        return
    with suppress(Exception):  # the job is over, whatever MPI has to say
        process.finalize()


def end_places(this: Program, reason: str) -> list[int]:
    """Notify every other place that the program is over, for ``reason`` (empty: well); returns whom to wait for."""
    driver = this.driver
    # newcomers that are just being spawned could not be notified of the end: let that order finish
    if this.resizing_if_any is not None:
        this.resizing_if_any.end(SETTLE_S)
    with driver.lock:
        if driver.core.over:
            return []
        others = [place for place in driver.core.membership.members if place != 0]
        driver.carry_out(driver.core.end(reason))
        for place in others:
            driver.transport.forget(place)
    return others


def all_gone(driver: Driver, places: Sequence[int], timeout_s: float) -> bool:
    """Wait until all of ``places`` have closed their connections; False if it took too long."""
    gone = threading.Semaphore(0)
    for place in places:
        driver.transport.on_gone(place, gone.release)
    until = time.monotonic() + timeout_s
    return all(gone.acquire(timeout=max(0.0, until - time.monotonic())) for _ in places)


def _end_by_force(this: Job, error: BaseException) -> NoReturn:
    """End places that are too busy to hear of the end: what runs there does not let go of the interpreter."""
    code: object = error.code if isinstance(error, SystemExit) else 1
    if not isinstance(error, SystemExit):
        sys.excepthook(type(error), error, error.__traceback__)
    elif code is not None and not isinstance(code, int):
        _report(f"{code}\n")
    this.disconnect()
    process.abort(code if isinstance(code, int) else int(code is not None))


# Signals -------------------------------------------------------------------------------------------------------------

ECHO_S: Final = 1.0
"""Within this time after a signal another one is taken for the same."""

RAISE_AGAIN_S: Final = 0.0002
"""After this time a signal is raised again that came in the middle of something."""


class Interrupts:
    """Turns Ctrl-C and TERM on place 0 into a KeyboardInterrupt in the main thread, while a program runs.

    ``on_ignored`` ends the job, on another thread, if the main thread is within MPI and does not come back.
    """

    _over: ClassVar[Interrupts | None] = None
    """Those of a program that has ended in another thread, where no handlers can be installed."""

    def __init__(self, driver: Driver, on_ignored: Callable[[signal.Signals], None]) -> None:
        if Interrupts._over is not None:
            Interrupts._over.restore_handlers()
        self.signalled: signal.Signals | None = None
        """The last signal."""
        self._driver = driver
        self._signalled_s = -math.inf
        self._put_off = False
        self._end = on_ignored
        self._alarm = Alarm(self._on_ignored) if process.mpi_plane is not None else Reminder(self._interrupt)
        self._let_go = process.handle_signals(self._interrupt)
        self._hook, sys.unraisablehook = sys.unraisablehook, self._on_dropped

    def restore_handlers(self) -> None:
        """Leave signals to those who took them before.

        Another thread than the main one cannot: the next signal does, or the next program, whichever comes first.
        """
        if threading.current_thread() is not threading.main_thread():
            Interrupts._over = self
            return
        Interrupts._over = None
        self._let_go()
        self._alarm.silence()
        if sys.unraisablehook == self._on_dropped:
            sys.unraisablehook = self._hook

    def ending(self, by: signal.Signals) -> None:
        """The job is being ended for a signal; code that keeps the interpreter's lock must not keep it from that."""
        self._alarm.ending(by)

    def _on_ignored(self, by: signal.Signals) -> None:
        """(thread of the alarm) End the job, unless the program has come to take the signal by itself."""
        if signal.getsignal(by) == self._interrupt:
            self._end(by)

    def _interrupt(self, number: int, _: object) -> None:
        """Raise in the main thread; remember why, for the exception may come out as another one (from a lock, say).

        One Ctrl-C may arrive twice, because mpiexec passes it on: the second must not interrupt what the first began.
        """
        self._alarm.heard()
        if self is Interrupts._over:
            self.restore_handlers()
            signal.raise_signal(number)
            return
        if time.monotonic() - self._signalled_s < ECHO_S or self._put_off:
            return
        locked: bool = self._driver.lock._is_owned()  # type: ignore[attr-defined]  # noqa: SLF001 - no public method says so
        # half a frame may be on its way, or half a change be made: who relies on the other half would be lost
        if locked and self._put_it_off(number):
            return
        self._signalled_s = time.monotonic()
        self.signalled = signal.Signals(number)
        kind = Terminated if self.signalled is signal.SIGTERM else KeyboardInterrupt
        if self._driver.transport.loop.may_lead():
            # it reads an answer itself, or is about to; what it does meanwhile must not be torn apart
            self._driver.interrupted = kind
            return
        raise kind

    def _on_dropped(self, dropped: UnraisableHookArgs) -> None:
        """Have the signal raised again if what it raised was dropped, as Python does within a destructor."""
        if self.signalled is None or not issubclass(dropped.exc_type, KeyboardInterrupt):
            self._hook(dropped)
            return
        if threading._SHUTTING_DOWN:  # type: ignore[attr-defined]  # noqa: SLF001 - it would end with 0, tasks lost or not
            self._end(self.signalled)
        self._put_off = True  # before another one is none any more that comes again: what it raised here would be lost
        self._signalled_s = -math.inf
        self._put_it_off(self.signalled)

    def _put_it_off(self, number: int) -> bool:
        """Have the signal raised again shortly; False if there is no thread that could do that."""
        self._put_off = True
        try:
            # threading has locks of its own, which the main thread may hold just now
            _thread.start_new_thread(self._give_again, (number,))
        except RuntimeError:
            self._put_off = False
            return False
        return True

    def _give_again(self, number: int) -> None:
        time.sleep(RAISE_AGAIN_S)
        self._put_off = False
        ident = threading.main_thread().ident
        assert ident is not None
        signal.pthread_kill(ident, number)


# The timeline --------------------------------------------------------------------------------------------------------


def trace(path: Path | str) -> None:
    """(place 0) Trace all places from now on, newcomers too, and write the timeline when the program has ended well.

    Open the file in Perfetto or chrome://tracing: activities, what libraries note, and orders with their phases, of all
    places on one clock.

    Args:
        path: The file, JSON in the Chrome trace event format.

    Raises:
        UsageError: Tracing is on already, or the file's folder cannot be written.

    Example:
        >>> apgas.trace("timeline.json")
    """
    from pathlib import Path  # most programs are not traced, and it takes long to load

    resizing = program().resizing
    path = Path(path).absolute()
    if resizing.tracing is not None:
        raise UsageError("the program is traced already")
    if not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
        raise UsageError(f"the timeline cannot be written: {path.parent} is no folder that can be written")
    resizing.tracing = events.Timeline(path, at)
    resizing.tracing.join(places())
