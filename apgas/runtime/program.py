"""``apgas.run``: the life of a program, seen from place 0."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final, ParamSpec, TypeVar

from apgas.errors import UsageError
from apgas.malleability.communicator import Communicator
from apgas.malleability.orders import ENV_SCHEDULER
from apgas.runtime import lifetime, process
from apgas.runtime.context import Scope, entered
from apgas.runtime.driver import Driver
from apgas.runtime.resizing import Resizing

P = ParamSpec("P")
T = TypeVar("T")

PARTING_S: Final = 2.0
"""How long place 0 waits for the other places to end."""

INTERRUPTED: Final = 128 + signal.SIGINT
TERMINATED: Final = 128 + signal.SIGTERM
"""Exit codes of a job that was ended by a signal, as shells give them."""

_log = logging.getLogger("apgas")


class Program:
    """The program that this process is place 0 of."""

    def __init__(self, driver: Driver, resizing: Resizing) -> None:
        self.driver = driver
        self.resizing = resizing
        driver.on_place_lost = self._lost

    def _lost(self, place: int, reason: str) -> None:
        """A place died: say so and end the job, at once, before mpiexec does it without a word."""
        with self.driver.lock:
            if self.driver.core.over:
                return
            known = self.driver.core.membership.members.get(place) if place else None
            who = f"place {place} ({known.node}, pid {known.pid}) died: {reason}" if known else reason
            sys.stderr.write(f"apgas: {who}; the job ends\n")
            lifetime.abort(1)


def _terminate(*_: object) -> None:
    raise SystemExit(TERMINATED)


_program: Program | None = None


def program() -> Program:
    """The program, on place 0.

    Raises:
        UsageError: This is not place 0, or ``apgas.run`` is not running.
    """
    if _program is None:
        raise UsageError("this works on place 0, inside of apgas.run only")
    return _program


def run(main: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run ``main`` on place 0, while the other places serve; returns its value when all it spawned has ended.

    Started by ``mpiexec -n K python prog.py`` there are K places, by plain ``python prog.py`` one. On the other places
    this call does not return: their process ends with the program. If a place dies, the whole job ends at once with a
    message and exit code 1; Ctrl-C ends it with 130, TERM with 143.

    Raises:
        UsageError: A program runs already in this process, or mpiexec belongs to another MPI.
        ExceptionGroup: Activities that no other finish covers raised errors.
        BaseException: What ``main`` raised.
    """
    global _program  # noqa: PLW0603 - one program a process
    if process.driver() is not None:
        raise UsageError("apgas.run can be called once per process")
    listener = process.Listener()
    identity = lifetime.start_world(listener)
    driver = process.build(identity, listener)
    if identity.place != 0:
        process.serve(driver)
        lifetime.finalize()
        sys.exit(0)
    signal.signal(signal.SIGTERM, _terminate)
    resizing = Resizing(driver, listener.token)
    _program = Program(driver, resizing)
    communicator = _connect(resizing)
    try:
        return _run_main(_program, main, *args, **kwargs)
    except KeyboardInterrupt:
        _part(_program, communicator, "interrupted")
        sys.stderr.write("apgas: interrupted; the job ends\n")
        raise SystemExit(INTERRUPTED) from None
    except SystemExit as leave:
        if leave.code == TERMINATED:
            _part(_program, communicator, "terminated")
            sys.stderr.write("apgas: terminated; the job ends\n")
        raise
    finally:
        _part(_program, communicator, "" if sys.exc_info()[0] in (None, SystemExit) else "the program failed")


def _run_main(this: Program, main: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    finish = this.driver.open_finish()
    failed = True
    try:
        with entered(Scope(finish)):
            value = main(*args, **kwargs)
        failed = False
    finally:
        if failed:
            # what still runs elsewhere is ended with the job; waiting for it could take for ever
            this.resizing.drain_scheduled()
    errors = this.driver.close_finish(finish)
    this.resizing.disable()
    if errors:
        raise BaseExceptionGroup("activities failed", errors)
    return value


def _connect(resizing: Resizing) -> Communicator | None:
    """Connect to the scheduler that started us, if one did."""
    if ENV_SCHEDULER not in os.environ:
        return None
    from apgas.malleability.socket import from_environment

    communicator = from_environment()
    if communicator is not None:
        resizing.communicator = communicator
        communicator.start(resizing)
    return communicator


def _part(this: Program, communicator: Communicator | None, reason: str) -> None:
    """End every place, in good order where possible; once."""
    driver = this.driver
    with driver.lock:
        others = [place for place in driver.core.membership.members if place != 0]
        first = not driver.over.is_set() and not driver.core.over
        if first:
            driver.carry_out(driver.core.end(reason))
            for place in others:
                driver.transport.forget(place)
        driver.over.set()
    if not first:
        return
    gone = threading.Semaphore(0)
    for place in others:
        driver.transport.on_gone(place, gone.release)
    for _ in others:
        if not gone.acquire(timeout=PARTING_S):
            _log.warning("not every place has ended within %s s", PARTING_S)
            break
    if communicator is not None:
        communicator.close()
    process.close(driver)
    with suppress(Exception):
        lifetime.finalize()
