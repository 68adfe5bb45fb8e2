"""What users used, as ``malleable report --users`` shows it."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable

import msgspec
import typer
from rich.table import Table

from scheduler_bridge.cli.common import print_json, print_rich
from scheduler_bridge.policies.penalty import priority
from scheduler_bridge.record import RunRecord, UserUse, use_by_user
from scheduler_bridge.report import words


def show_users(records: Iterable[RunRecord], *, as_csv: bool, as_json: bool) -> None:
    """Print what each user's jobs used."""
    found = use_by_user(records)
    if as_json:
        print_json(found)
    elif as_csv:
        names = [field.name for field in msgspec.structs.fields(UserUse)]
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(names)
        writer.writerows([["" if (value := getattr(use, name)) is None else value for name in names] for use in found])
    elif found:
        print_rich(_table(found))
    else:
        typer.echo("nobody has submitted a job")


def _table(found: list[UserUse]) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("USER", no_wrap=True)
    for head in ("JOBS", "COMPLETED", "FAILED", "OPEN", "NODE HOURS", "MEAN WAIT", "MEAN RUN", "ACCURACY", "PRIORITY"):
        table.add_column(head, justify="right", no_wrap=True)
    for use in found:
        table.add_row(
            use.user or "-",
            *(str(count) for count in (use.jobs, use.completed, use.failed, use.open)),
            f"{use.node_s / 3600:.3f}",
            "-" if use.mean_wait_s is None else words.seconds(use.mean_wait_s),
            "-" if use.mean_runtime_s is None else words.seconds(use.mean_runtime_s),
            "-" if use.accuracy is None else words.percent(use.accuracy),
            str(priority(use.accuracy)),
        )
    table.caption = "accuracy: used part of the walltime, last ten jobs; priority: what the policy penalty makes of it"
    table.caption_justify = "left"
    return table
