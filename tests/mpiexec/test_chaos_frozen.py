"""Places that stand still: orders give up at their deadlines, the job goes on, and it can always be ended."""

from __future__ import annotations

import re
import signal
import sys
from pathlib import Path

import pytest
from support import Leftovers, mpirun, start_job
from support.mpi import BIN

PROGRAM = Path(__file__).parent / "programs" / "frozen.py"


@pytest.mark.parametrize("transport", ["tcp", "mpi"], ids="over_{}".format)
def test_a_shrink_around_a_frozen_place_is_given_up(transport: str, leftovers: Leftovers) -> None:
    done = mpirun(3, [PROGRAM, "shrink"], env={"APGAS_TRANSPORT": transport})
    leftovers.check(done.mark)
    assert (done.rc, done.out.splitlines()[-1:]) == (0, ["fine aborted"]), done


@pytest.mark.parametrize("transport", ["tcp", "mpi"], ids="over_{}".format)
def test_a_grow_beside_a_frozen_place_ends(transport: str, leftovers: Leftovers) -> None:
    done = mpirun(3, [PROGRAM, "grow"], env={"APGAS_TRANSPORT": transport})
    leftovers.check(done.mark)
    assert done.rc == 0, done
    assert done.out.splitlines()[-1] in ("fine done", "fine aborted"), done


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_job_with_a_frozen_place_can_be_ended(number: signal.Signals, leftovers: Leftovers) -> None:
    with start_job([BIN / "mpiexec", "-n", "3", sys.executable, PROGRAM, "forever"]) as job:
        job.expect("frozen")
        job.process.send_signal(number)
        done = job.wait()
        leftovers.check(job.mark)
    assert done.rc in (128 + number, 2), done


def test_a_program_beside_a_frozen_place_ends(leftovers: Leftovers) -> None:
    with start_job([BIN / "mpiexec", "-n", "3", sys.executable, PROGRAM, "end"]) as job:
        job.expect("frozen")
        done = job.wait()
        leftovers.check(job.mark)
    assert done.rc == 1, done
    assert re.search(r"apgas: place 2 \(.*\) did not end within", done.err), done
