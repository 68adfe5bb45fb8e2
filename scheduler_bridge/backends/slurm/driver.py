"""Calls Slurm's commands: each with a deadline, in a folder of its own, in a session of its own.

``Reach`` has launchers start processes on nodes by such a command.
"""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

from scheduler_bridge.backends.slurm import holdings, reading
from scheduler_bridge.backends.slurm.holdings import STEP, Holdings, Limits
from scheduler_bridge.backends.slurm.reading import JobInfo, NodeInfo, SlurmError, Step
from scheduler_bridge.backends.standin import StandIn
from scheduler_bridge.jobrunner.processes import signal_group

CALL_S: Final = 15.0
"""How long one command may take."""

KEPT: Final = frozenset({"SLURM_CONF", "SLURM_CONF_SERVER"})
"""The variables of Slurm that say where it is; the others describe a job, as it was when it began."""


_OF_A_JOB: Final = ("SLURM_", "SALLOC_", "SBATCH_")


class SilentError(SlurmError):
    """Slurm did not answer in time; it may have done what was asked, or may still do it."""


def environment() -> dict[str, str]:
    """Return the variables for a command that is to know nothing of the job that it is called in."""
    return {name: value for name, value in os.environ.items() if name in KEPT or not name.startswith(_OF_A_JOB)}


class Slurm:
    """The Slurm of this machine. Its methods may be called from any thread; they block, but never for ever.

    They raise ``SlurmError`` if it refuses or does not answer.
    """

    def __init__(self) -> None:
        self._limits: Limits | None = None
        self._running: dict[subprocess.Popen[str], str] = {}

    def give_up(self, command: str = "") -> None:
        """Wait no longer for a command, or for any that runs now: they are killed, and their callers get an error."""
        for process, name in tuple(self._running.items()):
            if command in ("", name) and process.poll() is None:
                signal_group(process.pid, signal.SIGKILL)

    def limits(self) -> Limits:
        """Return what it lets a job do; asked once."""
        if self._limits is None:
            version = reading.read_version(self._call(("scontrol", "--version")).stdout)
            configuration = reading.read_configuration(self._call(("scontrol", "show", "config")).stdout)
            self._limits = Limits.of(version, configuration)
        return self._limits

    def job(self, number: int, within_s: float = CALL_S) -> JobInfo:
        """Return what it knows of a job.

        Raises:
            SlurmError: There is no such job, or no answer.
        """
        said = self._execute(("scontrol", "show", "job", str(number)), min(within_s, CALL_S))
        if said.returncode != 0:  # perhaps it is away
            why = reading.complaint(said.stderr or said.stdout)
            raise SlurmError(f"Slurm knows no job {number}: {why}", "squeue --me lists yours")
        return reading.read_job(said.stdout)

    def companions(self, of: JobInfo) -> tuple[JobInfo, ...]:
        """Return the jobs that lend their nodes to a job, or wait for one; those that have ended just now, too."""
        chosen = (f"--name={holdings.companion_name(of.job)}", f"--user={of.user}")
        words = ("squeue", "--noheader", *chosen, "--sort=i", "--format=%i|%T|%N|%S|%r")
        return reading.read_jobs(self._call(words).stdout)

    def steps(self, jobs: tuple[int, ...]) -> tuple[Step, ...]:
        """Return the steps of ``jobs`` that run."""
        words = ("squeue", "--noheader", "--steps", f"--jobs={','.join(map(str, jobs))}", "--format=%i|%N|%j")
        return reading.read_steps(self._call(words).stdout)

    def nodes(self, names: tuple[str, ...]) -> tuple[NodeInfo, ...]:
        """Return how those of ``names`` are that it knows."""
        return self._nodes(f"--nodes={','.join(names)}")

    def partition(self, name: str) -> tuple[NodeInfo, ...]:
        """Return how the nodes of a partition are, empty: all; none, if there is no such partition."""
        return self._nodes(*((f"--partition={name}",) if name else ()))

    def _nodes(self, *chosen: str) -> tuple[NodeInfo, ...]:
        words = ("sinfo", "--noheader", "--Node", *chosen, "--format=%N|%T|%E")
        return reading.read_nodes(self._call(words).stdout)

    def time_limit(self, partition: str) -> int | None:
        """Return for how many minutes jobs of a partition may run; None: for any time."""
        words = ("sinfo", "--noheader", f"--partition={partition}", "--format=%l")
        return reading.read_minutes(self._call(words).stdout)

    def run(self, words: holdings.Words) -> None:
        """Have it do something."""
        self._call(words)

    def submit(self, words: holdings.Words, script: str) -> int:
        """Submit a job, as ``holdings.submit_companion`` asks; return its number.

        Raises:
            SlurmError: It refuses, or does not answer: then the job may exist.
        """
        said = self._execute(words, CALL_S, script)
        number = reading.read_submission(said.stdout)
        if said.returncode != 0 or number is None:
            raise SlurmError(f"Slurm gives no node: {reading.complaint(said.stderr)}")
        return number

    def allocate(self, words: holdings.Words, wait_s: float) -> int:
        """Have it make a job without a script, as ``holdings.allocate_expansion`` asks; return its number.

        Raises:
            SlurmError: It has no node for it within ``wait_s``; nothing of the request is left.
        """
        try:
            said = self._execute(words, wait_s + CALL_S)
        except SlurmError as error:
            self._revoke(str(error))
            raise
        text = said.stdout + said.stderr
        number = reading.read_allocation(text)
        if said.returncode == 0 and number is not None:
            return number
        reason = ""
        if number is not None:
            with suppress(SlurmError):  # the refusal is reported in any case
                reason = f"; job {number} waited: {reading.explained(self.job(number).reason)}"
        self._revoke(text)
        raise SlurmError(f"Slurm gives no node: {reading.complaint(said.stderr)}{reason}")

    def _revoke(self, text: str) -> None:
        number = reading.read_allocation(text)
        if number is not None:
            with suppress(SlurmError):  # the refusal is what is reported
                self._call(holdings.cancel(number))

    def _call(self, words: holdings.Words) -> subprocess.CompletedProcess[str]:
        said = self._execute(words, CALL_S)
        if said.returncode != 0:
            raise SlurmError(f"{' '.join(words)}: {reading.complaint(said.stderr or said.stdout)}")
        return said

    def _execute(self, words: holdings.Words, deadline_s: float, text: str = "") -> subprocess.CompletedProcess[str]:
        variables = {**environment(), "TZ": "UTC0"}  # the times that are read have no zone
        # scontrol leaves scripts where it is called
        with tempfile.TemporaryDirectory(prefix="malleable-slurm-") as folder:
            try:
                process = subprocess.Popen(
                    words, cwd=folder, env=variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE, text=True, errors="replace", start_new_session=True,
                )  # fmt: skip
            except FileNotFoundError:
                raise SlurmError(f"there is no {words[0]} in PATH", "load Slurm's commands into PATH") from None
            self._running[process] = words[0]
            with process:
                try:
                    out, err = process.communicate(text, timeout=deadline_s)
                except subprocess.TimeoutExpired:
                    signal_group(process.pid, signal.SIGKILL)
                    out, err = process.communicate()
                    late = f"{words[0]} has not answered within {deadline_s:g} s: {out}{err}"
                    raise SilentError(late.strip()) from None
                finally:
                    del self._running[process]
        return subprocess.CompletedProcess(words, process.returncode, out, err)


# How launchers reach nodes: through a small program that is called like ssh and starts a step there with srun -------
#
# A launcher starts one process per node through it, so every node has a step of its own that ends when its places have
# left, and nodes of several Slurm jobs can work together: a file says whose each node is.

# The shell of the step gives way to what it starts: Slurm ends a step by a TERM, which a shell dies of and a launcher's
# helper does not, and kills what is left a while later. Where it finds processes by their parents it would find none.
# The agents of ``apgas.launch`` speak over the streams of the step, so srun must not wait for whole lines.
_BODY = """\
for name in $(env | sed -n 's/^\\(SLURM_[A-Z0-9_]*\\|SALLOC_[A-Z0-9_]*\\)=.*/\\1/p'); do
  case $name in {kept}) ;; *) unset "$name" ;; esac
done
exec srun --jobid="$found" --nodelist="$host" {step} --unbuffered /bin/sh -c "exec $*"
"""


class Reach(StandIn):
    """The stand-in for ssh and its table of nodes.

    Args:
        folder: Where both are written; on a file system that the batch host sees.
    """

    def __init__(self, folder: Path) -> None:
        body = _BODY.format(step=" ".join(STEP), kept="|".join(sorted(KEPT)))
        super().__init__(folder, "slurm", "of this job", body)

    def know_owners(self, holdings: Holdings) -> None:
        """Write down whose each node is."""
        self.know((node, holdings.owner(node)) for node in holdings.nodes)
