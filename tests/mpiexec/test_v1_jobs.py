"""Protocol v1 end to end: v1 jobs under the daemon, and a real program of ours under a v1 scheduler."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from support import PATIENCE_S, Leftovers
from support.answering import answering, launcher_to
from support.daemons import assert_nothing_left, perform, rigid, until
from support.mpi import start_job

from scheduler_bridge.backends.hosts import HostsConfig, Rules, on_hosts
from scheduler_bridge.daemon import Daemon, DaemonConfig, JobRequest

V1_JOB = str(Path(__file__).with_name("v1_job.py"))
PROGRAMS = Path(__file__).with_name("programs")


def v1(manner: str, low: int = 1, high: int = 3) -> JobRequest:
    return JobRequest(
        name=manner,
        command=(sys.executable, "-I", V1_JOB, "{v1_scheduler_ip}", "{v1_port}", manner, "{hosts}"),
        job_class="malleable",
        nodes=low,
        min_nodes=low,
        max_nodes=high,
        protocol="v1",
    )


async def is_ready(daemon: Daemon, job_id: int) -> None:
    await until(daemon, lambda: daemon.snapshot().job(job_id).ready)


def test_a_v1_job_grows_and_shrinks(config: DaemonConfig) -> None:
    async def play(daemon: Daemon) -> None:
        first = daemon.submit(rigid(2, "/bin/sleep", "1000"))
        job_id = daemon.submit(v1("well"))
        await is_ready(daemon, job_id)
        daemon.cancel(first)
        await until(daemon, lambda: daemon.snapshot().job(job_id).grows == 1)
        assert len(daemon.snapshot().job(job_id).nodes) == 3
        second = daemon.submit(rigid(2, "/bin/sleep", "1000"))
        await until(daemon, lambda: daemon.snapshot().job(second).state == "running")
        (kept,) = daemon.snapshot().job(job_id).nodes
        assert kept not in daemon.snapshot().job(second).nodes
        assert daemon.output(job_id).read_text().splitlines()[0] == "ready on 127.0.0.1"
        daemon.cancel(job_id)
        daemon.cancel(second)
        await daemon.idle()

    grow, shrink = perform(config, play).record().jobs[1].resizes
    assert (grow.outcome, grow.seconds) == ("done", 0.248)
    assert grow.phases == pytest.approx({"pre": 0.001, "spawn": 0.247, "post": 0.002})
    assert (shrink.outcome, shrink.count) == ("done", 2)


def test_v1_jobs_of_one_machine_have_an_address_and_a_port_each(config: DaemonConfig) -> None:
    async def play(daemon: Daemon) -> None:
        jobs = [daemon.submit(v1("well", 1, 1)) for _ in range(3)]
        for job_id in jobs:
            await is_ready(daemon, job_id)
        where = {daemon.output(job_id).read_text().splitlines()[1] for job_id in jobs}
        assert len({each.split()[0] for each in where}) == len({each.split()[1] for each in where}) == 3
        for job_id in jobs:
            daemon.cancel(job_id)
        await daemon.idle()

    perform(config, play)


def test_hosts_that_a_v1_job_names_behind_its_deadline_are_free(config: DaemonConfig) -> None:
    async def play(daemon: Daemon) -> None:
        job_id = daemon.submit(v1("late"))
        await is_ready(daemon, job_id)
        assert len(daemon.snapshot().job(job_id).nodes) == 3
        daemon.resize(job_id, -2)
        await until(daemon, lambda: daemon.snapshot().job(job_id).resizing is None)
        assert len(daemon.snapshot().job(job_id).nodes) == 3
        port = int(daemon.output(job_id).read_text().splitlines()[1].split()[1])
        socket.create_connection(("127.0.0.1", port)).close()
        await until(daemon, lambda: len(daemon.snapshot().job(job_id).nodes) == 1)
        daemon.cancel(job_id)
        await daemon.idle()

    (shrink,) = perform(msgspec.structs.replace(config, resize_deadline_s=2.0), play).record().jobs[0].resizes
    assert shrink.outcome == "aborted"
    assert shrink.reason.endswith("0 of 2 hosts were named within 1.66667 s; the others may come late")


def test_why_a_malleable_job_that_is_never_ready_is_not_resized(config: DaemonConfig) -> None:
    async def play(daemon: Daemon) -> None:
        silent = daemon.submit(v1("silent", 1, 3))
        await until(daemon, lambda: daemon.snapshot().job(silent).state == "running")
        waiting = daemon.submit(rigid(3, "/bin/sleep", "1000"))
        why = daemon.explain(silent).text
        assert "it has not said that it is ready to be resized" in why
        assert "APGAS-Ready" in why
        assert f"job {silent} has not said that it is ready to be resized" in daemon.explain(waiting).text
        daemon.cancel(silent)
        daemon.cancel(waiting)
        await daemon.idle()

    perform(config, play)


@pytest.mark.parametrize(
    ("manner", "left", "why"),
    [
        ("stingy", 2, "the connection ended|nothing was said"),
        ("liar", 2, "n77 is not a node of this job"),
        ("deaf", 3, "cannot be reached"),
    ],
)
def test_a_v1_job_that_does_not_shrink_as_ordered(config: DaemonConfig, manner: str, left: int, why: str) -> None:
    async def play(daemon: Daemon) -> None:
        job_id = daemon.submit(v1(manner, 1, 3))
        await is_ready(daemon, job_id)
        assert len(daemon.snapshot().job(job_id).nodes) == 3
        daemon.resize(job_id, -2)
        await until(daemon, lambda: len(daemon.snapshot().job(job_id).nodes) == left)
        await until(daemon, lambda: daemon.snapshot().job(job_id).resizing is None)
        daemon.cancel(job_id)
        await daemon.idle()

    (shrink,) = perform(config, play).record().jobs[0].resizes
    assert shrink.outcome == "aborted"
    assert re.search(why, shrink.reason), shrink.reason


def test_on_hosts_a_v1_job_and_its_gate_run_on_the_first_one(config: DaemonConfig, tmp_path: Path) -> None:
    file = tmp_path / "hosts.txt"
    file.write_text("alpha\nbeta\n", encoding="utf-8")
    hosts = HostsConfig(file, launcher_to(answering(tmp_path / "up", "alpha", "beta")), Rules())
    code = "import os; print(os.environ['PMI_HOSTNAME'], os.environ['MALLEABLE_HOSTS'])"

    async def play(daemon: Daemon) -> None:
        where = daemon.submit(JobRequest(name="where", command=(sys.executable, "-c", code), nodes=2, protocol="v1"))
        status = (await daemon.ended(where)).job(where)
        assert status.state == "completed", status.reason
        first, names = daemon.output(where).read_text().split()
        assert names.split(",") in (["alpha", "beta"], ["beta", "alpha"])
        assert first == names.split(",")[0]
        job_id = daemon.submit(v1("well", 1, 2))
        await is_ready(daemon, job_id)
        daemon.resize(job_id, -1)
        await until(daemon, lambda: daemon.snapshot().job(job_id).shrinks == 1)
        daemon.cancel(job_id)
        await daemon.idle()

    with on_hosts(msgspec.structs.replace(config, host="localhost"), hosts) as (placed, backend):
        daemon = Daemon(placed, executor=backend.executor)

        async def run() -> None:
            async with asyncio.timeout(PATIENCE_S), daemon, backend.watch(daemon):
                await play(daemon)

        asyncio.run(run())
    assert_nothing_left(config)


def test_the_end_of_a_v1_job_is_its_own(config: DaemonConfig) -> None:
    async def play(daemon: Daemon) -> None:
        code = "import os, sys; print(os.environ['MALLEABLE_HOSTS'], 'MALLEABLE_TOKEN' in os.environ); sys.exit(7)"
        job = JobRequest(name="ends", command=(sys.executable, "-c", code), nodes=2, protocol="v1")
        job_id = daemon.submit(job)
        status = (await daemon.ended(job_id)).job(job_id)
        assert (status.state, status.reason.split(":")[0]) == ("failed", "exit status 7")
        hosts, has_token = daemon.output(job_id).read_text().split()
        assert (hosts, has_token) == ("127.0.0.1,127.0.0.2", "False")

    perform(config, play)


class Scheduler:
    """The published scheduler, as far as a job sees it."""

    def __init__(self) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self._server.settimeout(PATIENCE_S)
        self.port = int(self._server.getsockname()[1])

    def report(self) -> list[str]:
        caller, _ = self._server.accept()
        with caller, caller.makefile("r") as lines:
            return lines.readline().strip().rpartition(":")[0].split(";")

    def order(self, port: int, line: str) -> list[str]:
        with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as caller:
            caller.sendall(line.encode() + b"\n")
            with caller.makefile("r") as lines:
                return lines.read().splitlines()

    def close(self) -> None:
        self._server.close()


@pytest.fixture
def scheduler() -> Iterator[Scheduler]:
    made = Scheduler()
    yield made
    made.close()


def test_our_program_grows_and_shrinks_under_a_v1_scheduler(scheduler: Scheduler, leftovers: Leftovers) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = int(server.getsockname()[1])
    variables = {"MALLEABLE_V1_SCHEDULER": f"127.0.0.1:{scheduler.port}", "MALLEABLE_V1_LISTEN": str(port)}
    mpiexec = str(Path(sys.prefix) / "bin" / "mpiexec")
    # It goes on until two orders have ended, however long that takes.
    program = [sys.executable, str(PROGRAMS / "resizing.py"), "600:+1", "2"]
    with start_job([mpiexec, "-launcher", "fork", "-hosts", "n1", "-n", "1", *program], variables) as job:
        assert scheduler.report() == ["APGAS-Ready"]
        assert scheduler.order(port, "grow 2 n2 n3") == []
        grown = [scheduler.report() for _ in range(3)]
        assert [words[:2] for words in grown] == [
            ["preGrowTimeGLB", "2"],
            ["postGrowTimeGLB", "2"],
            ["growTimeAPGAS", "2"],
        ]
        pre, post, whole = (int(words[2]) for words in grown)
        assert whole > pre + post, "the published system's time is that of the whole order"
        (released,) = scheduler.order(port, "shrink 1")
        assert released in ("n2", "n3")
        assert [scheduler.report()[0] for _ in range(3)][-1] == "shrinkTimeAPGAS"
        done = job.wait()
    leftovers.check(done.mark)
    assert done.rc == 0, done.err
    result = json.loads(done.out)
    assert result["arrived"] == result["sent"] > 0
    assert [record["outcome"] for record in result["records"]] == ["done", "done", "not_due"]
