"""The nodes that a job holds of Slurm's, the commands that take and give them, and what this Slurm permits. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from scheduler_bridge.backends.slurm.lease import WITNESS
from scheduler_bridge.backends.slurm.reading import JobInfo, SlurmError


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
    companions: Mapping[str, int] = field(default_factory=dict)
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
            SlurmError: It is not one of ours.
        """
        if node in self.companions:
            return self.companions[node]
        if node in self.own:
            return self.job
        raise SlurmError(f"{node} is not a node of job {self.job} ({', '.join(self.nodes)})")

    def lent(self, node: str, companion: int) -> Holdings:
        """A companion job has brought ``node``."""
        return replace(self, companions={**self.companions, node: companion})

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
        return replace(self, own=own, companions=left, resized=self.resized + int(len(own) < len(self.own)))

    def giving_back(self, nodes: Iterable[str], limits: Limits) -> tuple[tuple[int, ...], tuple[Words, ...]]:
        """Return the companion jobs that end and the commands that give ``nodes`` back, once nothing runs there.

        Raises:
            SlurmError: One of them has to stay, or is none of ours.
        """
        gone = tuple(dict.fromkeys(nodes))
        owners = {node: self.owner(node) for node in gone}
        if self.batch_host in owners:
            raise SlurmError(f"{self.batch_host} cannot be given back: the script of job {self.job} runs there")
        ending = tuple(job for job in dict.fromkeys(owners.values()) if job != self.job)
        if self.job not in owners.values():
            return ending, ()
        self._check_once(limits)
        return ending, (keep(self.job, tuple(node for node in self.own if node not in gone)),)

    def check_release(self, count: int, limits: Limits) -> None:
        """See that the ``count`` nodes that came last can be given back, lent ones first; else a ``SlurmError``."""
        if count > len(self.companions):
            self._check_once(limits)

    def _check_once(self, limits: Limits) -> None:
        if limits.once and self.resized:
            year, month, _ = limits.version
            raise SlurmError(
                f"this Slurm ({year}.{month:02d} without slurmdbd) gives nodes of job {self.job} back only once, "
                "and not after an expansion"
            )


# Command lines -------------------------------------------------------------------------------------------------------
#
# Those that change something. Each is executed as it is, without a shell.

Words = tuple[str, ...]


def companion_name(job: int) -> str:
    """The name of the jobs that lend their nodes to ``job``: what is left of them is found by it."""
    return f"malleable-{job}"


def submit_companion(of: JobInfo, minutes: int | None, *, warned: bool = False) -> Words:
    """Submit a job of one node whose script is read from standard input.

    Args:
        of: Whose partition, account, quality of service, reservation and comment it has; its node must be as those of
            ``of``: features and generic resources.
        minutes: How long the node is needed; None: as long as the partition lets jobs run.
        warned: Whether its script hears TERM, and passes it on.
    """
    # a script writes nothing but complaints; what requeues it would lend a node to a job that is over
    kind = ("sbatch", "--parsable", "--no-requeue", "--chdir=/", "--output=/dev/null")
    return (*kind, *((f"--signal=B:TERM@{WARNED_S}",) if warned else ()), *_like(of, minutes))


WARNED_S: Final = 30
"""So long before its time is over a companion job that is warned hears of it, or up to 60 s earlier: Slurm looks so
rarely. With PreemptParameters=send_user_signal it hears of a preemption so, too."""


def allocate_expansion(of: JobInfo, wait_s: int, minutes: int | None) -> Words:
    """Ask for one node, as a job that has no script and is to be merged into ``of``.

    Args:
        of: See ``submit_companion``.
        wait_s: How long Slurm may look for a node before it refuses.
        minutes: See ``submit_companion``.
    """
    kind = ("salloc", "--no-shell", f"--immediate={wait_s}", f"--dependency=expand:{of.job}")
    return (*kind, *_like(of, minutes))


def _like(of: JobInfo, minutes: int | None) -> Words:
    chosen = {
        "partition": of.partition, "account": of.account, "qos": of.qos, "reservation": of.reservation,
        "constraint": of.constraint, "gres": of.gres, "comment": of.comment,
    }  # fmt: skip
    return (
        "--nodes=1",
        "--exclusive",
        f"--job-name={companion_name(of.job)}",
        *(f"--{name}={value}" for name, value in chosen.items() if value),
        *((f"--time={minutes}",) if minutes is not None else ()),
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


def cancel_companions(job: int, user: str, *, waiting: bool) -> Words:
    """End all jobs of ``user`` that lend their nodes to ``job``, or only those that wait for a node."""
    words = ("scancel", f"--name={companion_name(job)}", f"--user={user}")
    return (*words, "--state=PENDING") if waiting else words


def on_host(job: int, host: str, words: Words) -> Words:
    """Run ``words`` on a host of ``job``, beside what runs there."""
    return ("srun", f"--jobid={job}", f"--nodelist={host}", *STEP, *words)


def witness_step() -> Words:
    """Start a step of the job that this is called in, whose process hears what Slurm has to say to steps."""
    return ("srun", f"--job-name={WITNESS}", "--unbuffered", *STEP)


STEP: Final[Words] = ("--nodes=1", "--ntasks=1", "--overlap", "--mem=0", "--mpi=none", "--cpu-bind=none", "--quiet")
"""A step of one process that may use all of the job's cores and memory there."""


# Limits of the installed Slurm ---------------------------------------------------------------------------------------

ONCE_UNTIL: Final = (22, 5)
"""Up to this version Slurm takes one NodeList of a job only if it has no database, and none after an expansion: 'the
DB index is being set' (seen with 22.05.8)."""

TRIED: Final = ((22, 5), (26, 5))


@dataclass(frozen=True, slots=True)
class Limits:
    """What the installed Slurm can do.

    Attributes:
        version: Of Slurm: year, month, patch.
        auth: How its daemons and users prove who they are: ``auth/munge``, ``auth/slurm``.
        expansion: Whether a job may be expanded by another one.
        once: Whether a job can be resized only once.
    """

    version: tuple[int, int, int]
    auth: str
    expansion: bool
    once: bool

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
            said.append("another version than those tried (22.05 to 26.05)")
        return tuple(said)
