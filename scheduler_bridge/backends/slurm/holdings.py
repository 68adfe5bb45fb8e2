"""The nodes that a job holds of Slurm's, the commands that take and give them, and what this Slurm permits. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final

from scheduler_bridge.backends.slurm.reading import JobInfo


class HoldingsError(ValueError):
    """The nodes cannot be given back so; the text says why."""


@dataclass(frozen=True, slots=True)
class Holdings:
    """The nodes of one job.

    Attributes:
        job: Its number.
        batch_host: The node that it can never give back: its script runs there.
        own: The nodes of its own allocation, the batch host first.
        companions: The nodes of companion jobs, and whose each one is.
        resized: How often its own allocation was changed.
    """

    job: int
    batch_host: str
    own: tuple[str, ...]
    companions: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    resized: int = 0

    @property
    def nodes(self) -> tuple[str, ...]:
        """All of them, the batch host first."""
        return (*self.own, *self.companions)

    @property
    def jobs(self) -> tuple[int, ...]:
        """All jobs of Slurm's whose nodes these are."""
        return (self.job, *dict.fromkeys(self.companions.values()))

    def owner(self, node: str) -> int:
        """Return the job that ``node`` belongs to.

        Raises:
            HoldingsError: It is not one of ours.
        """
        if node in self.companions:
            return self.companions[node]
        if node in self.own:
            return self.job
        raise HoldingsError(f"{node} is not a node of job {self.job} ({', '.join(self.nodes)})")

    def lent(self, node: str, companion: int) -> Holdings:
        """A companion job has brought ``node``."""
        return replace(self, companions=MappingProxyType({**self.companions, node: companion}))

    def expanded(self, nodes: Iterable[str]) -> Holdings:
        """Its own allocation has ``nodes`` now."""
        now = set(nodes)
        kept = [node for node in self.own if node in now]
        return replace(self, own=(*kept, *sorted(now - set(kept))), resized=self.resized + 1)

    def without(self, nodes: Iterable[str]) -> Holdings:
        """``nodes`` are gone."""
        gone = set(nodes)
        left = {node: job for node, job in self.companions.items() if node not in gone}
        own = tuple(node for node in self.own if node not in gone)
        return replace(
            self, own=own, companions=MappingProxyType(left), resized=self.resized + int(len(own) < len(self.own))
        )

    def giving_back(self, nodes: Iterable[str], limits: Limits) -> tuple[Words, ...]:
        """Return the commands that give ``nodes`` back, once nothing of the job runs there.

        Raises:
            HoldingsError: One of them has to stay, or is none of ours.
        """
        gone = tuple(dict.fromkeys(nodes))
        owners = {node: self.owner(node) for node in gone}
        if self.batch_host in owners:
            raise HoldingsError(f"{self.batch_host} cannot be given back: the script of job {self.job} runs there")
        steps: list[Words] = [cancel(job) for job in dict.fromkeys(owners.values()) if job != self.job]
        if self.job in owners.values():
            self._check_once(limits)
            steps.append(keep(self.job, tuple(node for node in self.own if node not in gone)))
        return tuple(steps)

    def check_release(self, count: int, limits: Limits) -> None:
        """See that the ``count`` nodes that came last can be given back: those of companion jobs first.

        Raises:
            HoldingsError: They cannot.
        """
        if count > len(self.companions):
            self._check_once(limits)

    def _check_once(self, limits: Limits) -> None:
        if limits.once and self.resized:
            year, month, _ = limits.version
            raise HoldingsError(
                f"this Slurm ({year}.{month:02d} without slurmdbd) gives nodes of job {self.job} back only once, "
                "and not after an expansion"
            )


# Command lines -------------------------------------------------------------------------------------------------------
#
# Each is executed as it is, without a shell.

Words = tuple[str, ...]

VERSION: Final[Words] = ("scontrol", "--version")
CONFIGURATION: Final[Words] = ("scontrol", "show", "config")


def show_job(job: int, *, json: bool) -> Words:
    """Ask for a job."""
    return ("scontrol", "show", "job", str(job), *(("--json",) if json else ()))


def show_steps(jobs: tuple[int, ...]) -> Words:
    """Ask which steps of ``jobs`` run, and where."""
    return ("squeue", "--noheader", "--steps", f"--jobs={','.join(map(str, jobs))}", "--format=%i|%N")


def show_nodes(names: tuple[str, ...]) -> Words:
    """Ask how ``names`` are, and why."""
    return ("sinfo", "--noheader", "--Node", f"--nodes={','.join(names)}", "--format=%N|%T|%E")


def companion_name(job: int) -> str:
    """The name of the jobs that lend their nodes to ``job``: what is left of them is found by it."""
    return f"malleable-{job}"


def allocate_companion(of: JobInfo, wait_s: int, minutes: int | None, *, expand: bool = False) -> Words:
    """Ask for one node, as a job that has no script, like the job ``of``.

    Args:
        of: Whose partition, account and quality of service are used.
        wait_s: How long Slurm may look for a node before it refuses.
        minutes: How long the node is needed; None: as long as the partition lets jobs run.
        expand: Whether it is to be merged into ``of``.
    """
    chosen = {"partition": of.partition, "account": of.account, "qos": of.qos}
    return (
        "salloc",
        "--no-shell",
        "--nodes=1",
        "--exclusive",
        f"--immediate={wait_s}",
        f"--job-name={companion_name(of.job)}",
        *(f"--{name}={value}" for name, value in chosen.items() if value),
        *((f"--time={minutes}",) if minutes is not None else ()),
        *((f"--dependency=expand:{of.job}",) if expand else ()),
    )


def give_up(job: int) -> Words:
    """Hand all nodes of a job that was made to expand another one over to that."""
    return ("scontrol", "update", f"JobId={job}", "NumNodes=0")


def keep(job: int, nodes: tuple[str, ...]) -> Words:
    """Let a job keep only ``nodes``."""
    return ("scontrol", "update", f"JobId={job}", f"NodeList={','.join(nodes)}")


def cancel(job: int) -> Words:
    """End a job."""
    return ("scancel", str(job))


def cancel_companions(job: int, user: str) -> Words:
    """End all jobs of ``user`` that lend their nodes to ``job``."""
    return ("scancel", f"--name={companion_name(job)}", f"--user={user}")


def on_host(job: int, host: str, words: Words) -> Words:
    """Run ``words`` on a host of ``job``, beside what runs there."""
    return ("srun", f"--jobid={job}", f"--nodelist={host}", *STEP, *words)


STEP: Final[Words] = ("--nodes=1", "--ntasks=1", "--overlap", "--mem=0", "--mpi=none", "--cpu-bind=none", "--quiet")
"""A step of one process that may use all of the job's cores and memory there."""


# Limits of the installed Slurm ---------------------------------------------------------------------------------------

JSON_SINCE: Final = (23, 2)
"""From here on ``scontrol`` speaks JSON; before it does not, or in another form."""

ONCE_UNTIL: Final = (22, 5)
"""Up to this version Slurm takes one NodeList of a job only if it has no database, and none after an expansion: 'the
DB index is being set' (seen with 22.05.8)."""

TRIED: Final = ((22, 5), (24, 11))


@dataclass(frozen=True, slots=True)
class Limits:
    """What the installed Slurm can do.

    Attributes:
        version: Of Slurm: year, month, patch.
        auth: How its daemons and users prove who they are: ``auth/munge``, ``auth/slurm``.
        expansion: Whether a job may be expanded by another one.
        once: Whether a job can be resized only once.
        json: Whether ``scontrol`` speaks JSON.
    """

    version: tuple[int, int, int]
    auth: str
    expansion: bool
    once: bool
    json: bool

    @classmethod
    def of(cls, version: tuple[int, int, int], configuration: Mapping[str, str]) -> Limits:
        """Derive them from the version and from ``scontrol show config``."""
        parameters = configuration.get("SchedulerParameters", "").replace(" ", "").split(",")
        database = configuration.get("AccountingStorageType", "")
        return cls(
            version=version,
            auth=configuration.get("AuthType", "") or "unknown",
            expansion="permit_job_expansion" in parameters,
            once=version[:2] <= ONCE_UNTIL and "slurmdbd" not in database,
            json=version[:2] >= JSON_SINCE,
        )

    def sentences(self) -> tuple[str, ...]:
        """Say them, for people."""
        year, month, patch = self.version
        said = [f"Slurm {year}.{month:02d}.{patch}, {self.auth}"]
        said.append("jobs grow by companion jobs" + (" or by expansion (--grow-by expand)" if self.expansion else ""))
        if not self.expansion:
            said.append("not by expansion: SchedulerParameters has no permit_job_expansion")
        if self.once:
            said.append(
                f"without slurmdbd, {year}.{month:02d} gives nodes of a job back only once, not after an expansion"
            )
        if not TRIED[0] <= self.version[:2] <= TRIED[1]:
            said.append("another version than those tried (22.05 to 24.11)")
        return tuple(said)
