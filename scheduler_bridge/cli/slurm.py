"""``malleable slurm``: programs in a Slurm allocation."""

from __future__ import annotations

import asyncio
import datetime as dt
import logging
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

import typer

from scheduler_bridge.backends.slurm import (
    GrowBy,
    Harvest,
    Session,
    SessionConfig,
    Slurm,
    driver,
    holdings,
    read_loans,
    this_job,
)
from scheduler_bridge.backends.slurm.harvest import LOANS, summary
from scheduler_bridge.backends.slurm.holdings import companion_name
from scheduler_bridge.backends.slurm.lease import LEAST_S, LOST_S
from scheduler_bridge.backends.slurm.reading import explained
from scheduler_bridge.cli import options
from scheduler_bridge.cli.common import (
    ENV_STATE,
    CliError,
    Commands,
    GrowOption,
    ShrinkOption,
    StateOption,
    direction,
    plain_table,
    print_rich,
    say,
    slurm_state_folder,
)
from scheduler_bridge.cli.inputs import one_of
from scheduler_bridge.cli.options import option
from scheduler_bridge.cli.terminal import log_to_stderr
from scheduler_bridge.daemon import JobRequest
from scheduler_bridge.model import wording

_USER = "SLURM_JOB_USER"
_PASSED_ON = ("APGAS_PLACES_PER_NODE", "APGAS_RESILIENT")
"""Variables that say how a program is started."""

JobArgument = Annotated[int, typer.Argument(min=1, help="Number of the Slurm job.")]


slurm = Commands(
    help="Run malleable programs inside a Slurm allocation.\n\nExample: malleable slurm run -- python program.py",
    no_args_is_help=True,
)
_WORDS_FOLLOW: Final = {"allow_interspersed_args": False, "ignore_unknown_options": True}
"""What follows the first word of COMMAND belongs to that."""


@slurm.command(context_settings=_WORDS_FOLLOW)
def run(
    command: Annotated[list[str], typer.Argument(metavar="COMMAND", help="The program, after --")],
    max_nodes: int = options.count(1_000_000, "--max-nodes", "Never more nodes.", show_default="any number"),
    min_nodes: int = options.count(1, "--min-nodes", "Never fewer."),
    grow_by: str = option("companion", "--grow-by", "companion, or expand where it is permitted."),
    wait_s: float = option(10.0, "--wait", "Seconds to wait for a node.", "S", min=1),
    deadline_s: float = option(60.0, "--resize-deadline", "Seconds for the program to resize.", "S", min=0.1),
    lease_s: int = option(LOST_S, "--lease", "Seconds that a lent node outlives this host.", "S", min=LEAST_S),
    harvest: str = option("", "--harvest", "Take its idle nodes, until others want them.", "PARTITION"),
    harvest_qos: str = option("", "--harvest-qos", "The same, with a quality of service.", "QOS"),
    harvest_every_s: float = option(5.0, "--harvest-every", "Seconds between two looks, at least.", "S", min=0.1),
    state: StateOption = None,
    quiet: bool = option(False, "--quiet -q", "Only errors."),
) -> None:
    """Run a program on all nodes of the allocation that this is called in; it grows and shrinks with it.

    Called in a batch script. Exit code: the program's. With --harvest it grows by itself, onto nodes that Slurm takes
    back when others want them (preemption); the program goes on without those then.

    Example: malleable slurm run --max-nodes 4 -- python -m apgas.benchmarks.uts --depth 15
    """
    job = this_job()
    by: GrowBy = one_of("--grow-by", grow_by, "way", "companion", "expand")
    if max_nodes < min_nodes:
        raise CliError(f"--max-nodes {max_nodes} is below --min-nodes {min_nodes}", hint="swap them")
    request = JobRequest(
        name=os.environ.get("SLURM_JOB_NAME") or Path(command[0]).name, command=tuple(command), job_class="malleable",
        nodes=min_nodes, min_nodes=min_nodes, max_nodes=max_nodes, user=os.environ.get(_USER, ""), cwd=str(Path.cwd()),
        environment={name: os.environ[name] for name in _PASSED_ON if name in os.environ},
    )  # fmt: skip
    reaped = Harvest(harvest, harvest_qos, harvest_every_s) if harvest or harvest_qos else None
    if reaped is not None and os.environ.get("APGAS_RESILIENT") == "0":
        raise CliError(
            f"nodes harvested from {reaped} can be lost at any time",
            "and APGAS_RESILIENT=0 says that the program does not survive that",
            "unset it: with --harvest the program is resilient by itself",
        )
    log_to_stderr("malleable: %(message)s", quiet=quiet)
    # what its one job does is in the output already
    logging.getLogger("scheduler_bridge.daemon").setLevel(logging.ERROR if quiet else logging.WARNING)
    folder = slurm_state_folder(state, job)
    config = SessionConfig(job, request, folder, by, wait_s, deadline_s, harvest=reaped, lease_s=lease_s)
    code = asyncio.run(_run(Session(config)))
    if code:
        raise typer.Exit(code)


async def _run(session: Session) -> int:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, session.request_stop)
    return await session.run()


@slurm.command()
def resize(
    job: JobArgument,
    grow: GrowOption = None,
    shrink: ShrinkOption = None,
    state: StateOption = None,
) -> None:
    """Have the program of a Slurm job grow or shrink, from any host where Slurm's commands work.

    Example: malleable slurm resize 4711 --grow 2
    """
    change = direction(grow, shrink)
    words = f"--grow={change}" if change > 0 else f"--shrink={-change}"
    _run_there(job, state, ("resize", str(job), words))


@slurm.command(context_settings=_WORDS_FOLLOW)
def at(
    job: JobArgument,
    command: Annotated[list[str], typer.Argument(metavar="COMMAND", help="A malleable command: queue, submit ...")],
    state: StateOption = None,
) -> None:
    """Run another malleable command where a Slurm job serves it: on the host of its batch script.

    Example: malleable slurm at 4711 queue
    """
    _run_there(job, state, command[1:] if command[0] == "--" and len(command) > 1 else command)


def _run_there(job: int, state: Path | None, words: Sequence[str]) -> None:
    """Become a malleable command on the host of a job's batch script.

    A variable, which srun passes on, names the state folder. As an option it would be in the way of one that the user
    gives, and of subcommands, which have their own: ``reserve list``.
    """
    info = Slurm().job(job)
    if info.state != "RUNNING" or not info.batch_host:
        raise CliError(f"job {job} does not run", f"it is {info.state.lower()}", "squeue --me lists yours")
    there = holdings.on_host(job, info.batch_host, (sys.executable, "-m", "scheduler_bridge.cli", *words))
    os.execvpe(there[0], there, {**driver.environment(), ENV_STATE: str(slurm_state_folder(state, job))})


@slurm.command()
def status(job: JobArgument, state: StateOption = None) -> None:
    """Show a Slurm job and the companion jobs that lend it nodes as one, from any host where Slurm's commands work.

    Example: malleable slurm status 4711
    """
    site = Slurm()
    info = site.job(job)
    parts = (info, *site.companions(info)) if info.user else (info,)
    nodes = [node for part in parts if part.state == "RUNNING" for node in part.nodes]
    paid = "".join(f", {what} {value}" for what, value in (("account", info.account), ("QOS", info.qos)) if value)
    say(f"job {job} {info.name} of {info.user}{paid}: {info.state.lower()} on {wording.nodes(len(nodes))}")
    table = plain_table("JOB", "PART", "STATE", "NODES", "SINCE", "WHY")
    for part in parts:
        since = f"{dt.datetime.fromtimestamp(part.starts_s).astimezone():%m-%d %H:%M:%S}" if part.starts_s else ""
        kind = "itself" if part is info else "companion"
        why = explained(part.reason) if part.reason and part.state == "PENDING" else part.reason
        table.add_row(str(part.job), kind, part.state.lower(), " ".join(part.nodes), since, why)
    print_rich(table)
    loans = read_loans(slurm_state_folder(state, job) / LOANS)
    if loans:
        say(f"{summary(loans, time.time())}; sacct --name={companion_name(job)}")


@slurm.command()
def hosts(
    places: int = options.count(1, "--places", "Places on each host."),
    job: int | None = option(None, "--job", "By default the one that this is called in.", min=1),
) -> None:
    """Print the hosts of an allocation, one a line, as mpiexec -f reads them; the host of the batch script first.

    Example: malleable slurm hosts > hosts.txt
    """
    info = Slurm().job(job if job is not None else this_job())
    first = info.batch_host or (info.nodes[0] if info.nodes else "")
    for node in sorted(info.nodes, key=lambda node: node != first):
        say(f"{node}:{places}")
