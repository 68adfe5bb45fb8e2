"""A daemon in trouble: a full disk, a folder of others, jobs that cannot be started, its own death."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import uuid
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from support import PATIENCE_S
from support.daemons import (
    assert_nothing_left,
    perform,
    rigid,
    until,
)
from support.logged import encode

from scheduler_bridge.daemon import ControlClient, Daemon, DaemonConfig, DaemonError, DaemonThread, JobRequest
from scheduler_bridge.daemon.jobs import executor
from scheduler_bridge.daemon.requests import Hold, Reserve, SubmitError
from scheduler_bridge.daemon.storage.log_entries import Entry, Requested
from scheduler_bridge.daemon.storage.restore import read_record, restore
from scheduler_bridge.daemon.storage.state import StateFolder, scratch_folder
from scheduler_bridge.daemon.storage.store import Store
from scheduler_bridge.jobrunner import processes
from scheduler_bridge.jobrunner.notes import Ending, Notes
from scheduler_bridge.jobrunner.run import Launch
from scheduler_bridge.model import ClusterView, JobSpec
from scheduler_bridge.policies import Policy, registry
from scheduler_bridge.policies.backfill import InOrder
from scheduler_bridge.policies.compose import AtMinimum, ComposedPolicy
from scheduler_bridge.record import decode_record


def test_a_policy_that_raises_ends_no_job_and_another_one_goes_on(
    config: DaemonConfig, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(registry, "_FACTORIES", dict(registry._FACTORIES))

    @registry.register
    def mistaken() -> Policy:
        """Raises while a job runs."""

        def order(view: ClusterView, now: float) -> list[JobSpec]:
            if view.running:
                raise KeyError("my mistake")
            return list(view.queue)

        return ComposedPolicy("mistaken", order, InOrder(), AtMinimum())

    async def play(daemon: Daemon) -> None:
        first = daemon.submit(rigid(1, "/bin/sleep", "2"))
        second = daemon.submit(rigid(1, "/bin/true"))
        failure = re.search(
            r"policy mistaken \(.*/test_bridge_trouble.py:\d+\) raised KeyError: 'my mistake'", caplog.text
        )
        assert failure is not None, caplog.text
        assert failure[0] in daemon.explain(second).text
        daemon.use("fcfs")
        for job in (second, first):
            await daemon.ended(job)
        assert [job.state for job in daemon.record().jobs] == ["completed", "completed"]

    perform(msgspec.structs.replace(config, policy="mistaken"), play)


def test_words_that_the_system_cannot_take_are_an_end(tmp_path: Path) -> None:
    launch = Launch(
        str(tmp_path), "1.1", ("/bin/echo", "a\0b"), "", {}, "mark", str(tmp_path / "out"), str(tmp_path / "err"),
        str(tmp_path / "scratch"), launcher=False, grace_s=0.3, limit_s=10.0, until_s=time.monotonic() + PATIENCE_S,
    )  # fmt: skip
    runner = [sys.executable, "-m", "scheduler_bridge.jobrunner"]
    done = subprocess.run(runner, input=launch.encode(), check=True, timeout=PATIENCE_S, stdout=subprocess.PIPE)
    assert done.stdout == b"claimed\n"
    assert Notes(tmp_path, "1.1").ended == Ending(None, "could not be started: embedded null byte")
    assert not (tmp_path / "scratch").exists()


def test_the_scheduler_ends_before_a_job_that_asks_for_much_grace(config: DaemonConfig, tmp_path: Path) -> None:
    async def play(daemon: Daemon) -> None:
        script = f"trap '' TERM; touch {tmp_path}/runs; while :; do sleep 1; done"
        daemon.submit(JobRequest(name="stays", command=("/bin/sh", "-c", script), launch="direct", grace_s=3600.0))
        while not (tmp_path / "runs").exists():
            await asyncio.sleep(0.02)

    perform(config, play)  # Longer than its patience if it waited for the job.
    assert decode_record((config.state_dir / "history.json").read_bytes()).jobs[0].state == "cancelled"


def test_a_job_that_breaks_its_runner_gives_its_nodes_back(
    config: DaemonConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def play(daemon: Daemon) -> None:
        config.state_dir.joinpath("runs").rmdir()
        config.state_dir.joinpath("runs").touch()
        job_id = daemon.submit(rigid(3, "/bin/true"))
        job = (await daemon.ended(job_id)).job(job_id)
        assert job.state == "failed"
        assert job.reason.startswith("could not be started: [Errno 20] Not a directory")
        config.state_dir.joinpath("runs").unlink()
        config.state_dir.joinpath("runs").mkdir()
        other = daemon.submit(rigid(3, "/bin/true"))
        assert (await daemon.ended(other)).job(other).state == "completed"

    perform(config, play)


STUCK = """#!{python}
import sys, time
from scheduler_bridge.jobrunner import __main__, run
run._open = lambda path, **_: time.sleep(1000)
sys.exit(__main__.main())
"""


@pytest.mark.parametrize("cancelled", [False, True])
def test_a_start_that_hangs_gives_its_nodes_back(
    config: DaemonConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cancelled: bool
) -> None:
    """Its output is on a file system that does not answer, so that its runner hears no signal."""
    runner = tmp_path / "runner"
    runner.write_text(STUCK.format(python=sys.executable))
    runner.chmod(0o755)

    async def play(daemon: Daemon) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(sys, "executable", str(runner))
            patch.setattr(executor, "_START_S", 3600.0 if cancelled else 3.0)
            patch.setattr(executor, "_STUCK_S", 0.2 if cancelled else 3600.0)
            job_id = daemon.submit(rigid(3, "/bin/true"))
            assert daemon._folder is not None
            while not daemon._folder.notes(f"{job_id}.1").claimed:
                await asyncio.sleep(0.02)
            if cancelled:
                daemon.cancel(job_id)
            job = (await daemon.ended(job_id)).job(job_id)
            assert (job.state, job.reason) == (
                ("cancelled", "") if cancelled else ("failed", "could not be started within 3 s")
            )
        other = daemon.submit(rigid(3, "/bin/true"))
        assert (await daemon.ended(other)).job(other).state == "completed"

    perform(config, play)


def test_a_full_disk_stops_no_job_but_none_is_taken(config: DaemonConfig, caplog: pytest.LogCaptureFixture) -> None:
    """The log takes up again what it missed, once there is room."""

    async def play(daemon: Daemon) -> None:
        assert daemon._store is not None
        base = daemon._store._base
        jobs = [daemon.submit(rigid(3, sys.executable, "-c", "pass", "x" * 4000)) for _ in range(8)]
        assert await daemon.durable() == ""
        (pages,) = base.execute("PRAGMA page_count").fetchone()
        base.execute(f"PRAGMA max_page_count = {pages}")
        await daemon.idle()
        assert [daemon.snapshot().job(job_id).state for job_id in jobs] == ["completed"] * 8
        client = ControlClient(config.state_dir, PATIENCE_S)
        for _ in range(3):  # The log has pages that are not full yet.
            with contextlib.suppress(SubmitError):
                await asyncio.to_thread(client.submit, rigid(3, "/bin/true", *("x" * 4000 for _ in range(9))))
        known = {job.job for job in daemon.snapshot().jobs if job.state == "completed"}
        assert known == set(jobs), "one that was not taken has run"
        assert daemon.snapshot().log_behind == "database or disk is full"
        with pytest.raises(SubmitError, match="the log cannot be written: database or disk is full"):
            await asyncio.to_thread(client.submit, rigid(1, "/bin/true"))
        with pytest.raises(SubmitError, match="the log cannot be written: database or disk is full"):
            daemon.submit(rigid(1, "/bin/true"))
        with pytest.raises(SubmitError, match="the log cannot be written"):
            daemon.reserve(Reserve(in_s=10.0, duration_s=10.0, nodes=1))
        assert "this is lost" not in caplog.text
        await asyncio.to_thread(client.use, "easy")
        assert "(database or disk is full): if the scheduler is killed now, this is lost" in caplog.text
        base.execute("PRAGMA max_page_count = 1000000")
        while daemon.snapshot().log_behind:
            await asyncio.sleep(0.05)
        job_id = await asyncio.to_thread(client.submit, rigid(1, "/bin/true"))
        assert job_id > max(jobs)
        assert (await daemon.ended(job_id)).job(job_id).state == "completed"

    perform(config, play)
    logged = [line for line in caplog.messages if "complete" in line and "scheduler.db" in line]
    assert logged == [
        f"{config.state_dir}/scheduler.db is incomplete from now on: database or disk is full",
        f"{config.state_dir}/scheduler.db is complete again",
    ]
    store = Store(config.state_dir)
    (era,) = store.eras()
    states = [job.state for job in read_record(store, era).jobs]
    assert states.count("completed") == 9
    assert set(states) <= {"completed", "cancelled"}
    store.close()


def test_a_history_that_cannot_be_written_is_named(config: DaemonConfig) -> None:
    config.state_dir.mkdir(mode=0o700)
    (config.state_dir / f".history.json.{os.getpid()}").symlink_to("/dev/full")

    async def play(daemon: Daemon) -> None:
        daemon.submit(rigid(3, "/bin/sleep", "1000"))

    with pytest.raises(OSError, match=r"No space left on device: '.*/history\.json'"):
        perform(config, play)
    assert_nothing_left(config)
    assert not (config.state_dir / f".history.json.{os.getpid()}").is_symlink()


def test_what_a_job_left_is_removed_while_the_scheduler_goes_on_and_before_it_ends(
    config: DaemonConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder where a result should be may hold any number of files; so may what a job goes on with."""
    happened: list[str] = []
    to_go_on, remove, close = threading.Event(), shutil.rmtree, StateFolder.close
    script = "mkdir $MALLEABLE_RESULT $0 && touch $MALLEABLE_RESULT/file $0/file"
    left = [config.state_dir / "result-1.1.json", config.state_dir / "books-1"]

    def slow(path: Path, *, ignore_errors: bool = False) -> None:
        if path in left:
            to_go_on.wait(20.0)
            happened.append(path.name)
        remove(path, ignore_errors=ignore_errors)

    def closed(folder: StateFolder) -> None:
        happened.append("closed")
        close(folder)

    async def play(daemon: Daemon) -> None:
        request = rigid(1, "/bin/sh", "-c", script, str(left[1]))
        job = daemon.submit(msgspec.structs.replace(request, launch="direct"))
        assert (await daemon.ended(job)).job(job).state == "completed"
        await daemon.durable()
        assert all(path.is_dir() for path in left)
        assert daemon._driver is not None
        assert len(daemon._driver._removals) == 2
        asyncio.get_running_loop().call_later(0.2, to_go_on.set)

    monkeypatch.setattr(shutil, "rmtree", slow)
    monkeypatch.setattr(StateFolder, "close", closed)
    perform(config, play)
    assert sorted(happened[:2]) == ["books-1", "result-1.1.json"]
    assert happened[2:] == ["closed"]
    assert not any(path.exists() for path in left)


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
        assert (config.state_dir / "scheduler.db").stat().st_mode & 0o777 == 0o600

    perform(config, play)


def test_a_missing_launcher_is_named(config: DaemonConfig, tmp_path: Path) -> None:
    with pytest.raises(DaemonError, match=r"no MPI launcher at .*missing") as refused:
        perform(msgspec.structs.replace(config, mpiexec=tmp_path / "missing"), lambda _: asyncio.sleep(0))
    assert refused.value.hint == "give another --mpiexec, or none"
    assert not (config.state_dir / "lock").exists()


def test_a_daemon_that_cannot_start_leaves_where_jobs_look_for_one(config: DaemonConfig, tmp_path: Path) -> None:
    with StateFolder(config.state_dir)._lock:  # Of a daemon that was killed.
        (config.state_dir / "endpoint.json").write_text('{"jobs": "127.0.0.1:12345"}')
    with pytest.raises(DaemonError, match="no MPI launcher"):
        perform(msgspec.structs.replace(config, mpiexec=tmp_path / "missing"), lambda _: asyncio.sleep(0))
    folder = StateFolder(config.state_dir)
    assert folder.last_port() == 12345
    folder.publish(jobs="127.0.0.1:12345")
    folder.close()
    assert not (config.state_dir / "endpoint.json").exists()


@pytest.mark.parametrize("runner_lives", [False, True])
def test_what_runs_that_the_log_does_not_know_is_named_and_ended_only_if_that_is_asked_for(
    config: DaemonConfig, caplog: pytest.LogCaptureFixture, runner_lives: bool
) -> None:
    folder = StateFolder(config.state_dir)
    mark = folder.mark("7.1")
    orphan = subprocess.Popen(["/bin/sleep", "1000"], env={processes.ENV_MARK: mark}, start_new_session=True)
    bystander = subprocess.Popen(["/bin/sleep", "1000"], env={processes.ENV_MARK: uuid.uuid4().hex})
    try:
        folder.notes("7.1").claim(processes.identity(orphan.pid) if runner_lives else "1.1.another-boot")
        scratch_folder(mark).mkdir()
        folder._lock.close()

        async def play(daemon: Daemon) -> None:
            job_id = daemon.submit(rigid(1, "/bin/true"))
            assert job_id > 7, "its id is not another job's"
            await daemon.ended(job_id)

        async def serve() -> None:
            async with Daemon(config) as daemon:
                await play(daemon)

        for _ in range(2):  # the secret by which it is found outlives the scheduler
            asyncio.run(serve())
            assert orphan.poll() is None
            assert f"attempt 7.1 runs (processes {orphan.pid}" in caplog.text
            caplog.clear()
        perform(msgspec.structs.replace(config, end_unknown=True), play)
        assert "attempt 7.1, of which the log does not know, is ended" in caplog.text
        assert orphan.wait(PATIENCE_S) == -signal.SIGKILL
        assert bystander.poll() is None
        assert_nothing_left(config)
    finally:
        for process in (orphan, bystander):
            process.kill()
            process.wait()


@pytest.mark.parametrize("cancelled", [False, True])
def test_an_attempt_that_the_log_lacks_does_not_end_the_next_one(
    config: DaemonConfig, monkeypatch: pytest.MonkeyPatch, cancelled: bool
) -> None:
    """A daemon whose disk was full started job 1 and was killed; the log has that it was submitted, and not more."""
    folder = StateFolder(config.state_dir)
    store = Store(config.state_dir)
    log_state, _ = restore(store, config, 1)
    entry = Entry(1.0, (), (Requested(1, msgspec.structs.replace(rigid(1, "/bin/true"), hold=True)),))
    store.append([encode(entry, log_state.take(entry))])
    store.close()
    folder.notes("1.1").claim("1.1.another-boot")
    folder._lock.close()
    monkeypatch.setattr(executor, "_CLAIM_S", 1000.0 if cancelled else 0.5)

    async def play(daemon: Daemon) -> None:
        job_id = 1
        daemon.manage(Hold(job=job_id, held=False))
        assert daemon.submit(rigid(1, "/bin/true")) == 2
        if cancelled:
            daemon.cancel(job_id)
        monkeypatch.setattr(executor, "_CLAIM_S", PATIENCE_S)  # For the runner; the old claim's end is set.
        job = (await daemon.ended(job_id)).job(job_id)
        assert job.state == ("cancelled" if cancelled else "completed"), job.reason

    perform(config, play)


def test_a_runner_that_does_not_take_its_job_is_ended(
    config: DaemonConfig, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    stuck = tmp_path / "python"
    stuck.write_text("#!/bin/sh\nexec sleep 1000\n")
    stuck.chmod(0o700)
    monkeypatch.setattr(executor, "_CLAIM_S", 0.3)
    monkeypatch.setattr(sys, "executable", str(stuck))

    async def play(daemon: Daemon) -> None:
        job_id = daemon.submit(rigid(1, "/bin/true"))
        job = (await daemon.ended(job_id)).job(job_id)
        assert (job.state, job.reason) == ("failed", "could not be started: its runner ended with status -9")

    perform(config, play)


def test_a_scheduler_that_was_stopped_itself_ends_no_runner_for_that(
    config: DaemonConfig, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    os.mkfifo(go)
    launched = asyncio.Event()
    encode = Launch.encode

    def launch(self: Launch) -> bytes:
        launched.set()
        return encode(replace(self, until_s=time.monotonic() + PATIENCE_S))

    monkeypatch.setattr(executor, "_CLAIM_S", 0.2)
    monkeypatch.setattr(Launch, "encode", launch)

    async def play(daemon: Daemon) -> None:
        job_id = daemon.submit(JobRequest(name="waits", command=("/bin/sh", "-c", f"read x < {go}"), launch="direct"))
        await launched.wait()
        for _ in range(10):  # The runner is to have all of it.
            await asyncio.sleep(0)
        stopped_s = time.monotonic()
        while not list(config.state_dir.glob("runs/*.claim")):
            assert time.monotonic() < stopped_s + PATIENCE_S
            time.sleep(0.01)
        time.sleep(max(0.0, stopped_s + 0.3 - time.monotonic()))
        await until(daemon, lambda: daemon.snapshot().job(job_id).state == "running")
        await asyncio.to_thread(go.write_text, "now\n")
        job = (await daemon.ended(job_id)).job(job_id)
        assert job.state == "completed", job.reason

    perform(config, play)


def test_a_runner_that_does_not_end_its_job_is_ended(config: DaemonConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor, "_INSIST_S", 0.1)

    async def play(daemon: Daemon) -> None:
        job_id = daemon.submit(rigid(1, "/bin/sleep", "1000"))
        await until(daemon, lambda: daemon.snapshot().job(job_id).state == "running")
        (claim,) = config.state_dir.glob("runs/*.claim")
        assert processes.send(str(claim.readlink()), signal.SIGSTOP)
        daemon.cancel(job_id)
        assert (await daemon.ended(job_id)).job(job_id).state == "cancelled"

    perform(config, play)


def test_job_numbers_go_on_in_a_used_folder(config: DaemonConfig) -> None:
    async def play(daemon: Daemon) -> None:
        daemon.submit(rigid(1, "/bin/true"))
        await daemon.idle()

    perform(config, play)
    perform(config, play)
    assert {entry.name for entry in config.state_dir.glob("*.out")} == {"job-1.out", "job-2.out"}


def test_a_thread_reports_why_it_cannot_start(config: DaemonConfig, tmp_path: Path) -> None:
    with pytest.raises(DaemonError, match="no MPI launcher"):
        DaemonThread(msgspec.structs.replace(config, mpiexec=tmp_path / "missing"))


def test_a_step_without_an_end_is_reported(
    config: DaemonConfig, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("scheduler_bridge.daemon.daemon._STUCK_S", 0.1)

    def decide_nothing(_: Daemon) -> None:
        until_s = time.monotonic() + PATIENCE_S
        while "(decide_nothing). If that is a policy without an end" not in caplog.text:
            assert time.monotonic() < until_s
            time.sleep(0.01)

    with DaemonThread(config) as daemon:
        daemon.call(decide_nothing)
    until_s = time.monotonic() + PATIENCE_S
    while any(thread.name == "malleable-watch" for thread in threading.enumerate()):
        assert time.monotonic() < until_s
        time.sleep(0.01)


def test_leaked_shared_memory_is_removed_only_if_nobody_maps_it(tmp_path: Path) -> None:
    name = f"mpich_shm_test{os.getpid():x}_0"
    path = Path("/dev/shm") / name
    path.write_bytes(b"\0" * 4096)
    code = (
        f"import mmap, time; f = open({str(path)!r}, 'r+b'); m = mmap.mmap(f.fileno(), 0);"
        "print('mapped', flush=True); time.sleep(1000)"
    )
    mark = uuid.uuid4().hex
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, env={**os.environ, processes.ENV_MARK: mark}
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"mapped\n"
        assert processes.shared_segments(mark) == {name}
        processes.remove_segments({name})
        assert path.exists()
        assert processes.end_marked(mark, patience_s=0.0) == []
        assert not path.exists()
    finally:
        process.kill()
        process.communicate()
        path.unlink(missing_ok=True)
