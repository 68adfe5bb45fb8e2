"""A session whose program and whose Slurm are played by the test."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from support import PATIENCE_S
from support.played import Job

from apgas.malleability import orders as wire
from scheduler_bridge.backends.slurm import JobInfo, Limits, Session, SessionConfig, Slurm, SlurmError
from scheduler_bridge.backends.slurm.holdings import Words
from scheduler_bridge.backends.slurm.reading import ReadingError, Step
from scheduler_bridge.daemon import ControlClient, JobRequest, SubmitError
from scheduler_bridge.jobrunner import processes
from scheduler_bridge.jobrunner.notes import Notes

HERE = os.uname().nodename
LAUNCHER = f"""#!/bin/sh
echo "${wire.ENV_SCHEDULER} ${wire.ENV_TOKEN}" > "$(dirname "$0")/endpoint.part"
mv "$(dirname "$0")/endpoint.part" "$(dirname "$0")/endpoint"
exec sleep 600
"""


class Played(Slurm):
    """Job 1 has this machine, every further job a node of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.did: list[Words] = []
        self.away: SlurmError | None = None
        self._jobs = iter(range(2, 10))
        self._scripts: dict[int, subprocess.Popen[str]] = {}

    def limits(self) -> Limits:
        return Limits((24, 11, 5), "auth/slurm", expansion=False, once=False)

    def job(self, number: int, within_s: float = 0.0) -> JobInfo:
        if number == 1:
            return JobInfo(1, "RUNNING", (HERE,), HERE)
        return JobInfo(number, "COMPLETED" if number in self.over() else "RUNNING", (f"n{number}",), ends_s=1000.0)

    def steps(self, jobs: tuple[int, ...]) -> tuple[Step, ...]:
        if self.away is not None:
            raise self.away
        return ()

    def submit(self, words: Words, script: str) -> int:
        number = next(self._jobs)
        environment = {**os.environ, "SLURM_JOB_ID": str(number)}
        self._scripts[number] = subprocess.Popen(["sh"], env=environment, stdin=subprocess.PIPE, text=True)
        pipe = self._scripts[number].stdin
        assert pipe is not None
        with pipe:
            pipe.write(script)
        return number

    def over(self) -> list[int]:
        """The companion jobs that have ended."""
        return [number for number, process in self._scripts.items() if process.poll() is not None]

    def run(self, words: Words) -> None:
        self.did.append(words)


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not holds():
            await asyncio.sleep(0.01)


async def connected(folder: Path) -> Job:
    """The program, which is ready for orders."""
    await until((folder / "endpoint").exists)
    endpoint, token = (folder / "endpoint").read_text(encoding="utf-8").split()
    host, _, port = endpoint.rpartition(":")
    job = Job(*await asyncio.open_connection(host, int(port)))
    await job.say(wire.Hello(version=2, job=1, token=token))
    assert await job.hear() == wire.Welcome(version=2)
    await job.say(wire.Ready(nodes=(HERE,)))
    return job


@pytest.fixture
def slurm() -> Iterator[Played]:
    played = Played()
    yield played
    for script in played._scripts.values():
        script.wait(PATIENCE_S)


def config(folder: Path, launcher: str = LAUNCHER) -> SessionConfig:
    path = folder / "mpiexec"
    path.write_text(launcher, encoding="utf-8")
    path.chmod(0o755)
    request = JobRequest(
        name="played", command=("true",), job_class="malleable", nodes=1, min_nodes=1, max_nodes=8, walltime_s=600.0
    )
    return SessionConfig(1, request, folder / "state", mpiexec=path, grace_s=0.2)


def perform(
    config: SessionConfig, folder: Path, slurm: Slurm, play: Callable[[Session, Job], Awaitable[None]]
) -> Session:
    """Run a session while ``play`` does what its program and its users would."""

    async def run() -> Session:
        session = Session(config, slurm)
        running = asyncio.create_task(session.run())
        job = await connected(folder)
        try:
            await until(lambda: session.snapshot().jobs[0].ready)
            await play(session, job)
        finally:
            await job.hang_up()
            session.request_stop()
            await running
        return session

    return asyncio.run(run())


async def grown(session: Session, job: Job, node: str) -> None:
    """The program grows onto a node."""
    session.resize(1, 1)
    order = await job.hear()
    assert isinstance(order, wire.Grow)
    assert order.nodes == (node,)
    await job.say(wire.Outcome(order=order.order, kind="grow", outcome="done", nodes=order.nodes))
    await until(lambda: session.snapshot().jobs[0].resizing is None)


def test_a_node_that_is_lost_while_the_program_grows_lets_no_second_order_in(tmp_path: Path, slurm: Played) -> None:
    async def play(session: Session, job: Job) -> None:
        await grown(session, job, "n2")
        session.resize(1, 1)
        order = await job.hear()  # to be answered later
        assert isinstance(order, wire.Grow)
        await job.say(wire.Lost(nodes=("n2",), reason="it is gone", loss=1))
        await until(lambda: slurm.over() == [2] and len(session._tasks) == 1)
        with pytest.raises(ValueError, match=r"it is being resized \(grow\)"):
            session.resize(1, 1)
        await job.say(wire.Outcome(order=order.order, kind="grow", outcome="done", nodes=order.nodes))
        await until(lambda: session.snapshot().jobs[0].resizing is None)
        assert session.snapshot().jobs[0].nodes == (HERE, "n3")
        assert session.resize(1, 1) == 1

    perform(config(tmp_path), tmp_path, slurm, play)


def test_nodes_of_companion_jobs_go_first_and_back_when_the_program_has_left_them(
    tmp_path: Path, slurm: Played
) -> None:
    async def play(session: Session, job: Job) -> None:
        await grown(session, job, "n2")
        assert session.resize(1, -1) == -1
        order = await job.hear()
        assert isinstance(order, wire.Shrink)
        assert order.nodes == ("n2",)
        assert session.snapshot().nodes[1].releasing
        assert slurm.over() == []
        await job.say(wire.Outcome(order=order.order, kind="shrink", outcome="done", nodes=order.nodes))
        await until(lambda: session.snapshot().jobs[0].resizing is None)
        assert (slurm.did, slurm.over()) == ([], [2])
        assert [node.name for node in session.snapshot().nodes] == [HERE]
        with pytest.raises(ValueError, match="it has 1 node and accepts 1 to 8"):
            session.resize(1, -1)
        with pytest.raises(KeyError):
            session.resize(2, 1)
        await grown(session, job, "n3")

    record = perform(config(tmp_path), tmp_path, slurm, play).record()
    assert record.policy == "slurm"
    assert record.nodes == [HERE, "n2", "n3"]
    assert record.jobs[0].state == "cancelled"
    assert [resize.kind for resize in record.jobs[0].resizes] == ["grow", "shrink", "grow"]


@pytest.mark.parametrize("error", [SlurmError("it is away"), ReadingError("a line is not understood")])
def test_nodes_are_given_back_when_slurm_is_there_again(
    tmp_path: Path, slurm: Played, monkeypatch: pytest.MonkeyPatch, error: SlurmError
) -> None:
    """They stayed unused to the end of the job."""
    monkeypatch.setattr("scheduler_bridge.backends.slurm.session.AGAIN_S", 0.05)

    async def play(session: Session, job: Job) -> None:
        await grown(session, job, "n2")
        session.resize(1, -1)
        order = await job.hear()
        assert isinstance(order, wire.Shrink)
        slurm.away = error
        await job.say(wire.Outcome(order=order.order, kind="shrink", outcome="done", nodes=order.nodes))
        await until(lambda: session.snapshot().jobs[0].resizing is None)
        assert session.snapshot().jobs[0].reason == f"n2 not given back yet: {error}"
        assert slurm.over() == []
        slurm.away = None
        await until(lambda: slurm.over() == [2])
        await until(lambda: session.snapshot().jobs[0].reason != f"n2 not given back yet: {error}")

    perform(config(tmp_path), tmp_path, slurm, play)


def test_a_refused_order_returns_the_nodes_and_the_next_one_follows_at_once(tmp_path: Path, slurm: Played) -> None:
    async def play(session: Session, job: Job) -> None:
        session.resize(1, 2)
        order = await job.hear()
        assert isinstance(order, wire.Grow)
        await job.say(wire.Outcome(order=order.order, kind="grow", outcome="refused", reason="not in this phase"))
        await until(lambda: session.snapshot().jobs[0].resizing is None)
        assert (slurm.did, slurm.over()) == ([], [2, 3])
        assert "not in this phase" in session.snapshot().jobs[0].reason
        await grown(session, job, "n4")
        assert "not in this phase" not in session.snapshot().jobs[0].reason

    perform(config(tmp_path), tmp_path, slurm, play)


def test_the_program_asks_for_nodes_and_is_answered_when_slurm_has_them(tmp_path: Path, slurm: Played) -> None:
    async def play(session: Session, job: Job) -> None:
        await job.say(wire.Evolving(request=1, delta=1))
        heard = [await job.hear(), await job.hear()]
        assert wire.Answer(request=1, granted=1) in heard
        (order,) = (message for message in heard if isinstance(message, wire.Grow))
        await job.say(wire.Evolving(request=2, delta=1))
        assert await job.hear() == wire.Answer(request=2, granted=0, reason="it is being resized (grow)")
        await job.say(wire.Outcome(order=order.order, kind="grow", outcome="done", nodes=order.nodes))
        await until(lambda: session.snapshot().jobs[0].resizing is None)

        def refuse(words: Words, script: str) -> int:
            raise SlurmError("Slurm gives no node: busy")

        slurm.submit = refuse  # type: ignore[method-assign]
        await job.say(wire.Evolving(request=3, delta=1))
        assert await job.hear() == wire.Answer(request=3, granted=0, reason="Slurm gives no node: busy")
        await until(lambda: session.snapshot().jobs[0].reason == "not resized: Slurm gives no node: busy")

    perform(config(tmp_path), tmp_path, slurm, play)


def test_nodes_that_a_silent_program_may_use_stay_until_it_has_ended(tmp_path: Path, slurm: Played) -> None:
    async def play(session: Session, job: Job) -> None:
        session.resize(1, 1)
        assert isinstance(await job.hear(), wire.Grow)
        await until(lambda: session.snapshot().jobs[0].resizing is None)
        assert slurm.over() == []
        assert "no outcome within 0.1 s" in session.snapshot().jobs[0].reason
        with pytest.raises(ValueError, match="it takes no orders now"):
            session.resize(1, 1)

    perform(replace(config(tmp_path), resize_deadline_s=0.1, withdraw_s=0.1), tmp_path, slurm, play)
    assert slurm._scripts[2].wait(PATIENCE_S) == 0


def test_users_see_the_program_and_can_end_it_but_there_is_nothing_to_schedule(tmp_path: Path, slurm: Played) -> None:
    async def play(session: Session, job: Job) -> None:
        client = ControlClient(tmp_path / "state")
        seen = await asyncio.to_thread(client.snapshot)
        assert (seen.policy, seen.nodes[0].name, seen.jobs[0].state) == ("slurm", HERE, "running")
        assert (await asyncio.to_thread(client.explain, 1)).nodes == (HERE,)
        with pytest.raises(SubmitError, match="one program runs here, without a scheduler"):
            await asyncio.to_thread(client.submit, JobRequest(name="other", command=("true",)))
        await asyncio.to_thread(client.cancel, 1)
        assert await job.at_end()

    perform(config(tmp_path), tmp_path, slurm, play)


@pytest.mark.parametrize(("end", "code"), [("exit 3", 3), ("kill -TERM $$", 143), ("exit 0", 0)])
def test_the_program_writes_where_the_session_does_and_its_exit_code_is_the_sessions(
    tmp_path: Path, slurm: Played, capfd: pytest.CaptureFixture[str], end: str, code: int
) -> None:
    launcher = f"#!/bin/sh\necho said; echo complained >&2; {end}\n"
    assert asyncio.run(Session(config(tmp_path, launcher), slurm).run()) == code
    said = capfd.readouterr()
    assert said.out == "said\n"
    assert "complained\n" in said.err
    assert sorted(path.name for path in (tmp_path / "state").iterdir()) == ["history.json"]


def test_a_job_that_slurm_runs_again_takes_nothing_up(tmp_path: Path, slurm: Played) -> None:
    """It has the same number and the same state folder, also if the first session was killed."""
    runs = tmp_path / "state" / "runs"
    runs.mkdir(parents=True, mode=0o700)
    assert Notes(runs, "1.1").claim(f"{2**22}.1.{processes.boot()}")
    session = Session(config(tmp_path, "#!/bin/sh\nexit 0\n"), slurm)
    # a scheduler would wait for 60 s, lest a runner comes late that its predecessor had made
    assert asyncio.run(asyncio.wait_for(session.run(), 45.0)) == 0


def test_the_allocation_has_to_fit_the_program(tmp_path: Path, slurm: Played) -> None:
    large = replace(config(tmp_path), request=JobRequest(name="large", command=("true",), nodes=2))
    with pytest.raises(SlurmError, match="the program accepts 2 to 2 nodes, and job 1 has 1"):
        Session(large, slurm)
