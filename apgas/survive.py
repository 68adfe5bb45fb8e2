"""``python -m apgas.survive -n 4 python prog.py``: mpiexec for a resilient job, safe against every loss.

Plain ``APGAS_RESILIENT=1 mpiexec -disable-auto-cleanup`` has a gap of a few milliseconds: a place that is just being
spawned does not ignore the signal yet by which mpiexec reports the loss of another one, dies of it, and takes the job
along. Here the signal is blocked in mpiexec itself, which hands that on to everything that it starts.
"""

from __future__ import annotations

import os
import signal
import sys

from apgas.runtime import environment, resilience


def main() -> None:
    """Become mpiexec, with the arguments of this program; ``--mpiexec PATH`` before them names another one."""
    mpiexec, args = str(environment.right_mpiexec() or "mpiexec"), sys.argv[1:]
    if args[:1] == ["--mpiexec"]:
        mpiexec, args = args[1], args[2:]
    os.environ[resilience.ENV_RESILIENT] = "1"
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    os.execvp(mpiexec, [mpiexec, resilience.FLAG, *args])


if __name__ == "__main__":
    main()
