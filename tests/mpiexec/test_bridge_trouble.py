"""A daemon in trouble: a full disk, a folder of others, jobs that cannot be started, its own death."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from support.daemons import (
    PATIENCE_S,
    assert_nothing_left,
    perform,
    rigid,
)

from scheduler_bridge.live import Daemon, DaemonConfig, DaemonError, marks
from scheduler_bridge.live.runner import Ending, JobRun, Launch
from scheduler_bridge.live.state import StateFolder, scratch_folder


def test_words_that_the_system_cannot_take_are_an_end(tmp_path: Path) -> None:
    launch = Launch(
        1, ("/bin/echo", "a\0b"), "", {}, marks.new_mark(), tmp_path / "out", tmp_path / "err", tmp_path / "scratch"
    )
    ending = asyncio.run(JobRun(launch, 0.3).run(lambda: None))
    assert ending == Ending(None, "could not be started: embedded null byte")
    assert not launch.scratch.exists()


def test_a_job_that_breaks_its_runner_gives_its_nodes_back(
    config: DaemonConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    def note_mark(folder: StateFolder, mark: str) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    async def play(daemon: Daemon) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(StateFolder, "note_mark", note_mark)
            job_id = daemon.submit(rigid(3, "/bin/true"))
            job = (await daemon.ended(job_id)).job(job_id)
        assert (job.state, job.reason) == ("failed", "OSError: [Errno 28] No space left on device")
        other = daemon.submit(rigid(3, "/bin/true"))
        assert (await daemon.ended(other)).job(other).state == "completed"

    perform(config, play)


def test_a_full_disk_stops_no_job(config: DaemonConfig, caplog: pytest.LogCaptureFixture) -> None:
    config.state_dir.mkdir(mode=0o700)
    (config.state_dir / "events.jsonl").symlink_to("/dev/full")

    async def play(daemon: Daemon) -> None:
        for _ in range(2):
            job_id = daemon.submit(rigid(3, "/bin/true"))
            assert (await daemon.ended(job_id)).job(job_id).state == "completed"

    perform(config, play)
    told = [line for line in caplog.messages if "incomplete" in line]
    assert told == [f"{config.state_dir}/events.jsonl is incomplete from now on: No space left on device"]


def test_a_history_that_cannot_be_written_is_named(config: DaemonConfig) -> None:
    config.state_dir.mkdir(mode=0o700)
    (config.state_dir / ".history.json.part").symlink_to("/dev/full")

    async def play(daemon: Daemon) -> None:
        daemon.submit(rigid(3, "/bin/sleep", "1000"))

    with pytest.raises(OSError, match=r"No space left on device: '.*/history\.json'"):
        perform(config, play)
    assert_nothing_left(config)
    assert not (config.state_dir / ".history.json.part").is_symlink()


def test_a_second_daemon_is_refused(config: DaemonConfig) -> None:
    async def play(daemon: Daemon) -> None:
        with pytest.raises(DaemonError, match=f"process {os.getpid()}"):
            async with Daemon(config):
                pass

    perform(config, play)


def test_a_folder_that_others_may_write_into_is_refused(config: DaemonConfig) -> None:
    config.state_dir.mkdir()
    config.state_dir.chmod(0o1777)
    with pytest.raises(DaemonError, match="others may write"):
        StateFolder(config.state_dir)
    assert config.state_dir.stat().st_mode & 0o7777 == 0o1777
    assert not list(config.state_dir.iterdir())


def test_the_control_socket_is_the_owners(config: DaemonConfig) -> None:
    config.state_dir.mkdir(mode=0o755)

    async def play(daemon: Daemon) -> None:
        assert (config.state_dir / "control.sock").stat().st_mode & 0o777 == 0o600
        assert (config.state_dir / "events.jsonl").stat().st_mode & 0o777 == 0o600

    perform(config, play)


def test_a_missing_launcher_is_named(config: DaemonConfig, tmp_path: Path) -> None:
    with pytest.raises(DaemonError, match=r"no MPI launcher at .*missing"):
        perform(replace(config, mpiexec=tmp_path / "missing"), lambda _: asyncio.sleep(0))
    assert not (config.state_dir / "lock").exists()


def test_the_next_daemon_ends_what_a_killed_one_left(config: DaemonConfig) -> None:
    mark = marks.new_mark()
    orphan = subprocess.Popen(["/bin/sleep", "1000"], env={marks.ENV_MARK: mark}, start_new_session=True)
    bystander = subprocess.Popen(["/bin/sleep", "1000"], env={marks.ENV_MARK: marks.new_mark()})
    try:
        folder = StateFolder(config.state_dir)
        folder.note_mark(mark)
        scratch_folder(mark).mkdir()
        folder._lock.close()
        folder._events.close()
        StateFolder(config.state_dir).close()
        assert orphan.wait(PATIENCE_S) == -signal.SIGKILL
        assert bystander.poll() is None
        assert_nothing_left(config)
    finally:
        for process in (orphan, bystander):
            process.kill()
            process.wait()


def test_job_numbers_go_on_in_a_used_folder(config: DaemonConfig) -> None:
    async def play(daemon: Daemon) -> None:
        daemon.submit(rigid(1, "/bin/true"))
        await daemon.idle()

    perform(config, play)
    perform(config, play)
    assert {entry.name for entry in config.state_dir.glob("*.out")} == {"job-1.out", "job-2.out"}


def test_a_thread_reports_why_it_cannot_start(config: DaemonConfig, tmp_path: Path) -> None:
    with pytest.raises(DaemonError, match="no MPI launcher"):
        Daemon.start_in_thread(replace(config, mpiexec=tmp_path / "missing"))


def test_leaked_shared_memory_is_removed_only_if_nobody_maps_it(tmp_path: Path) -> None:
    name = f"mpich_shm_test{os.getpid():x}_0"
    path = Path("/dev/shm") / name
    path.write_bytes(b"\0" * 4096)
    code = (
        f"import mmap, time; f = open({str(path)!r}, 'r+b'); m = mmap.mmap(f.fileno(), 0);"
        "print('mapped', flush=True); time.sleep(1000)"
    )
    mark = marks.new_mark()
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, env={**os.environ, marks.ENV_MARK: mark}
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"mapped\n"
        assert marks.shared_segments(mark) == {name}
        assert marks.remove_segments({name}) == []
        assert path.exists()
        assert marks.end_marked(mark, patience_s=0.0) == []
        assert marks.remove_segments({name}) == [name]
        assert not path.exists()
    finally:
        process.kill()
        process.communicate()
        path.unlink(missing_ok=True)
