"""The last moments of a process."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest
from support import PATIENCE_S

from apgas.runtime import process, program, spawning

STUCK = """
import sys, time, types
mpi = types.SimpleNamespace(COMM_WORLD=types.SimpleNamespace(Abort=lambda code: time.sleep(600)))
sys.modules["mpi4py"] = types.ModuleType("mpi4py")
sys.modules["mpi4py"].MPI = sys.modules["mpi4py.MPI"] = mpi
from apgas.runtime import process
process.ABORT_S = 0.05
process.abort(7)
"""


class Broken:
    """Standard output that is not read any more."""

    def flush(self) -> NoReturn:
        raise BrokenPipeError


def test_output_that_nobody_reads_does_not_keep_a_process_from_ending(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", Broken())
    monkeypatch.setattr(sys, "stderr", None)
    process.flush()


def test_an_mpi_that_is_stuck_does_not_keep_a_job_from_ending() -> None:
    assert subprocess.run([sys.executable, "-c", STUCK], check=False, timeout=PATIENCE_S).returncode == 7


LEAVING = """
import atexit, sys, threading, time, types
state = types.SimpleNamespace(finalized=False)
mpi = types.SimpleNamespace(
    Is_initialized=lambda: True,
    Is_finalized=lambda: state.finalized,
    Finalize=lambda: (print("finalized"), threading.Timer(0.01, go.set).start()),
)
sys.modules["mpi4py"] = types.ModuleType("mpi4py")
sys.modules["mpi4py"].MPI = sys.modules["mpi4py.MPI"] = mpi
from apgas.runtime import process
go = threading.Event()
def last_thread():
    go.wait()
    print("thread", end=" ")
threading.Thread(target=last_thread).start()
atexit.register(lambda: print("exit function"))
process.leave(3)
print("not reached")
"""


def test_leaving_skips_nothing_that_a_program_relies_on() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LEAVING], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert (done.returncode, done.stdout.split()) == (3, ["finalized", "thread", "exit", "function"]), done.stderr


def test_mpi_is_not_left_amid_a_spawn_though_places_were_late_to_end(monkeypatch: pytest.MonkeyPatch) -> None:
    this: Any = SimpleNamespace(driver=None, resizing_if_any=object())
    monkeypatch.setattr(program, "all_gone", lambda *_: True)
    monkeypatch.setattr(program, "_close", lambda _: pytest.fail("it was left"))
    monkeypatch.setattr(process, "abort", sys.exit)
    monkeypatch.setattr(spawning, "under_way", 1)
    with pytest.raises(SystemExit) as ended:
        program._finish_at_exit(this, [1])
    assert ended.value.code == 0
