"""Nodes that fail in a simulation, and what jobs do about it: options and how they are understood."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import msgspec
import typer

from scheduler_bridge.cli.common import CliError, expect_finite

if TYPE_CHECKING:
    from scheduler_bridge.core.events import Event
    from scheduler_bridge.sim import CheckpointPlan, FaultTolerance
    from scheduler_bridge.workloads import Workload

_HOUR_S: Final = 3600.0
_EXAMPLE: Final = "for example: --mtbf 5000 --checkpoint-interval daly --checkpoint-cost 60"

MtbfOption = Annotated[
    float | None,
    typer.Option(min=0, metavar="HOURS", help="Mean time between failures of one node.", show_default=False),
]
RepairOption = Annotated[float, typer.Option(min=0, metavar="HOURS", help="How long a failed node is away.")]
OnFailureOption = Annotated[
    str, typer.Option("--on-failure", metavar="RULE", help="A job that loses a node: requeue (run it again) or fail.")
]
AttemptsOption = Annotated[
    int | None,
    typer.Option(
        "--attempts", min=1, metavar="N", help="A job is run so often at most.", show_default="until it ends otherwise"
    ),
]
ResilientOption = Annotated[
    bool, typer.Option("--resilient", help="Malleable jobs go on without a lost node, unless it is their first one.")
]
IntervalOption = Annotated[
    str | None,
    typer.Option(
        "--checkpoint-interval",
        metavar="SECONDS",
        help="Of computing between two checkpoints; or what is best after young or daly.",
        show_default="no checkpoints",
    ),
]
CheckpointCostOption = Annotated[
    float, typer.Option("--checkpoint-cost", min=0, metavar="SECONDS", help="A job stands still for a checkpoint.")
]
RestartCostOption = Annotated[
    float, typer.Option("--restart-cost", min=0, metavar="SECONDS", help="Before a lost job computes again.")
]


class Failing(msgspec.Struct, frozen=True):
    """What the command line says of failures; see the options."""

    mtbf_h: float | None = None
    repair_h: float = 4.0
    on_failure: str = "requeue"
    attempts: int | None = None
    resilient: bool = False
    interval: str | None = None
    checkpoint_s: float = 0.0
    restart_s: float = 0.0

    def check(self) -> None:
        """See that it makes sense, as far as that needs no workload.

        Raises:
            CliError: It does not.
        """
        expect_finite(
            ("--mtbf", self.mtbf_h), ("--repair", self.repair_h),
            ("--checkpoint-cost", self.checkpoint_s), ("--restart-cost", self.restart_s),
        )  # fmt: skip
        if self.mtbf_h is not None and not (self.mtbf_h > 0 and self.repair_h > 0):
            raise CliError("--mtbf and --repair must be positive")
        if self.on_failure not in ("requeue", "fail"):
            raise CliError(f"--on-failure {self.on_failure}: no such rule", "there are requeue and fail")
        if self.on_failure == "fail" and self.attempts is not None:
            raise CliError("--attempts with --on-failure fail", "a job that fails is not run again", "leave one out")
        if self.checkpoint_s and self.interval is None:
            raise CliError("--checkpoint-cost without --checkpoint-interval", "no checkpoint is written", _EXAMPLE)
        self._plan()

    def tolerance(self) -> FaultTolerance:
        """What becomes of jobs that lose a node."""
        from scheduler_bridge import sim

        return sim.FaultTolerance(
            requeue=self.on_failure == "requeue",
            attempts=self.attempts,
            resilient=self.resilient,
            checkpoints=self._plan(),
            restart_s=self.restart_s,
        )

    def _plan(self) -> CheckpointPlan | None:
        if self.interval is None:
            return None
        from scheduler_bridge import sim

        if self.interval in ("young", "daly"):
            if self.mtbf_h is None or not self.checkpoint_s:
                raise CliError(
                    f"--checkpoint-interval {self.interval} without --mtbf and --checkpoint-cost",
                    "the best interval follows from both",
                    _EXAMPLE,
                )
            mtbf_s = self.mtbf_h * _HOUR_S
            return sim.CheckpointPlan(self.checkpoint_s, "young" if self.interval == "young" else "daly", mtbf_s=mtbf_s)
        try:
            return sim.CheckpointPlan(self.checkpoint_s, every_s=float(self.interval))
        except ValueError:
            raise CliError(
                f"--checkpoint-interval {self.interval}", "it is a positive number of seconds, young or daly", _EXAMPLE
            ) from None

    def failures(self, jobs: Workload, nodes: int, seed: int) -> list[tuple[float, Event]]:
        """When which of the nodes fail, and are back."""
        if self.mtbf_h is None:
            return []
        from scheduler_bridge import sim

        sizes = ((job.submit_s, job.runtime_s, job.nodes) for job in jobs.jobs)
        return sim.random_failures(
            sim.node_names(nodes),
            mtbf_s=self.mtbf_h * _HOUR_S,
            repair_s=self.repair_h * _HOUR_S,
            until_s=sim.earliest_end_s(sizes, nodes),
            seed=seed,
        )

    def document(self) -> dict[str, object]:
        """What was asked for, as JSON shows it."""
        return {
            "mtbf_h": self.mtbf_h,
            "repair_h": self.repair_h,
            "on_failure": self.on_failure,
            "attempts": self.attempts,
            "resilient": self.resilient,
            "checkpoint_interval": self.interval,
            "checkpoint_cost_s": self.checkpoint_s,
            "restart_cost_s": self.restart_s,
        }
