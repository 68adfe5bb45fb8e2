"""``malleable history``."""

from __future__ import annotations

import typer
from rich.table import Table

from scheduler_bridge.cli.common import JsonOption, StateOption, print_json, print_rich, state_folder
from scheduler_bridge.live import runs
from scheduler_bridge.report import words


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(history)


def history(state: StateOption = None, as_json: JsonOption = False) -> None:
    """List the runs in the scheduler's log; `malleable report --run 1` shows one.

    Example: malleable history
    """
    found = runs(state_folder(state))
    if as_json:
        print_json(found)
        return
    table = Table(box=None, pad_edge=False)
    for head in ("RUN", "NODES", "JOBS", "LENGTH"):
        table.add_column(head, justify="right", no_wrap=True)
    for head in ("POLICY", "BEGAN", ""):
        table.add_column(head, no_wrap=True)
    for run in found:
        table.add_row(
            str(run.run), str(run.nodes), str(run.jobs), words.seconds(run.seconds), run.policy, run.began,
            "" if run.ended else "not ended",
        )  # fmt: skip
    print_rich(table)
