"""Real processes under the daemon: what is started ends, and nothing is left."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from scheduler_bridge.live import Daemon, DaemonConfig, DaemonError, JobRequest, SubmitError, marks
from scheduler_bridge.live.runner import Ending, JobRun, Launch
from scheduler_bridge.live.state import StateFolder, scratch_folder
from scheduler_bridge.record import decode_record

FAKE = str(Path(__file__).with_name("fake_job.py"))
PATIENCE_S = 60.0
BIRTHMARK = "BRIDGE_TEST"
"""In the environment of every process that a test's daemon starts."""


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DaemonConfig:
    scratch = tmp_path / "tmp"  # Others may run jobs on this machine too.
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    monkeypatch.setenv(BIRTHMARK, str(tmp_path))
    return DaemonConfig(nodes=("n1", "n2", "n3"), state_dir=tmp_path / "state", grace_s=0.3)


def fake(answer: str, low: int = 1, high: int = 3, orders: int = 1) -> JobRequest:
    """A malleable fake; the launcher is spelled out because the job is told its nodes as an argument."""
    launcher = str(Path(sys.prefix) / "bin" / "mpiexec")
    words = (launcher, "-launcher", "fork", "-hosts", "{hosts}", "-n", "{count}", sys.executable, FAKE, "{hosts}")
    return JobRequest(
        name=answer,
        command=(*words, answer, str(orders)),
        job_class="malleable",
        nodes=low,
        min_nodes=low,
        max_nodes=high,
    )


def rigid(nodes: int, *command: str) -> JobRequest:
    return JobRequest(name="rigid", command=command, nodes=nodes)


def perform(config: DaemonConfig, play: Callable[[Daemon], Awaitable[None]]) -> Daemon:
    daemon = Daemon(config)

    async def run() -> None:
        async with asyncio.timeout(PATIENCE_S), daemon:
            await play(daemon)

    asyncio.run(run())
    assert_nothing_left(config)
    return daemon


def assert_nothing_left(config: DaemonConfig) -> None:
    names = {entry.name for entry in config.state_dir.iterdir()}
    assert not names & {"control.sock", "endpoint.json", "lock", "marks"}
    assert not jobs_processes()
    assert not list(Path(tempfile.gettempdir()).iterdir())


def jobs_processes() -> list[int]:
    born_here = f"{BIRTHMARK}={os.environ[BIRTHMARK]}".encode()
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            environment = (process / "environ").read_bytes()
        except OSError:
            continue
        if born_here in environment.split(b"\0"):
            found.append(int(process.name))
    return found


async def until(daemon: Daemon, holds: Callable[[], bool]) -> None:
    while not holds():
        await daemon.changed()


def test_commands_run_once_per_node_by_name(config: DaemonConfig) -> None:
    async def play(daemon: Daemon) -> None:
        # One write per line: the launcher may interleave the parts of several.
        code = 'import os; e = os.environ; os.write(1, f\'{e["PMI_HOSTNAME"]} {e["WHO"]} {os.getcwd()}\\n\'.encode())'
        request = JobRequest(
            name="names",
            command=(sys.executable, "-c", code),
            nodes=3,
            cwd="/usr",
            environment={"WHO": "me", "MALLEABLE_JOB": "forged"},
        )
        snapshot = await daemon.ended(daemon.submit(request))
        assert snapshot.job(1).state == "completed", snapshot
        assert sorted(daemon.output(1).read_text().splitlines()) == [f"n{index} me /usr" for index in (1, 2, 3)]

    perform(config, play)


def test_a_failed_job_shows_the_end_of_its_errors(config: DaemonConfig) -> None:
    async def play(daemon: Daemon) -> None:
        code = "import sys; sys.exit('the disk is full')"
        job_id = daemon.submit(rigid(1, sys.executable, "-c", code))
        job = (await daemon.ended(job_id)).job(job_id)
        assert job.state == "failed"
        assert "exit status 1" in job.reason
        assert "the disk is full" in job.reason

    perform(config, play)


def test_a_job_grows_into_freed_nodes_and_shrinks_for_others(config: DaemonConfig) -> None:
    async def play(daemon: Daemon) -> None:
        blocker = daemon.submit(rigid(2, "/bin/sleep", "1000"))
        job_id = daemon.submit(fake("done", orders=2))
        await until(daemon, lambda: daemon.snapshot().job(job_id).ready)
        daemon.cancel(blocker)
        await until(daemon, lambda: daemon.snapshot().job(job_id).grows == 1)
        late = daemon.submit(rigid(1, "/bin/true"))
        await daemon.idle()
        snapshot = daemon.snapshot()
        assert [snapshot.job(number).state for number in (blocker, job_id, late)] == [
            "cancelled",
            "completed",
            "completed",
        ]
        assert snapshot.job(job_id).shrinks == 1
        assert "ready" in daemon.output(job_id).read_text()

    perform(config, play)
    record = decode_record((config.state_dir / "history.json").read_bytes())
    malleable = next(job for job in record.jobs if job.job_class == "malleable")
    assert [len(segment.nodes) for segment in malleable.segments] == [1, 3, 2]
    # A third order may cross the job's end.
    assert [(resize.kind, resize.outcome, resize.seconds) for resize in malleable.resizes[:2]] == [
        ("grow", "done", 0.5),
        ("shrink", "done", 0.5),
    ]


def test_a_refused_shrink_leaves_the_others_waiting(config: DaemonConfig) -> None:
    async def play(daemon: Daemon) -> None:
        job_id = daemon.submit(fake("refused"))
        await until(daemon, lambda: daemon.snapshot().job(job_id).ready)
        late = daemon.submit(rigid(1, "/bin/true"))
        await daemon.idle()
        assert daemon.snapshot().job(job_id).state == "completed"
        assert daemon.snapshot().job(late).state == "completed"
        ended_s = daemon.snapshot().job(job_id).end_s
        started_s = daemon.snapshot().job(late).start_s
        assert ended_s is not None
        assert started_s is not None
        assert started_s >= ended_s

    daemon = perform(config, play)
    (resize,) = daemon.record().jobs[0].resizes
    assert (resize.outcome, resize.reason) == ("refused", "it is only a fake")


def test_over_its_walltime_a_job_is_ended(config: DaemonConfig) -> None:
    async def play(daemon: Daemon) -> None:
        job_id = daemon.submit(JobRequest(name="long", command=("/bin/sleep", "1000"), nodes=2, walltime_s=0.2))
        job = (await daemon.ended(job_id)).job(job_id)
        assert job.state == "timeout"
        assert "0.2 s" in job.reason

    daemon = perform(config, play)
    assert daemon.record().jobs[0].state == "timeout"


def test_jobs_are_cancelled_waiting_and_running(config: DaemonConfig) -> None:
    async def play(daemon: Daemon) -> None:
        running = daemon.submit(rigid(3, "/bin/sleep", "1000"))
        waiting = daemon.submit(rigid(3, "/bin/true"))
        await until(daemon, lambda: daemon.snapshot().job(running).state == "running")
        assert daemon.snapshot().job(waiting).reason
        daemon.cancel(waiting)
        assert daemon.snapshot().job(waiting).state == "cancelled"
        daemon.cancel(running)
        await daemon.idle()
        assert daemon.snapshot().job(running).state == "cancelled"
        with pytest.raises(ValueError, match="ended already"):
            daemon.cancel(running)
        with pytest.raises(KeyError):
            daemon.cancel(77)

    daemon = perform(config, play)
    assert [job.state for job in daemon.record().jobs] == ["cancelled", "cancelled"]
    assert daemon.record().jobs[1].start_s is None


def test_a_stubborn_job_and_its_runaway_are_ended(config: DaemonConfig) -> None:
    async def play(daemon: Daemon) -> None:
        job_id = daemon.submit(fake("stubborn"))
        output = daemon.output(job_id)
        while not (output.exists() and "stubborn" in output.read_text()):
            await asyncio.sleep(0.02)
        daemon.cancel(job_id)
        await daemon.idle()
        assert not jobs_processes()

    perform(config, play)


def test_leaving_the_daemon_ends_all_jobs(config: DaemonConfig) -> None:
    async def play(daemon: Daemon) -> None:
        for _ in range(2):
            daemon.submit(rigid(2, "/bin/sleep", "1000"))
        daemon.submit(fake("silent"))
        await until(daemon, lambda: any(job.ready for job in daemon.snapshot().jobs))

    daemon = perform(config, play)
    assert {job.state for job in daemon.record().jobs} == {"cancelled"}


def test_bad_requests_are_refused(config: DaemonConfig, tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.touch()

    async def play(daemon: Daemon) -> None:
        for request, reason in (
            (rigid(1, str(tmp_path / "nothing")), "does not exist"),
            (rigid(1, str(plain)), "not executable"),
            (rigid(1, str(tmp_path)), "not a file"),
            (rigid(1, "no-such-program-at-all"), "not a program"),
            (rigid(4, "/bin/true"), "needs 4 nodes"),
            (replace_request(rigid(1, "/bin/true"), cwd=str(plain)), "not a folder"),
            (fake("done", low=3, high=2), "below min_nodes"),
            (replace_request(rigid(2, "/bin/true"), max_nodes=3), "one size"),
            (rigid(1, ""), "'' is not a program"),
            (rigid(1, "."), r"\. is not a program"),
            (rigid(1, "/bin/echo", "a\0b"), "NUL"),
            (replace_request(rigid(1, "/bin/true"), environment={"A": "\0"}), "NUL"),
            (replace_request(rigid(1, "/bin/true"), environment={"A=B": "x"}), "'A=B' is not the name of a variable"),
            (replace_request(rigid(1, "/bin/true"), name="two\nlines"), "cannot be printed"),
        ):
            with pytest.raises(SubmitError, match=reason):
                daemon.submit(request)
        assert not [job for job in daemon.snapshot().jobs if job.state != "refused"]

    perform(config, play)


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


def replace_request(request: JobRequest, **fields: object) -> JobRequest:
    import msgspec

    return msgspec.structs.replace(request, **fields)


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


def test_a_thread_serves_programs_without_asyncio(config: DaemonConfig) -> None:
    with Daemon.start_in_thread(config) as daemon:
        job_id = daemon.submit(rigid(2, "/bin/echo", "hello"))
        assert daemon.ended(job_id, timeout_s=PATIENCE_S).job(job_id).state == "completed"
        assert daemon.output(job_id).read_text() == "hello\nhello\n"
        daemon.note("emulated nodes")
        daemon.note_result(job_id, {"verified": True})
        sleeper = daemon.submit(rigid(1, "/bin/sleep", "1000"))
        with pytest.raises(TimeoutError):
            daemon.idle(timeout_s=0.05)
        daemon.cancel(sleeper)
        daemon.idle(timeout_s=PATIENCE_S)
    record = daemon.record()
    assert record.notes == ["emulated nodes"]
    assert record.jobs[0].verified is True
    with pytest.raises(DaemonError, match="has ended"):
        daemon.snapshot()
    assert_nothing_left(config)


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
