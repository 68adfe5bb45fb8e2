"""What users do with jobs that they have submitted."""

from __future__ import annotations

from typing import Annotated

import typer

from scheduler_bridge.cli.common import CliError, JsonOption, ReachOption, client, print_json
from scheduler_bridge.cli.simulated import show_explanation
from scheduler_bridge.daemon.requests import Hold, Prioritise

# ``malleable explain`` -----------------------------------------------------------------------------------------------


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
        show_explanation(explanation)


# ``malleable hold``, ``malleable release`` and ``malleable priority`` ------------------------------------------------

JobArgument = Annotated[int, typer.Argument(min=0, help="Id of the job, as submit printed it.")]


def hold(
    job: JobArgument,
    as_user: Annotated[
        bool, typer.Option("--as-user", help="Let its user release it, too; else only operators can, if one holds it.")
    ] = False,
    state: ReachOption = None,
    as_json: JsonOption = False,
) -> None:
    """Keep a waiting job from starting until it is released.

    Example: malleable hold 3
    """
    _print_outcome(client(state).manage(Hold(job=job, as_user=as_user)), job, as_json=as_json)


def release(job: JobArgument, state: ReachOption = None, as_json: JsonOption = False) -> None:
    """Let a held job start again, when it is its turn. What an operator holds only operators release.

    Example: malleable release 3
    """
    _print_outcome(client(state).manage(Hold(job=job, held=False)), job, as_json=as_json)


def priority(
    job: JobArgument,
    value: Annotated[int, typer.Argument(min=-1_000_000, max=1_000_000, help="Higher ones come first; 0 is usual.")],
    state: ReachOption = None,
    as_json: JsonOption = False,
) -> None:
    """Have a waiting job considered before those with a lower priority.

    Example: malleable priority 3 10
    """
    _print_outcome(client(state).manage(Prioritise(job=job, priority=value)), job, as_json=as_json)


def _print_outcome(text: str, job: int, *, as_json: bool) -> None:
    if as_json:
        print_json({"job": job, "done": text})
    else:
        typer.echo(text)


# ``malleable cancel`` ------------------------------------------------------------------------------------------------


def cancel(
    job: Annotated[int, typer.Argument(min=0, help="Id of the job, as submit printed it.")],
    state: ReachOption = None,
    as_json: JsonOption = False,
) -> None:
    """End a job, whether it waits or runs.

    Example: malleable cancel 3
    """
    client(state).cancel(job)
    if as_json:
        print_json({"job": job, "cancelled": True})


# ``malleable resize`` ------------------------------------------------------------------------------------------------


def resize(
    job: Annotated[int, typer.Argument(min=0, help="Id of the job, as submit printed it.")],
    grow: Annotated[int | None, typer.Option("--grow", min=1, metavar="N", help="Nodes to add.")] = None,
    shrink: Annotated[int | None, typer.Option("--shrink", min=1, metavar="N", help="Nodes to release.")] = None,
    state: ReachOption = None,
    as_json: JsonOption = False,
) -> None:
    """Have a running malleable job grow or shrink within its bounds, as far as nodes are free.

    Example: malleable resize 3 --shrink 1
    """
    if (grow is None) == (shrink is None):
        raise CliError("resize needs a direction", "a job either grows or shrinks", "give --grow 1 or --shrink 1")
    text = client(state).resize(job, grow if grow is not None else -(shrink or 0))
    if as_json:
        print_json({"job": job, "told": text})
    else:
        typer.echo(text)
