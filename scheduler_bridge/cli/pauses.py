"""Options for how often is decided, and for how long jobs are left alone; else as the policy is meant."""

from __future__ import annotations

from typing import Annotated

import typer

PassIntervalOption = Annotated[
    float | None,
    typer.Option(
        "--pass-interval",
        min=0,
        metavar="SECONDS",
        help="Decide at least this often, besides at events; 0: at events only.",
        show_default="as the policy is meant",
    ),
]
CooldownOption = Annotated[
    float | None,
    typer.Option(
        "--cooldown",
        min=0,
        metavar="SECONDS",
        help="A job takes no order for this long after a resize.",
        show_default="as the policy is meant",
    ),
]
