"""However a job ends, it ends soon, says why, and leaves nothing behind."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from support import Leftovers, start_job
from support.mpi import BIN

PROGRAM = Path(__file__).parent / "programs" / "ending.py"
MPIEXEC: Sequence[str | Path] = [BIN / "mpiexec", "-n", "3", sys.executable]
PLAIN: Sequence[str | Path] = [sys.executable]
# Generous against a loaded machine; the deadline that users are promised is 2 s.
SOON_S = 10.0
STARTED_AND_ENDED_S = 30.0
MPIEXEC_TRIPPED = 2


@pytest.mark.parametrize(
    ("command", "how", "code", "message"),
    [
        (MPIEXEC, "error", 1, "RuntimeError: main failed on purpose"),
        (PLAIN, "error", 1, "RuntimeError: main failed on purpose"),
        (MPIEXEC, "exit", 3, ""),
        (PLAIN, "exit", 3, ""),
        (MPIEXEC, "kill-first-world", None, ""),
        (MPIEXEC, "kill-newcomer", None, ""),
        (PLAIN, "kill-newcomer", None, ""),
        (MPIEXEC, "kill-place-0", None, ""),
        (PLAIN, "kill-place-0", None, ""),
    ],
)
def test_it_ends_by_itself(
    command: Sequence[str | Path], how: str, code: int | None, message: str, leftovers: Leftovers
) -> None:
    with start_job([*command, PROGRAM, how]) as job:
        ended = job.wait(STARTED_AND_ENDED_S)
    assert ended.rc == code if code is not None else ended.rc != 0
    assert message in ended.err
    leftovers.check(ended.mark)


@pytest.mark.parametrize("command", [MPIEXEC, PLAIN], ids=["mpiexec", "plain"])
@pytest.mark.parametrize(
    ("sent", "code", "message"),
    [(signal.SIGINT, 130, "apgas: interrupted"), (signal.SIGTERM, 143, "apgas: terminated")],
)
def test_signals_end_it(
    command: Sequence[str | Path], sent: signal.Signals, code: int, message: str, leftovers: Leftovers
) -> None:
    with start_job([*command, PROGRAM, "wait"]) as job:
        job.expect("ready")
        if sent is signal.SIGINT:
            job.interrupt()
        else:
            job.process.send_signal(sent)
        ended = job.wait(SOON_S)
    # mpiexec has the signal as well; rarely, its own end comes first, with a code of its own
    assert ended.rc in ((code, MPIEXEC_TRIPPED) if command is MPIEXEC else (code,))
    assert message in ended.err
    assert "Traceback" not in ended.err
    leftovers.check(ended.mark)


def test_nothing_outlives_mpiexec(leftovers: Leftovers) -> None:
    with start_job([*MPIEXEC, PROGRAM, "wait"]) as job:
        job.expect("ready")
        job.process.kill()
        ended = job.wait(SOON_S)
        leftovers.check(ended.mark)
