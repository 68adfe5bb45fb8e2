"""The port for v1's administrators, over real sockets: what it does, and what it does not let happen."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import pytest
from support import PATIENCE_S
from support.daemons import until

from scheduler_bridge.daemon import Daemon, DaemonConfig, DaemonError
from scheduler_bridge.daemon.v1 import AdminConfig, AdminServer

SCRIPT = "#!/bin/sh\n#JOB_CLASS rigid\n#NODES 2\n#REQUIRED_TIME 60000\necho $MALLEABLE_HOSTS\n"

Say = Callable[[bytes], Awaitable[str]]


@pytest.fixture
def scripts(tmp_path: Path) -> Path:
    folder = tmp_path / "scripts"
    folder.mkdir()
    (folder / "two.sh").write_text(SCRIPT)
    (folder / "wrong.sh").write_text("#NODES many\n")
    (tmp_path / "outside.sh").write_text(SCRIPT)
    (folder / "link.sh").symlink_to(tmp_path / "outside.sh")
    return folder


def perform(tmp_path: Path, scripts: Path, play: Callable[[Daemon, Say], Awaitable[None]]) -> None:
    async def run() -> None:
        config = DaemonConfig(nodes=("n1", "n2"), state_dir=tmp_path / "state", grace_s=0.2)
        admin = AdminConfig(port=0, scripts=scripts, line_s=0.5)
        async with asyncio.timeout(PATIENCE_S), Daemon(config) as daemon, AdminServer(daemon, admin) as server:

            async def say(words: bytes) -> str:
                reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
                writer.write(words)
                answer = b""
                with suppress(ConnectionResetError):  # Cut off with words unread.
                    answer = await reader.read()
                writer.close()
                return answer.decode()

            await play(daemon, say)

    asyncio.run(run())


def test_a_script_is_submitted_and_runs(tmp_path: Path, scripts: Path) -> None:
    async def play(daemon: Daemon, say: Say) -> None:
        assert await say(b"two.sh\n") == "Add Job >> JobID:1\n"
        assert await say(str(scripts / "two.sh").encode() + b"\n") == "Add Job >> JobID:2\n"
        await daemon.ended(2)
        assert [(job.name, job.state) for job in daemon.snapshot().jobs] == [("two", "completed")] * 2
        assert daemon.output(1).read_text() == "127.0.0.1,127.0.0.2\n"

    perform(tmp_path, scripts, play)


# As the published scripts do it: bash, and a common file that is found and filled by the scheduler's variables.
PUBLISHED = """#!/bin/bash
#JOB_TYPE apgas
#JOB_CLASS malleable
#JOB_NAME BC_17_malleable_1-4
#REQUIRED_TIME 800000
#MIN_NODES 2
#MAX_NODES 2

common_dir="${SCRIPT_DIR}/"

GLBN=31
source ${common_dir}/common.sh "StartBC -n 17"
"""
COMMON = """#!/bin/bash
declare -a words=("$@")
hosts=$(paste -sd, "$NODE_FILE")
echo "$NODES $hosts $SCHEDULER_IP $SCHEDULER_PORT $LAUNCHER $((WORKERS * 2)) $ELASTIC $JOBNAME $PORT"
echo "$GLBN ${words[0]}"
"""


def test_the_published_scripts_find_their_variables(tmp_path: Path, scripts: Path) -> None:
    (scripts / "BC_17_malleable_1-4.sh").write_text(PUBLISHED)
    (scripts / "common.sh").write_text(COMMON)

    async def play(daemon: Daemon, say: Say) -> None:
        assert await say(b"BC_17_malleable_1-4.sh\n") == "Add Job >> JobID:1\n"
        job = (await daemon.ended(1)).job(1)
        assert (job.name, job.state) == ("BC_17_malleable_1-4", "completed"), job.reason
        first, second = daemon.output(1).read_text().splitlines()
        nodes, hosts, ip, port, launcher, threads, elastic, name, places_port = first.split()
        assert (nodes, hosts) == ("2", "127.0.0.1,127.0.0.2")
        assert (launcher, threads, elastic, name) == ("apgas.launcher.SshLauncher", "2", "malleable", "1")
        assert ip != "127.0.0.1", "it would report nothing there"
        assert 1024 < int(port) < 65536
        assert 5701 <= int(places_port) < 32768
        assert second == "31 StartBC -n 17"

    perform(tmp_path, scripts, play)


def test_a_job_that_the_log_cannot_keep_is_not_taken(
    tmp_path: Path, scripts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def behind() -> str:
        return "no space left on device"

    async def play(daemon: Daemon, say: Say) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(daemon, "durable", behind)
            answer = await say(b"two.sh\n")
        assert answer.startswith("Refused >> no job is taken now: the log cannot be written: no space left")
        await daemon.ended(1)

    perform(tmp_path, scripts, play)


def test_nodes_are_added(tmp_path: Path, scripts: Path) -> None:
    async def play(daemon: Daemon, say: Say) -> None:
        assert await say(b"Add Node n3,n4\n") == "Add Nodes >> n3,n4\n"
        await until(daemon, lambda: len(daemon.snapshot().nodes) == 4)
        await say(b"Add Node n3, n5\n")
        await until(daemon, lambda: len(daemon.snapshot().nodes) == 5)
        assert daemon.record().nodes == ["n1", "n2", "n3", "n4", "n5"]

    perform(tmp_path, scripts, play)


def test_it_ends_the_scheduler(tmp_path: Path, scripts: Path) -> None:
    async def play(daemon: Daemon, say: Say) -> None:
        assert await say(b"shutdown\n") == "Start >> shutdown\n"
        await daemon.stopping()

    perform(tmp_path, scripts, play)


NOTHING = [
    *(b"../outside.sh\n", b"link.sh\n", b"/bin/../etc/x.sh\n", b"wrong.sh\n", b"none.sh\n", b"two.sh; reboot\n"),
    *(b"Add Node n3;x\n", b"Add Node \n", b"Add Node ../n\n", b"\xff\xfe.sh\n", b"x" * 100_000, b"two.sh", b"\n"),
    *(b"", b"\0.sh\n", b'{"type":"shutdown"}\n', b"GET / HTTP/1.1\r\n\r\n"),
]


def test_nothing_else_is_done(tmp_path: Path, scripts: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def play(daemon: Daemon, say: Say) -> None:
        for words in NOTHING:
            caplog.clear()
            with caplog.at_level(logging.WARNING, "scheduler_bridge.daemon.v1"):
                answer = await say(words)
            assert answer.count("\n") <= 1
            assert not answer or answer.startswith(("undefined Message\n", "Refused >> ")), answer
            assert caplog.records, f"the operator cannot read that {words[:60]!r} was refused"
            assert (daemon.snapshot().jobs, len(daemon.snapshot().nodes)) == ((), 2), words
        await say(b"two.sh\n")
        assert len(daemon.snapshot().jobs) == 1

    perform(tmp_path, scripts, play)


def test_a_folder_that_is_not_there_is_reported(tmp_path: Path) -> None:
    async def play() -> None:
        async with Daemon(DaemonConfig(nodes=("n1",), state_dir=tmp_path / "state")) as daemon:
            with pytest.raises(DaemonError, match="is not a folder"):
                await AdminServer(daemon, AdminConfig(port=0, scripts=tmp_path / "nothing")).__aenter__()

    asyncio.run(play())


@pytest.mark.parametrize("host", ["203.0.113.7", "no-such-host.invalid", "x" * 300])
def test_a_host_that_is_not_here_is_reported_and_a_port_that_is_not_to_be_had(tmp_path: Path, host: str) -> None:
    async def play() -> None:
        async with Daemon(DaemonConfig(nodes=("n1",), state_dir=tmp_path / "state")) as daemon:
            with pytest.raises(DaemonError, match=f"lines at {host}: no address of this machine has that") as refused:
                await AdminServer(daemon, AdminConfig(port=0, scripts=tmp_path, host=host)).__aenter__()
            assert refused.value.hint == "give another host in [v1] of the configuration, or none"
            taken = int(daemon.endpoint.rpartition(":")[2])
            with pytest.raises(DaemonError, match=f"lines on port {taken} of 127.0.0.1: ") as refused:
                await AdminServer(daemon, AdminConfig(port=taken, scripts=tmp_path)).__aenter__()
            assert refused.value.hint == "choose another port with --v1-admin"

    asyncio.run(play())


def test_a_host_for_jobs_that_is_not_here_is_reported(tmp_path: Path) -> None:
    async def play() -> None:
        with pytest.raises(
            DaemonError, match=r"jobs at 203\.0\.113\.7: no address of this machine has that"
        ) as refused:
            await Daemon(DaemonConfig(nodes=("n1",), state_dir=tmp_path / "state", host="203.0.113.7")).__aenter__()
        assert refused.value.hint == 'name another one in the configuration: host = "127.0.0.1"'

    asyncio.run(play())


def test_a_port_that_nothing_is_taken_at_yet_is_taken(tmp_path: Path) -> None:
    """Else two schedulers have it, and one hears so when it has taken jobs up; callers wait until it serves."""

    async def play() -> None:
        async with (
            Daemon(DaemonConfig(nodes=("n1",), state_dir=tmp_path / "state")) as daemon,
            AdminServer(daemon, AdminConfig(port=0, scripts=tmp_path), serving=False) as first,
        ):
            config = AdminConfig(port=first.port, scripts=tmp_path)
            with pytest.raises(DaemonError, match=f"cannot take v1's lines on port {first.port} of 127.0.0.1"):
                await AdminServer(daemon, config, serving=False).__aenter__()
            reader, writer = await asyncio.open_connection("127.0.0.1", first.port)
            writer.write(b"no such line\n")
            await first.listener.serve()
            await asyncio.wait_for(reader.read(), PATIENCE_S)  # it is let in, and turned out
            writer.close()

    asyncio.run(play())
