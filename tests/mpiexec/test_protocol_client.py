"""The documented client of wire protocol v2, in plain Python, as a real job of the daemon."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys

from support import PATIENCE_S, ROOT
from support.daemons import perform, rigid, until

from apgas.malleability import orders as wire
from scheduler_bridge.daemon import Daemon, DaemonConfig, JobRequest
from scheduler_bridge.daemon.jobs.session import Heard, Trespassed

CLIENT = str(ROOT / "docs" / "examples" / "protocol_client.py")


def primes(limit: int) -> JobRequest:
    return JobRequest(
        name="primes",
        # Isolated: it cannot import anything of this project.
        command=(sys.executable, "-I", CLIENT, "{hosts}", str(limit)),
        job_class="malleable",
        nodes=1,
        min_nodes=1,
        max_nodes=3,
    )


def test_it_grows_and_shrinks_while_it_counts(config: DaemonConfig) -> None:
    async def play(daemon: Daemon) -> None:
        first = daemon.submit(rigid(2, "/bin/sleep", "1000"))
        job_id = daemon.submit(primes(1_000_000_000))  # More than it will ever count.
        await until(daemon, lambda: daemon.snapshot().job(job_id).ready)
        daemon.cancel(first)
        await until(daemon, lambda: daemon.snapshot().job(job_id).grows == 1)
        assert len(daemon.snapshot().job(job_id).nodes) == 3
        second = daemon.submit(rigid(2, "/bin/sleep", "1000"))
        await until(daemon, lambda: daemon.snapshot().job(second).state == "running")
        status = daemon.snapshot().job(job_id)
        assert (status.shrinks, len(status.nodes)) == (1, 1)
        assert not set(status.nodes) & set(daemon.snapshot().job(second).nodes)
        daemon.cancel(job_id)
        daemon.cancel(second)
        await daemon.idle()

    record = perform(config, play).record()
    assert [resize.outcome for resize in record.jobs[1].resizes] == ["done", "done"]


def test_it_counts_right_and_tells_how_far_it_is(config: DaemonConfig) -> None:
    async def play(daemon: Daemon) -> None:
        said: set[object] = set()
        server = daemon._serving().job_orders.server
        heard = server._heard

        def hear(action: Heard | Trespassed) -> None:
            if isinstance(action, Heard) and isinstance(action.message, wire.Progress):
                said.add((action.message.total, action.message.unit))
            heard(action)

        server._heard = hear
        job_id = daemon.submit(primes(100_000))
        snapshot = await daemon.ended(job_id)
        assert snapshot.job(job_id).state == "completed", snapshot.job(job_id).reason
        assert daemon.output(job_id).read_text() == "9592 primes below 100000\n"
        assert said == {(200.0, "blocks")}

    perform(config, play)


def test_it_ends_when_the_scheduler_refuses_it(config: DaemonConfig) -> None:
    async def play(daemon: Daemon) -> None:
        variables = {
            **os.environ, "MALLEABLE_SCHEDULER": daemon.endpoint, "MALLEABLE_JOB": "7", "MALLEABLE_TOKEN": "f" * 32
        }  # fmt: skip
        done = await asyncio.to_thread(
            subprocess.run, [sys.executable, CLIENT, "n1", "1000"], check=False, capture_output=True, text=True,
            timeout=PATIENCE_S, env=variables,
        )  # fmt: skip
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr == "the scheduler refuses this job: unknown job or wrong token\n"

    perform(config, play)
