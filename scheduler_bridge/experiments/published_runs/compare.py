"""Real and simulated runs side by side: means, errors, and what correct policies would have done."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from typing import Final

from scheduler_bridge.experiments.published_runs.data import Reference, RunKey
from scheduler_bridge.experiments.published_runs.model import Costs, Measures, measured, simulated

COMPAT: Final = {
    "FCFS": "fcfs",
    "Backfilling": "backfilling",
    "EasyBackfilling": "easy-compat",
    "MalleableStrategy": "malleable-compat",
}
"""Which of our policies decides as the published one did."""
CORRECT: Final = {"EasyBackfilling": "easy", "MalleableStrategy": "malleable"}
"""The correct policy of the same name."""
LIMIT: Final = 5.0
"""The error of the means that we aim at, in percent."""
JUDGED: Final = ("makespan_s", "turnaround_s", "wait_s", "utilization")


@dataclass(frozen=True, slots=True)
class Cell:
    """The runs of one policy and share.

    Attributes:
        strategy: The published name.
        share: Malleable jobs in percent.
        policy: Ours.
        runs: The real runs, in the order of ``real`` and ``ours``.
        broken: Which of them have a job whose resize failed.
        real: As measured, a run each.
        ours: As simulated, the mean of the replicas of each run.
        published_utilization: The published mean, in percent.
    """

    strategy: str
    share: int
    policy: str
    runs: tuple[RunKey, ...]
    broken: tuple[bool, ...]
    real: tuple[Measures, ...]
    ours: tuple[Measures, ...]
    published_utilization: float

    def means(self, name: str, *, sound: bool = False) -> tuple[float | None, float | None]:
        """The means of a measure, real and simulated.

        Args:
            name: The measure.
            sound: Only runs without a failed resize.
        """
        rows = [
            (getattr(real, name), getattr(ours, name))
            for real, ours, broken in zip(self.real, self.ours, self.broken, strict=True)
            if not (sound and broken)
        ]
        if not rows:
            return None, None
        real_values, our_values = zip(*rows, strict=True)
        if name == "utilization" and not sound:
            return self.published_utilization, statistics.fmean(our_values)
        if None in real_values:
            return None, statistics.fmean(our_values)
        return statistics.fmean(real_values), statistics.fmean(our_values)

    def error(self, name: str, *, sound: bool = False) -> float | None:
        """The error of the simulated mean, in percent of the real one; None: not known."""
        real, ours = self.means(name, sound=sound)
        return None if not real or ours is None else 100 * (ours / real - 1)


@dataclass(frozen=True, slots=True)
class Comparison:
    """All cells.

    Attributes:
        compat: The published policies as they are, and ours that decide like them.
        correct: The same runs, and our correct policies of the same name.
        costs: What things take.
        replicas: Simulations of each run.
    """

    compat: tuple[Cell, ...]
    correct: tuple[Cell, ...]
    costs: Costs
    replicas: int

    def within(self) -> tuple[int, int]:
        """How many of the judged means are within the limit, and how many there are."""
        errors = [error for cell in self.compat for name in JUDGED if (error := cell.error(name)) is not None]
        return sum(abs(error) <= LIMIT for error in errors), len(errors)


def compare(
    reference: Reference,
    *,
    shares: Iterable[int],
    seeds: Iterable[int],
    costs: Costs | None = None,
    replicas: int = 1,
    progress: Callable[[str], None] = lambda _: None,
) -> Comparison:
    """Replay the real runs.

    Args:
        reference: The published data.
        shares: Which shares of malleable jobs, in percent.
        seeds: Which batches.
        costs: What things take; None: as measured.
        replicas: Simulations of each run; the first has the runtimes of the strong scaling, others a random spread.
        progress: Told what is being simulated.
    """
    costs, shares, seeds = costs or Costs(), tuple(shares), frozenset(seeds)
    cells: dict[bool, list[Cell]] = {True: [], False: []}
    for strategy, policy in COMPAT.items():
        for share in shares:
            runs = sorted(
                key for key in reference.runs if key.strategy == strategy and key.share == share and key.seed in seeds
            )
            if not runs:
                continue
            progress(f"{strategy}, {share} % malleable")
            cells[True].append(_cell(reference, strategy, share, policy, tuple(runs), costs, replicas))
            if strategy in CORRECT:
                correct = CORRECT[strategy]
                cells[False].append(_cell(reference, strategy, share, correct, tuple(runs), costs, replicas))
    return Comparison(tuple(cells[True]), tuple(cells[False]), costs, replicas)


def _cell(
    reference: Reference,
    strategy: str,
    share: int,
    policy: str,
    runs: tuple[RunKey, ...],
    costs: Costs,
    replicas: int,
) -> Cell:
    batches = [reference.runs[key] for key in runs]
    ours = [
        _mean([simulated(jobs, reference.scaling, policy, costs, replica=replica) for replica in range(replicas)])
        for jobs in batches
    ]
    return Cell(
        strategy,
        share,
        policy,
        runs,
        tuple(any(job.failed for job in jobs) for jobs in batches),
        tuple(measured(jobs, costs) for jobs in batches),
        tuple(ours),
        reference.utilization[strategy, share],
    )


def _mean(runs: list[Measures]) -> Measures:
    return Measures(*(statistics.fmean(getattr(run, field.name) for run in runs) for field in fields(Measures)))
