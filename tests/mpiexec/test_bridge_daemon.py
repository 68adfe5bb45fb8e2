"""Real processes under the daemon: what is started ends, and nothing is left."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from pathlib import Path

import pytest
from support import PATIENCE_S
from support.daemons import (
    assert_nothing_left,
    jobs_processes,
    perform,
    replace_request,
    rigid,
    until,
)

from scheduler_bridge.daemon import Daemon, DaemonConfig, DaemonError, DaemonThread, JobRequest, SubmitError
from scheduler_bridge.jobrunner import processes
from scheduler_bridge.record import decode_record

FAKE = str(Path(__file__).with_name("fake_job.py"))


def fake(answer: str, low: int = 1, high: int = 3, orders: int = 1) -> JobRequest:
    """A malleable fake; the launcher is spelled out because the job gets its nodes as an argument."""
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


def test_what_jobs_found_out_reaches_the_record(config: DaemonConfig) -> None:
    """A benchmark verifies itself and says so; documents that are none are left out, and none stays behind."""
    writes = "import os, sys; open(os.environ['MALLEABLE_RESULT'], 'w').write(eval(sys.argv[1]))"
    texts = {
        "right": '\'{"result": 7, "verified": true, "more": 1}\'',
        "long": "'{\"result\": \"' + 9999 * 'x' + '\", \"verified\": false}'",
        "broken": "'{'",
        "deep": "99999 * '['",
        "list": "'[1]'",
    }

    async def play(daemon: Daemon) -> None:
        requests = [rigid(1, sys.executable, "-c", writes, text) for text in texts.values()]
        uts = (sys.executable, "-m", "benchmarks.uts", "--depth", "4", "--workers", "1", "--verify", "--quiet")
        jobs = [daemon.submit(request) for request in (*requests, rigid(1, *uts), rigid(1, "true"))]
        for job in jobs:
            assert (await daemon.ended(job)).job(job).state == "completed"
        found = {job.job_id: (job.verified, (job.result or {}).get("result")) for job in daemon.record().jobs}
        *ours, benchmark, silent = (found[job] for job in jobs)
        assert dict(zip(texts, ours, strict=True)) == {
            "right": (True, 7),
            "long": (False, None),
            "broken": (None, None),
            "deep": (None, None),
            "list": (None, None),
        }
        assert benchmark[0] is True
        assert benchmark[1] is not None
        assert silent == (None, None)
        assert "more" not in (daemon.record().jobs[0].result or {})

    perform(config, play)
    assert not list(config.state_dir.glob("result-*"))


def test_what_a_job_says_before_it_ends_is_heard_where_the_scheduler_has_to_wait_for_a_core(
    config: DaemonConfig, tmp_path: Path
) -> None:
    """It was refused, as a message of a job that has ended, unless the scheduler was quicker than the job's end."""
    ordered, go = tmp_path / "ordered", tmp_path / "go"
    program = Path(__file__).parent / "programs" / "last_words.py"
    request = JobRequest(
        name="says", command=(sys.executable, str(program), str(ordered), str(go)), job_class="malleable", nodes=3,
        min_nodes=1, max_nodes=3, launch="direct",
    )  # fmt: skip

    async def play(daemon: Daemon) -> None:
        job_id = daemon.submit(request)
        await until(daemon, lambda: daemon.snapshot().job(job_id).ready)
        daemon.resize(job_id, -1)
        while not ordered.exists():
            await asyncio.sleep(0.02)
        (claim,) = config.state_dir.glob("runs/*.claim")
        runner, until_s = str(claim.readlink()), time.monotonic() + PATIENCE_S
        go.touch()
        while processes.lives(runner):  # nothing is read meanwhile
            assert time.monotonic() < until_s
            time.sleep(0.01)
        job = (await daemon.ended(job_id)).job(job_id)
        assert (job.state, job.shrinks) == ("completed", 1)
        assert [resize.outcome for resize in daemon.record().jobs[0].resizes] == ["done"]

    perform(config, play)


def test_jobs_of_a_moment_complete(config: DaemonConfig) -> None:
    """Those of some nodes are over before the launcher has passed the end of its input on to them."""

    async def play(daemon: Daemon) -> None:
        for _ in range(40):
            job_id = daemon.submit(rigid(3, "/bin/true"))
            job = (await daemon.ended(job_id)).job(job_id)
            assert (job.state, job.reason) == ("completed", "")

    perform(config, play)


def test_a_broken_pipe_ends_a_job_s_process_as_usual(config: DaemonConfig) -> None:
    async def play(daemon: Daemon) -> None:
        job_id = daemon.submit(rigid(1, "/bin/grep", "SigIgn", "/proc/self/status"))
        assert (await daemon.ended(job_id)).job(job_id).state == "completed"
        ignored = int(daemon.output(job_id).read_text().split()[1], 16)
        assert not ignored & 1 << signal.SIGPIPE - 1

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


def test_a_thread_serves_programs_without_asyncio(config: DaemonConfig) -> None:
    with DaemonThread(config) as daemon:
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
