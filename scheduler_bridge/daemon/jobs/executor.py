"""Starts and ends the jobs' processes by runners of their own, and finds the runners of an earlier daemon again."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from apgas.malleability import communicator
from apgas.malleability import orders as wire
from apgas.malleability.core_ids import ENV_BIND_CORES, ENV_CORE_IDS
from apgas.malleability.core_ids import text as text_of
from scheduler_bridge.daemon.admission import JobFacts
from scheduler_bridge.daemon.config import EMULATED, DaemonConfig
from scheduler_bridge.daemon.jobs import template
from scheduler_bridge.daemon.jobs.session import MOST_CHARACTERS, core_lists
from scheduler_bridge.daemon.requests import ENV_RESILIENT, JobRequest
from scheduler_bridge.daemon.storage.state import StateFolder, scratch_folder
from scheduler_bridge.jobrunner import processes
from scheduler_bridge.jobrunner.notes import Ending
from scheduler_bridge.jobrunner.run import Launch
from scheduler_bridge.printable import one_line

_logger = logging.getLogger(__name__)

_RECONNECT: Final = "reconnect:60"
"""What jobs do when the scheduler is lost, unless they say otherwise: it may be back soon."""
_LIMIT_MARGIN_S: Final = 60.0
ENV_CORES: Final = "MALLEABLE_CORES"
"""Says to a job how many cores of each of its nodes it may use when it starts."""
_CLAIM_S: Final = 60.0
"""Time for a runner to take its attempt; the attempt's claim outlives it by as long."""
_START_S: Final = 60.0
"""Time for a runner that has its attempt to start the job's process."""
_STUCK_S: Final = 2.0
"""Time for a runner to end a job that has not started: it may hang in a file system, where it hears nothing."""
_INSIST_S: Final = 30.0
"""Time for a runner to end its job, beyond the job's own; then it is killed, and its job is ended from here."""
_LOOK_AGAIN_S: Final = 0.05
_TAIL_BYTES: Final = 2000


@dataclass(frozen=True, slots=True)
class Setup:
    """What an executor is made with.

    Attributes:
        folder: Where output and notes go.
        config: How jobs are started and ended, nodes reached, and cores bound; its cores of each node are those that an
            earlier run that goes on has chosen.
        started: Called with the job's id when its processes run.
        last_words: Awaited with the job's id before ``ended`` is called: then all is heard that the job has said.
        ended: Called with the job's id when nothing of it is left.
    """

    folder: StateFolder
    config: DaemonConfig
    started: Callable[[int], None]
    last_words: Callable[[int], Awaitable[None]]
    ended: Callable[[int, Ending], None]


class Executor:
    """The running jobs' processes."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._config = setup.config
        self._mpiexec = template.find_mpiexec(setup.config.mpiexec)
        self._folder = setup.folder
        self._runs: dict[int, _Run] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._retired: dict[str, asyncio.Task[None]] = {}

    def start(self, job: JobFacts, nodes: tuple[str, ...], core_ids: tuple[int, ...], endpoint: str) -> None:
        """See to it that the present attempt to run a job runs; events follow.

        If a runner has the attempt already, or has run it, that one is found; so it never runs twice.

        Args:
            job: The job.
            nodes: Where it runs.
            core_ids: Which cores of each node it may use (bitsets of ids); none: all.
            endpoint: Where its processes find the scheduler.
        """
        job_id, launch = job.spec.job_id, self.launch(job, nodes, core_ids, endpoint)
        run = self._runs[job_id] = _Run(self._folder, launch, lambda: self._setup.started(job_id))
        # The log of a killed daemon may lack an attempt that ran, and was ended: then this one has the same name.
        task = asyncio.get_running_loop().create_task(self._execute(job_id, run, self._retired.get(launch.key)))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def launch(self, job: JobFacts, nodes: tuple[str, ...], core_ids: tuple[int, ...], endpoint: str) -> Launch:
        """Return what the runner of the attempt is given."""
        job_id, request, key = job.spec.job_id, job.alone(), job.key
        mark = self._folder.mark(key)
        output, errors = template.output_files(request, job_id, self._folder)
        core_ids = core_ids or ((1 << self._config.cores_per_node) - 1,) * len(nodes)
        grace_s = self._config.grace_s if request.grace_s is None else request.grace_s
        reach = self._config.reach
        if template.starts_mpiexec(request, self._config):
            words = template.mpiexec_words(request, self._mpiexec, reach)
        else:
            words = template.own_words(grace_s, reach, self._folder.books(job_id))
        if request.protocol == "v1" and reach == EMULATED:
            words = ()
        cores, listed = min(ids.bit_count() for ids in core_ids), text_of(*core_lists(nodes, core_ids))
        names = ",".join(nodes)
        return Launch(
            notes=str(self._folder.runs),
            key=key,
            command=template.launch_command(request, nodes, words, cores, listed, template.gate_words(self._config)),
            cwd=request.cwd or str(Path.cwd()),
            environment=template.lookup_environment(reach)
            | _environment(request, job_id, endpoint, self._folder.token(key), mark)
            | {ENV_CORES: str(cores), ENV_CORE_IDS: listed, ENV_BIND_CORES: "1" if self._config.bind_cores else ""}
            | {template.ENV_RESULT: str(self._folder.result(key).absolute())}
            | {processes.ENV_NODES: names if len(names) <= MOST_CHARACTERS else ""},  # the system takes no longer one
            mark=mark,
            output=str(output),
            errors=str(errors),
            scratch=str(scratch_folder(mark)),
            launcher=template.starts_launcher(request),
            grace_s=grace_s,
            # A job that shares nodes all the time, with one core left to it, is ended so late by the scheduler.
            limit_s=request.walltime_s * self._config.cores_per_node + self._config.walltime_grace_s + _LIMIT_MARGIN_S,
            until_s=0.0,  # Counted from when it is launched.
            appends=job.appends,
        )

    def end(self, job_id: int) -> None:
        """Have a job's processes ended; ``ended`` follows."""
        run = self._runs.get(job_id)
        if run is not None:
            run.end()

    def note_segments(self, job_id: int) -> None:
        """The job is up or has new processes: see which shared memory it uses, to remove it if it is leaked."""
        run = self._runs.get(job_id)
        if run is not None:
            run.send(signal.SIGUSR1)

    def retire(self, key: str) -> None:
        """The end of an attempt is in the log: its notes are not needed any more, soon not even its claim."""
        self._folder.notes(key).retire()
        if key not in self._retired:
            self._retired[key] = asyncio.get_running_loop().create_task(self._forget_later(key))

    async def _forget_later(self, key: str) -> None:
        await asyncio.sleep(_CLAIM_S)
        self._forget(key)

    def _forget(self, key: str) -> None:
        del self._retired[key]
        self._folder.notes(key).forget()

    async def finish(self, within_s: float) -> None:
        """Wait until everything that was ordered to end has ended; what takes longer than ``within_s`` is killed."""
        killing = asyncio.get_running_loop().call_later(within_s, self._kill)
        while self._tasks:
            await asyncio.wait(self._tasks)
        killing.cancel()

    def _kill(self) -> None:
        for job_id, run in self._runs.items():
            _logger.warning("job %d takes too long to end and is killed", job_id)
            run.send(signal.SIGUSR2)

    def close(self) -> None:
        """Forget what is left of attempts that are over."""
        for key, forgetting in tuple(self._retired.items()):
            forgetting.cancel()
            self._forget(key)

    async def _execute(self, job_id: int, run: _Run, after: asyncio.Task[None] | None) -> None:
        try:
            ending = await self.judged(job_id, await run.run(after))
            ending = replace(ending, again=ending.status == os.EX_TEMPFAIL and self._folder.goes_on(job_id))
            await self._setup.last_words(job_id)
        except Exception as error:  # A job whose end is not reported would keep its nodes for ever.
            _logger.exception("job %d could not be run", job_id)
            ending = Ending(None, f"{type(error).__name__}: {error}")
        finally:
            del self._runs[job_id]
        # Its reason holds what the job or a host wrote, and is shown to all users.
        self._setup.ended(job_id, replace(ending, reason=one_line(ending.reason)))

    def lacks(self, node: str) -> str:  # noqa: ARG002 - back-ends look at it
        """Return why there can be no node of this name, for back-ends that know; empty if there can."""
        if self._config.bind_cores and self._config.reach == EMULATED:
            return "jobs are bound to cores, and emulated nodes have the same ones"
        return ""

    async def judged(self, job_id: int, ending: Ending) -> Ending:  # noqa: ARG002 - back-ends look at it
        """Return what is to be reported of an ending, for back-ends that know more about it."""
        return ending


class _Run:
    """One attempt to run a job, as the daemon follows it; ``started`` is called once, when the job's processes run."""

    def __init__(self, folder: StateFolder, launch: Launch, started: Callable[[], None]) -> None:
        self._folder = folder
        self._launch = launch
        self._notes = folder.notes(launch.key)
        self._started = started
        self._has_started = False
        self._to_end = asyncio.Event()
        self._insisting: asyncio.TimerHandle | None = None
        self._starting: asyncio.TimerHandle | None = None
        self._stuck = False

    def end(self) -> None:
        """Have the processes ended; ``run`` returns when nothing of them is left."""
        self._to_end.set()
        self.send(signal.SIGTERM)
        if self._insisting is None:
            self._insisting = asyncio.get_running_loop().call_later(_STUCK_S, self._insist)

    def _insist(self) -> None:
        if self._notes.claimed and not self._notes.started:
            self._kill_runner()
            return
        loop = asyncio.get_running_loop()
        self._insisting = loop.call_later(self._launch.grace_s + _INSIST_S, self.send, signal.SIGKILL)

    def send(self, number: signal.Signals) -> None:
        """Send the runner a signal, if there is one."""
        if who := self._notes.claimed:
            processes.send(who, number)

    async def run(self, after: asyncio.Task[None] | None) -> Ending:
        """Start a runner unless there is one, call ``started``, and wait for the end; all ``after`` that is done."""
        try:
            if after is not None and await self._ended_before(after):
                return Ending(None, "ended before it was started")
            return await self._run()
        finally:
            for timer in (self._insisting, self._starting):
                if timer is not None:
                    timer.cancel()

    async def _ended_before(self, done: asyncio.Task[None]) -> bool:
        ended = asyncio.get_running_loop().create_task(self._to_end.wait())
        await asyncio.wait({done, ended}, return_when=asyncio.FIRST_COMPLETED)
        ended.cancel()
        return not done.done()

    async def _run(self) -> Ending:
        failure = ""
        if not self._notes.claimed:
            failure = await self._launch_runner()
        if who := self._notes.claimed:
            self._claimed()
            await self._follow(who)
        ending = self._notes.ended
        if ending is None:
            return await self._without_end(failure)
        if ending.status is not None:
            self._note_started()
        return self._explained(ending)

    async def _launch_runner(self) -> str:
        """Run a runner; return, when it has ended, why it did not get the attempt (empty if it did)."""
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-P", "-m", "scheduler_bridge.jobrunner",
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True, pass_fds=self._launch.inherited,
        )  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        failure = ""
        overdue = asyncio.get_running_loop().call_later(_CLAIM_S, self._end_idle, process)
        try:
            with contextlib.suppress(OSError):  # It has ended; its status says how.
                process.stdin.write(replace(self._launch, until_s=time.monotonic() + _CLAIM_S).encode())
                await process.stdin.drain()
                process.stdin.close()
            while line := await process.stdout.readline():
                word, _, rest = line.decode(errors="replace").strip().partition(" ")
                if word == "claimed":
                    overdue.cancel()
                    self._claimed()
                elif word == "started":
                    self._note_started()
                elif word == "failed":
                    failure = rest
            status = await process.wait()
        finally:
            overdue.cancel()
        return failure or f"its runner ended with status {status}"

    def _claimed(self) -> None:
        """A runner has the attempt: it is to end it if that was wanted before, and to start it in time."""
        if self._to_end.is_set():
            self.send(signal.SIGTERM)
        if self._starting is None and not self._has_started:
            self._starting = asyncio.get_running_loop().call_later(_START_S, self._end_stuck)

    def _end_stuck(self) -> None:
        if not self._notes.started:
            self._stuck = True
            self._kill_runner()

    def _kill_runner(self) -> None:
        """Kill a runner that has not started its process, with what is to become that: it has no mark yet."""
        if who := self._notes.claimed:
            children = processes.children(who)
            processes.send(who, signal.SIGKILL)
            for child in children:
                processes.send(child, signal.SIGKILL)

    def _end_idle(self, process: asyncio.subprocess.Process) -> None:
        """End a runner that has not taken the attempt; its word may be unread if the daemon itself was stopped."""
        if self._notes.claimed.partition(".")[0] != str(process.pid):
            process.kill()

    async def _follow(self, who: str) -> None:
        """Wait until the runner ``who`` has ended, watching for the job's start."""
        handle = processes.open_process(who)
        if handle is None:
            return
        gone = asyncio.Event()
        loop = asyncio.get_running_loop()
        loop.add_reader(handle, gone.set)
        try:
            while not gone.is_set():
                if not self._has_started and self._notes.started:
                    self._note_started()
                with contextlib.suppress(TimeoutError):  # looks again
                    await asyncio.wait_for(gone.wait(), None if self._has_started else _LOOK_AGAIN_S)
        finally:
            loop.remove_reader(handle)
            os.close(handle)

    async def _without_end(self, failure: str) -> Ending:
        """The runner left no word of the end: no other process sees to what it may have left."""
        left = await asyncio.to_thread(self._folder.end_remains, self._launch.key)
        if left:
            _logger.error("attempt %s: processes %s cannot be ended", self._launch.key, left)
        if self._stuck:
            return Ending(None, f"could not be started within {_START_S:g} s")
        if self._to_end.is_set() and not self._notes.started:
            return Ending(None, "ended before it was started")
        if self._notes.claimed:
            return Ending(None, "its runner was killed, or the machine went down", lost=True)
        return Ending(None, f"could not be started: {failure}")

    def _note_started(self) -> None:
        if not self._has_started:
            self._has_started = True
            if self._starting is not None:
                self._starting.cancel()
            self._started()

    def _explained(self, ending: Ending) -> Ending:
        if ending.status is None or ending.status == 0:
            return ending
        by = next((known.name for known in signal.Signals if known == -ending.status), f"signal {-ending.status}")
        how = f"exit status {ending.status}" if ending.status > 0 else f"ended by {by}"
        parts = [how, ending.reason, _tail(Path(self._launch.errors))]
        return Ending(ending.status, ": ".join(part for part in parts if part))


def _environment(request: JobRequest, job_id: int, endpoint: str, token: str, mark: str) -> dict[str, str]:
    """The daemon's variables without those of an MPI job that it may itself be in, the job's own, and the bridge's."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("PMI_", "HYDI_", "HYDRA_"))}
    path = request.environment.get("PATH") or inherited.get("PATH", os.defpath)
    return {
        communicator.ENV_ON_LOSS: _RECONNECT,
        **inherited,
        **request.environment,
        **({ENV_RESILIENT: "1"} if request.resilient else {}),
        # The launcher beside this Python is the one that its mpi4py works with; places that grow look it up in PATH.
        "PATH": os.pathsep.join([str(Path(sys.prefix) / "bin"), path]),
        "TMPDIR": str(scratch_folder(mark)),
        wire.ENV_SCHEDULER: endpoint,
        wire.ENV_JOB: str(job_id),
        wire.ENV_TOKEN: token,
        processes.ENV_MARK: mark,
    }


def _tail(path: Path) -> str:
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _TAIL_BYTES))
            return file.read().decode(errors="replace").strip()
    except OSError:
        return ""
