"""``python -m benchmarks.sizing`` is ended while programs run."""

from __future__ import annotations

import signal
import time

from support import PATIENCE_S, Leftovers, start_job


def test_an_interrupt_ends_every_program(leftovers: Leftovers) -> None:
    with start_job(["python", "-m", "benchmarks.sizing", "--programs", "pi", "--sizes", "1,2"]) as job:
        until = time.monotonic() + PATIENCE_S
        # its own process, and of each program mpiexec, its proxy and the places
        while len(job.processes()) < 8 and time.monotonic() < until:
            time.sleep(0.05)
        assert len(job.processes()) >= 8
        job.process.send_signal(signal.SIGINT)
        ended = job.wait()
        assert ended.rc == 128 + signal.SIGINT
        assert "sizing: interrupted" in ended.err
        assert "Traceback" not in ended.err
        leftovers.check(job.mark)
