"""The command lines that the back-end uses. Pure; every one is executed as it is, without a shell."""

from __future__ import annotations

from typing import Final

from scheduler_bridge.backends.slurm.reading import JobInfo

Words = tuple[str, ...]

VERSION: Final[Words] = ("scontrol", "--version")
CONFIGURATION: Final[Words] = ("scontrol", "show", "config")


def show_job(job: int, *, json: bool) -> Words:
    """Ask for a job."""
    return ("scontrol", "show", "job", str(job), *(("--json",) if json else ()))


def steps(jobs: tuple[int, ...]) -> Words:
    """Ask which steps of ``jobs`` run, and where."""
    return ("squeue", "--noheader", "--steps", f"--jobs={','.join(map(str, jobs))}", "--format=%i|%N")


def nodes(names: tuple[str, ...]) -> Words:
    """Ask how ``names`` are, and why."""
    return ("sinfo", "--noheader", "--Node", f"--nodes={','.join(names)}", "--format=%N|%T|%E")


def companion_name(job: int) -> str:
    """The name of the jobs that lend their nodes to ``job``: what is left of them is found by it."""
    return f"malleable-{job}"


def companion(of: JobInfo, wait_s: int, minutes: int | None, *, expand: bool = False) -> Words:
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
