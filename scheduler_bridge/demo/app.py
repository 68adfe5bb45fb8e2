"""The main job, from its options to its exit code."""

from __future__ import annotations

import os
import shutil
import tempfile
import uuid
from pathlib import Path
from random import Random
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from apgas.errors import interruptible
from scheduler_bridge import policies
from scheduler_bridge.daemon import DaemonError
from scheduler_bridge.daemon.config import numbered_nodes
from scheduler_bridge.daemon.trial import CalibrationError, import_path
from scheduler_bridge.demo.batch import NODES, draw, shows_resizing
from scheduler_bridge.demo.pace import MAIN, QUICK, calibrate
from scheduler_bridge.demo.run import ENV_RUN, Setting, problems, run_batch, too_few_resizes, wait_gone
from scheduler_bridge.demo.watch import watched
from scheduler_bridge.record import RunRecord, encode_record
from scheduler_bridge.report import charts, gantt, page, tables, words

BASELINE = "easy"
PLAIN_WIDTH = 120
"""Columns where there is no terminal whose width could be asked."""


class DemoRun:
    """What a run of the demo is asked for: the batch, policies, the folder of the report, how many resizes are due."""

    def __init__(self, seed: int, policy: str, output: Path, *, quick: bool) -> None:
        self.seed = seed
        self.output = output
        self.policies = (BASELINE, policy) if policy != BASELINE else (BASELINE,)
        self.shape = QUICK if quick else MAIN
        self.least_resizes = (1 if quick else 2) if policy == "malleable" else 0
        self.command = f"./launch/demo --seed {seed} --policy {policy}{' --quick' if quick else ''}"


def demo(
    seed: Annotated[int, typer.Option(help="Seed of the batch.")] = 42,
    policy: Annotated[str, typer.Option(help="Policy to show; easy runs first, to compare with.")] = "malleable",
    output: Annotated[Path, typer.Option(help="Folder of the report.")] = Path("demo-report"),
    quick: Annotated[bool, typer.Option("--quick", help="A batch of 15 seconds instead of a minute.")] = False,
) -> None:
    """Run a batch of real jobs, rigid and malleable, under two schedulers on four emulated nodes.

    Example: python -m scheduler_bridge.demo --seed 42
    """
    raise typer.Exit(start(seed, policy, output, quick))


def start(seed: int, policy: str, output: Path, quick: bool) -> int:
    """Run the demo; return its exit code."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = PLAIN_WIDTH
    if policy not in policies.names():
        return _refuse(
            f"--policy {policy}", "there is no such policy", f"choose one of: {', '.join(policies.names())}", code=2
        )
    try:
        (output / "jobs").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        return _refuse(
            f"--output {output}", f"the folder cannot be made: {error.strerror}", "give another --output", code=2
        )
    wanted = DemoRun(seed, policy, output, quick=quick)
    mark = uuid.uuid4().hex
    try:
        with interruptible(KeyboardInterrupt), tempfile.TemporaryDirectory(prefix="malleable-demo-") as scratch:
            records = _run(wanted, mark, Path(scratch), console)
    except KeyboardInterrupt:
        left = wait_gone(mark)
        console.print(f"interrupted; {f'still running: {left}' if left else 'nothing is left running'}")
        return 130
    except (CalibrationError, DaemonError) as error:
        return _refuse("the demo cannot run", str(error), getattr(error, "hint", "") or "try: malleable doctor", code=1)
    return _conclude(wanted, records, wait_gone(mark), console)


def _run(wanted: DemoRun, mark: str, scratch: Path, console: Console) -> list[RunRecord]:
    nodes = numbered_nodes(NODES)
    batch = draw(
        Random(wanted.seed), wanted.shape, accept=lambda jobs: shows_resizing(jobs, nodes, max(1, wanted.least_resizes))
    )
    environment = {ENV_RUN: mark, "PYTHONPATH": import_path()}
    console.print(f"Calibrating: what one core does, so that {NODES} equal nodes can be emulated")
    paces = calibrate(batch, scratch, environment, lambda line: console.print(Text(f"  {line}")))
    setting = Setting(nodes, paces, scratch, environment, len(os.sched_getaffinity(0)))
    records = []
    for policy in wanted.policies:
        console.print(
            Text(f"\n{words.plural(len(batch), 'job')} on {words.plural(NODES, 'node')} under {policy}", style="bold")
        )
        with watched(console, len(batch)) as show:
            record = run_batch(batch, policy, setting, show)
        record.notes.insert(
            0,
            f"Batch {wanted.seed}: {len(batch)} jobs drawn from the mix of the 2024 paper scaled to {NODES} nodes, "
            "among those batches whose simulation shows resizes; submitted within "
            f"{wanted.shape.window_s:.0f} s.",
        )
        record.provenance |= {"seed": wanted.seed, "command": wanted.command}
        records.append(record)
        _keep(record, scratch / policy, wanted.output)
        console.print(tables.job_table(record))
    return records


def _keep(record: RunRecord, folder: Path, output: Path) -> None:
    """Copy the record and what the jobs wrote to the report, in place of an earlier run's."""
    (output / f"record-{record.policy}.json").write_bytes(encode_record(record))
    for old in (output / "jobs").glob(f"{record.policy}-[0-9][0-9]-*"):
        old.unlink()
    for job in record.jobs:
        target = f"{record.policy}-{job.job_id:02d}-{job.name}"
        for source in (f"job-{job.job_id}.out", f"job-{job.job_id}.err", f"{job.name}.json"):
            if (folder / source).exists():
                shutil.copyfile(folder / source, output / "jobs" / f"{target}{Path(source).suffix}")


def _conclude(wanted: DemoRun, records: list[RunRecord], left: list[int], console: Console) -> int:
    console.print(tables.comparison_table(records))
    for note in words.notes(records):
        console.print(Text(note, style="dim"))
    charts.write_png(gantt.draw(records), wanted.output / "gantt.png")
    page.write_page(records, wanted.output / "index.html", reproduce=[wanted.command])
    console.print(Text(f"\n{words.claim(records)}", style="bold"))
    console.print(Text(f"report: {wanted.output / 'index.html'}   picture: {wanted.output / 'gantt.png'}"))
    found = problems(records, least_resizes=wanted.least_resizes, left=left)
    for line in found:
        console.print(Text(line, style="bold red"))
    few = too_few_resizes(records[-1], wanted.least_resizes)
    if not found:
        for line in few:
            console.print(Text(f"{line}; the cores were too busy for the schedule that was foreseen", style="yellow"))
        resized = ", two grows and two shrinks at least" if wanted.least_resizes >= 2 and not few else ""
        console.print(Text(f"every result is verified{resized}, nothing is left running", style="green"))
    return 1 if found else 0


def _refuse(culprit: str, why: str, remedy: str, *, code: int) -> int:
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    console.print(Text(culprit, style="bold red"))
    console.print(Text(why))
    console.print(Text(remedy))
    return code


def main() -> None:
    """Run the demo with the arguments of this process.

    Raises:
        SystemExit: Always: 0 fine, 1 something failed, 2 bad usage, 130 interrupted.
    """
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(demo)
    app(prog_name="python -m scheduler_bridge.demo")
