"""Jobs that fail because a host has gone: on this machine, behind a launcher that knows which hosts are to answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
import pytest
from support import PATIENCE_S
from support.answering import answering, launcher_to
from support.daemons import assert_nothing_left, until

from scheduler_bridge.backends.hosts import HostsBackend, HostsConfig, Rules, on_hosts
from scheduler_bridge.core import Explanation
from scheduler_bridge.daemon import Daemon, DaemonConfig, DaemonError, JobRequest
from scheduler_bridge.daemon.requests import ChangeNode


@pytest.fixture
def up(tmp_path: Path) -> Path:
    """A folder in which the hosts that answer have a file."""
    return answering(tmp_path / "up", "alpha", "beta")


def settings(up: Path, rules: Rules) -> HostsConfig:
    file = up.parent / "hosts.txt"
    file.write_text("alpha:2\nbeta cores=4\n", encoding="utf-8")
    return HostsConfig(file, launcher_to(up), rules)


def serve(
    config: DaemonConfig, hosts: HostsConfig, play: Callable[[Daemon, HostsBackend], Awaitable[None]]
) -> DaemonConfig:
    """Let a daemon drive the hosts while ``play`` runs; return what it was configured to."""
    with on_hosts(msgspec.structs.replace(config, host="localhost"), hosts) as (placed, backend):
        daemon = Daemon(placed, executor=backend.executor)

        async def run() -> None:
            async with asyncio.timeout(PATIENCE_S), daemon, backend.watch(daemon):
                await play(daemon, backend)

        asyncio.run(run())
    assert_nothing_left(config)
    assert not list(config.state_dir.glob("hosts-*"))
    return placed


def job(script: str, *, requeue: bool = False) -> JobRequest:
    return JobRequest(name="job", command=("sh", "-c", script), nodes=2, walltime_s=100.0, requeue=requeue)


def test_a_job_that_fails_as_its_host_goes_is_lost_and_runs_again_when_it_is_back(
    config: DaemonConfig, up: Path
) -> None:
    again = up.parent / "again"
    # the two processes of the job do the same
    script = f"[ -e {again} ] && exit 0; rm -f {up}/beta; exit 7"
    explanations: list[Explanation] = []

    async def play(daemon: Daemon, _: HostsBackend) -> None:
        number = daemon.submit(job(script, requeue=True))
        await until(daemon, lambda: bool(daemon.snapshot().nodes[1].reason))
        assert daemon.snapshot().nodes[1].state in ("draining", "down")
        await until(daemon, lambda: daemon.snapshot().job(number).state == "waiting")
        again.touch()
        (up / "beta").touch()
        assert (await daemon.ended(number)).job(number).state == "completed"
        explanations.append(daemon.explain(number))

    placed = serve(config, settings(up, Rules(every_s=0.2, again_s=0.2, failures=10_000)), play)
    assert (placed.nodes, placed.cores_per_node) == (("alpha", "beta"), 2)
    reasons = [moment.text for moment in explanations[0].moments]
    assert any(f"host beta does not answer: cat: {up}/beta: No such file" in text for text in reasons), reasons


def test_a_job_that_fails_on_hosts_that_answer_has_failed(config: DaemonConfig, up: Path) -> None:
    async def play(daemon: Daemon, _: HostsBackend) -> None:
        number = daemon.submit(job("exit 7", requeue=True))
        assert (await daemon.ended(number)).job(number).state == "failed"

    serve(config, settings(up, Rules()), play)


def test_a_host_that_does_not_answer_at_the_beginning_gets_no_jobs_until_it_does(
    config: DaemonConfig, up: Path
) -> None:
    (up / "beta").unlink()

    async def play(daemon: Daemon, _: HostsBackend) -> None:
        number = daemon.submit(job("exit 0"))
        snapshot = daemon.snapshot()
        assert (snapshot.nodes[1].state, snapshot.job(number).state) == ("down", "waiting")
        (up / "beta").touch()
        await daemon.ended(number)

    placed = serve(config, settings(up, Rules(every_s=0.2, again_s=0.2)), play)
    assert list(placed.ailing) == ["beta"]


def test_a_host_that_is_added_is_looked_up_in_the_file(config: DaemonConfig, up: Path) -> None:
    hosts = settings(up, Rules(every_s=0.1, again_s=0.1))

    async def play(daemon: Daemon, _: HostsBackend) -> None:
        with pytest.raises(ValueError, match="does not name it"):
            daemon.manage(ChangeNode(node="gamma", to="add"))
        with hosts.file.open("a", encoding="utf-8") as file:
            file.write("gamma address=alpha\ndelta\n")
        assert daemon.manage(ChangeNode(node="gamma", to="add")) == "node gamma: add"
        daemon.add_nodes(("delta",))
        await until(daemon, lambda: bool(daemon.snapshot().nodes[3].reason))
        request = JobRequest(name="three", command=("sh", "-c", "exit 0"), nodes=3, walltime_s=100.0)
        assert (await daemon.ended(daemon.submit(request))).jobs[0].state == "completed"

    serve(config, hosts, play)


def test_where_no_host_answers_the_scheduler_does_not_begin(config: DaemonConfig, up: Path) -> None:
    for host in up.iterdir():
        host.unlink()
    placed = on_hosts(config, settings(up, Rules()))
    with pytest.raises(DaemonError, match=r"no host of .*hosts.txt answers, alpha for one: cat: ") as caught, placed:
        pass
    assert "malleable doctor --hosts" in caught.value.hint
