"""Small processes beside a place, which report what it cannot report any more, and end the job with a code.

Hydra, the process manager of MPICH, learns of the end of a process by the end of its PMI connection and of its output.
It then kills all others, at once: before another place could say which one died, and with a code that is 0 if the
process ended by ``_exit(0)``. So each place has a *second* (``start_second``), a shell that holds the same connection
and the same output. When the place ends without notice, its second reports it and aborts the job by PMI, with a code.
Where MPI has started hydra for a program that was started without, place 0 reports it; the second only aborts the job.

``apgas.launch`` waits for its processes itself, and says how each has ended: there, a place has no second, but
tells it who it is (``tell_launcher``).

A second is in the process group of its place. Hydra kills such groups as a whole, so that nothing is said of places
that die because the job is ended.

Where a thread of place 0 waits within MPI and keeps the interpreter's lock, no handler of a signal written in Python
runs. On the mpi plane, where programs call MPI, place 0 therefore has a watchdog (``Alarm``). It hears of a signal from
C, and ends the job if Python does not.

Standard library only: the watchdog runs this file alone.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Final

ENV_PMI: Final = "PMI_FD"

SPOKEN_S: Final = 0.8
"""After this time the second of a dead place has ended the job, or has died with it."""
READ_S: Final = 0.3
"""What hydra has not read when a job is aborted is lost; this is its time for the last line."""
HEED_S: Final = 3.0
"""After this time without the main thread, which may be within MPI, another thread carries a signal out."""
REMIND_S: Final = 0.1
"""After this time a signal that Python has not taken is raised again."""
FORCE_S: Final = 2.0
"""After this time more no thread has the interpreter, and the watchdog ends the job."""
_HUSHED: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
"""What reaches the whole process group, and is meant for the place."""
_PMI: Final = 3
"""The number that the PMI connection has in processes beside the place: shells redirect to one digit only."""
_BYE: Final = b"bye\n"
_HEARD: Final = 0
_ENDING: Final = 128
"""Added to a signal that Python has begun to carry out."""
SIGNALS: Final = {int(signal.SIGINT): "interrupted", int(signal.SIGTERM): "terminated"}
"""What ends a job from outside; its exit code is 128 plus the signal's number, as in shells."""

_SECOND: Final = """\
read -r word
[ "$word" ] && exit
how=
for _ in $(seq 25); do
    read -r stat </proc/"$2"/stat || break
    case ${stat##*) } in
        Z*)
            status=${stat##* }
            how=": exit code $((status >> 8))"
            [ $((status & 127)) -gt 0 ] && how=": signal $((status & 127))"
            break
    esac
    sleep 0.01
done 2>/dev/null
[ "$APGAS_QUIET_SECONDS" ] || echo "apgas: $1 died$how; the job ends" >&2
sleep "$3"
echo "cmd=abort exitcode=1" >&3
"""
"""Its arguments: who the place is, its pid, whose last state the kernel keeps until hydra has asked for it, READ_S."""
_BEGINNING: Final = ("sh", "-c", _SECOND)
"""What the command line of each second begins with."""

_link = -1
_beside: Final[set[int]] = set()  # pids of what was started beside this process
_launcher = -1
"""The stream to ``apgas.launch``, if that has started this process."""


def tell_launcher(words: str) -> None:
    """Say something to ``apgas.launch`` that has no answer, between the requests of MPI or of other threads."""
    global _launcher  # noqa: PLW0603 - one place a process
    if _launcher < 0:
        _launcher = int(os.environ[ENV_PMI])
        os.register_at_fork(after_in_child=_forget)
    with suppress(OSError):  # it has ended
        os.write(_launcher, words.encode())


def start_second(who: str) -> None:
    """Start the second of this place, if hydra started this process; without one the job ends as hydra has it.

    It ends with this process, quietly after ``dismiss_second``.
    """
    global _link  # noqa: PLW0603 - one place a process
    pmi = os.environ.get(ENV_PMI, "")
    if not pmi.isdecimal() or _link >= 0:
        return
    reading, writing = os.pipe()
    words = [*_BEGINNING, "sh", who, str(os.getpid()), str(READ_S)]
    with suppress(OSError):  # no shell, or no more processes
        _start("/bin/sh", words, reading, int(pmi))
        _link = writing
        os.register_at_fork(after_in_child=_forget)
    os.close(reading)
    if _link < 0:
        os.close(writing)


def dismiss_second() -> None:
    """From now on the end of this process is meant; or place 0 has said what there is to say. Any number of times."""
    if _link >= 0:
        with suppress(OSError):  # the second was killed
            os.write(_link, _BYE)
    if _launcher >= 0:
        tell_launcher("cmd=explained\n")


def has_second() -> bool:
    """Whether the end of a place is reported by another process: by its second, or by ``apgas.launch``."""
    return _link >= 0 or _launcher >= 0


def is_beside(pid: int) -> bool:
    """Whether a process of this machine stands beside this place, or is the second of any place.

    The second of a place that has died has something to say, and ends by itself.
    """
    if pid in _beside:
        return True
    try:
        with open(f"/proc/{pid}/cmdline", encoding="utf-8", errors="replace") as words:
            return words.read().startswith("\0".join(_BEGINNING))
    except OSError:  # ended just now, or another user's
        return False


def _forget() -> None:
    """In a forked child: its end is not that of the place."""
    global _link, _launcher  # noqa: PLW0603 - as above
    with suppress(OSError):  # closed by what the child is for
        os.close(_link)
    _link = _launcher = -1


def _start(program: str, words: list[str], stdin: int, pmi: int, stdout: int = -1) -> None:
    """Start a process that holds ``pmi``, and that no signal to the place reaches, but for SIGKILL to its group."""
    moved = [(stdin, 0), (stdout, 1), (pmi, _PMI)]
    actions = [(os.POSIX_SPAWN_DUP2, fd, number) for fd, number in moved if fd >= 0]
    _beside.add(os.posix_spawn(program, words, os.environ, file_actions=actions, setsigmask=_HUSHED))


class _Wakeup:
    """What C writes each signal into at once, whenever Python comes to its handler: ``to``, a pipe that this owns.

    Raises:
        ValueError: The caller is not the main thread.
    """

    def __init__(self, to: int) -> None:
        self._to = to
        os.set_blocking(to, False)
        before = signal.set_wakeup_fd(to, warn_on_full_buffer=False)
        if before >= 0:
            signal.set_wakeup_fd(before)  # an event loop, which needs it
        forget = weakref.WeakMethod(self._forget)  # what is registered stays for good, and would keep the program
        os.register_at_fork(after_in_child=lambda: (call := forget()) and call())

    def heard(self) -> None:
        """Python has taken a signal."""
        self._write(_HEARD)

    def ending(self, by: signal.Signals) -> None:
        """The job is being ended for a signal, and goes on to end if no thread has the interpreter any more."""
        self._write(_ENDING + by)

    def silence(self) -> None:
        """(main thread) Signals are not ours any more. Idempotent."""
        if self._to >= 0:
            self._disconnect()

    def _write(self, word: int) -> None:
        with suppress(OSError):  # the watchdog was killed
            os.write(self._to, bytes([word]))

    def _disconnect(self) -> None:
        ours, self._to = self._to, -1
        now = signal.set_wakeup_fd(-1)
        if now not in (-1, ours):
            signal.set_wakeup_fd(now)
        with suppress(OSError):  # closed by the program
            os.close(ours)

    def _forget(self) -> None:
        """In a forked child: a signal to it is none to the place."""
        if self._to >= 0:
            with suppress(ValueError):  # not in the main thread of the child
                self._disconnect()


class Alarm(_Wakeup):
    """The watchdog of place 0: a signal that Python does not take ends the job all the same.

    Args:
        on_ignored: Carries out what a signal asks for, on a thread of its own, for the main thread does not. If it
            returns, the signal counts as taken.
    """

    def __init__(self, on_ignored: Callable[[signal.Signals], None]) -> None:
        self._on_ignored = on_ignored
        signals, to = os.pipe()
        echo, answers = os.pipe()
        pmi = os.environ.get(ENV_PMI, "")
        words = [sys.executable, "-I", "-S", __file__, str(os.getpid())]
        _start(sys.executable, words, signals, int(pmi) if pmi.isdecimal() else -1, answers)
        for fd in (signals, answers):
            os.close(fd)
        threading.Thread(target=self._listen, args=(echo,), name="apgas-alarm", daemon=True).start()
        super().__init__(to)

    def _listen(self, echo: int) -> None:
        while number := os.read(echo, 1):
            self._on_ignored(signal.Signals(number[0]))
            self.heard()
        os.close(echo)


class Reminder(_Wakeup):
    """Raises a signal again that Python does not take.

    A signal that arrives in the moment in which the main thread is about to wait for a lock does not wake it: Python
    has noted the signal, but the thread looks only when something ends its wait. A second signal does that.

    Args:
        handler: What takes signals, and says so (``heard``). Another handler, which a program has installed, or a
            notebook for each cell, does not say so: while there is one, nothing is raised.
    """

    def __init__(self, handler: Callable[[int, FrameType | None], None]) -> None:
        self._handler = handler
        signals, to = os.pipe()
        threading.Thread(target=self._remind, args=(signals,), name="apgas-reminder", daemon=True).start()
        super().__init__(to)

    def _remind(self, signals: int) -> None:
        patience = select.poll()
        patience.register(signals, select.POLLIN)
        main = threading.main_thread().ident
        assert main is not None
        number = _HEARD
        while True:
            if not patience.poll(REMIND_S * 1000 if number else None):
                if signal.getsignal(number) == self._handler:
                    signal.pthread_kill(main, number)
                number = _HEARD  # C writes it again if it has been raised
            elif not (words := os.read(signals, 4096)):
                break
            else:
                number = next((word for word in reversed(words) if word in (_HEARD, *SIGNALS)), number)
        os.close(signals)


def _watch(place: int) -> None:
    """(the watchdog) Hear of signals on standard input until it ends."""
    patience = select.poll()
    patience.register(0, select.POLLIN)
    number, until_s, echoed, ending = 0, 0.0, False, False
    while True:
        left_ms = max(0.0, until_s - time.monotonic()) * 1000 if number else None
        if patience.poll(left_ms):
            words = os.read(0, 4096)
            if not words:
                return
            for word in words:
                if ending:
                    break
                if word == _HEARD:
                    number = 0
                elif word > _ENDING:
                    number, until_s, echoed, ending = word - _ENDING, time.monotonic() + HEED_S, True, True
                elif word in SIGNALS and not number:
                    number, until_s, echoed = word, time.monotonic() + HEED_S, False
        elif not echoed:
            os.write(1, bytes([number]))
            until_s, echoed = time.monotonic() + FORCE_S, True
        else:
            _end(place, number, "" if ending else f"{SIGNALS[number]}; the job ends by force: ")
            return


def _end(place: int, number: int, what: str) -> None:
    with suppress(OSError):  # its reader may be gone
        os.write(2, f"apgas: {what}place 0 waits in foreign code and hears nothing\n".encode())
    if ENV_PMI in os.environ:
        time.sleep(READ_S)
        with suppress(OSError):  # the job has just ended
            os.write(_PMI, f"cmd=abort exitcode={128 + number}\n".encode())
            time.sleep(FORCE_S)
    with suppress(ProcessLookupError):
        os.kill(place, signal.SIGKILL)


if __name__ == "__main__":
    _watch(int(sys.argv[1]))
