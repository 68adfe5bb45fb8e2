"""``malleable explain``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from scheduler_bridge.cli.common import JsonOption, ReachOption, client, print_json, print_rich
from scheduler_bridge.core import Claim, Explanation, JobState
from scheduler_bridge.model import wording

if TYPE_CHECKING:
    from rich.table import Table

_STATES = {JobState.QUEUED: "waits", JobState.ENDED: "is over"}


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(explain)


def explain(
    job: Annotated[int, typer.Argument(min=0, help="Id of the job, as submit printed it.")],
    state: ReachOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say why a job waits, why it was resized and for whom, and what was decided about it before.

    Example: malleable explain 3
    """
    explanation = client(state).explain(job)
    if as_json:
        print_json(explanation)
    else:
        show(explanation)


def show(explanation: Explanation) -> None:
    """Print an explanation, live or simulated, for people."""
    where = _STATES.get(explanation.state, f"is {explanation.state}")
    typer.echo(f"job {explanation.job_id} ({explanation.name}) {where}: {_flat(explanation.text)}")
    if explanation.expected_start_s is not None:
        in_s = max(0.0, explanation.expected_start_s - explanation.now_s)
        typer.echo(f"it starts at {explanation.expected_start_s:.1f} s at the latest, {in_s:.1f} s from now")
    if explanation.counts_on:
        typer.echo(f"until then come free: {_claims(explanation.counts_on)}")
    if explanation.nodes:
        typer.echo(f"it holds {', '.join(explanation.nodes)}")
    if explanation.moments:
        typer.echo()
        print_rich(_table(explanation))


def _table(explanation: Explanation) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    for head in ("AT s", "NODES"):
        table.add_column(head, justify="right", no_wrap=True)
    table.add_column("WHAT, AND WHY")
    for moment in explanation.moments:
        text = _flat(moment.text)
        if moment.counts_on:
            text += f" (come free until then: {_claims(moment.counts_on)})"
        table.add_row(*(Text(cell) for cell in (f"{moment.time_s:.1f}", str(moment.nodes), text)))
    return table


def _claims(claims: tuple[Claim, ...]) -> str:
    return ", ".join(
        f"{wording.nodes(claim.nodes)} of job {claim.job_id} "
        + ("as soon as released" if claim.until_s is None else f"by {claim.until_s:.1f} s")
        for claim in claims
    )


def _flat(text: str) -> str:
    return " ".join(text.split())
