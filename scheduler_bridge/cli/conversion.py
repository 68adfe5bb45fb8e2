"""How commands make jobs malleable, and evolving."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from scheduler_bridge.cli.common import CliError

if TYPE_CHECKING:
    from scheduler_bridge.workloads import Workload

RuleOption = Annotated[
    str,
    typer.Option(
        "--rule",
        metavar="RULE",
        help="Which bounds malleable jobs get: amdahl, amdahl-logs, or mebf-high, -medium, -low.",
    ),
]
EvolvingOption = Annotated[
    float,
    typer.Option(
        "--evolving",
        min=0,
        max=1,
        help="Let this share of the malleable jobs offer nodes while they run, and ask for them again.",
    ),
]


def converted(workload: Workload, malleable: float, rule: str, evolving: float, seed: int) -> Workload:
    """Make a share of the rigid jobs malleable, then a share of the malleable ones evolving.

    Raises:
        CliError: There is no such rule, or no malleable job.
    """
    from scheduler_bridge.workloads import RULES, convert, make_evolving

    if rule not in RULES:
        raise CliError(f"--rule {rule}: no such rule", f"there are {', '.join(RULES)}", "choose one of them")
    if malleable:
        workload = convert(workload, malleable, seed, RULES[rule])
    if not evolving:
        return workload
    if not any(job.is_malleable for job in workload.jobs):
        raise CliError(f"--evolving {evolving}: no job is malleable", hint="give --malleable, too")
    return make_evolving(workload, evolving, seed)
