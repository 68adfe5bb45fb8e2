"""The paper's claims, one by one: do the simulated runs show the same change?"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import Final

from scheduler_bridge.experiments.published_runs.compare import Cell, Comparison
from scheduler_bridge.experiments.study import Word, claims_file, word_for

TOLERANCE: Final = 5.0
"""So many points a change of real runs that were replayed may be off, half as many as one of drawn workloads."""
_PER_JOB: Final = {"shrinks_per_job": "shrinks", "grows_per_job": "grows"}
_JOBS: Final = 25


@dataclass(frozen=True, slots=True)
class Claim:
    """A change that the paper prints.

    Attributes:
        where: Figure or section.
        text: What it says, in our words.
        measure: Of ``Measures``, or orders per malleable job.
        before: Policy and share of the first mean.
        after: Policy and share of the second one.
        printed: Both means.
    """

    where: str
    text: str
    measure: str
    before: tuple[str, int]
    after: tuple[str, int]
    printed: tuple[float, float]

    @property
    def printed_change(self) -> float:
        """The printed change in percent."""
        return 100 * (self.printed[1] / self.printed[0] - 1)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a claim.

    Attributes:
        claim: The claim.
        simulated: The simulated change in percent, with policies that decide as the published ones.
        correct: The same with our correct policies.
        word: ``holds``, ``same sign``, or ``differs``.
        reason: Why it is not quite so.
    """

    claim: Claim
    simulated: float
    correct: float
    word: Word
    reason: str


def read_claims() -> tuple[Claim, ...]:
    """The claims of the paper."""
    return tuple(
        Claim(
            entry["where"],
            entry["text"],
            entry["measure"],
            (entry["from"][0], entry["from"][1]),
            (entry["to"][0], entry["to"][1]),
            (entry["printed"][0], entry["printed"][1]),
        )
        for entry in claims_file(__package__)["claim"]
    )


def judge(comparison: Comparison) -> tuple[Verdict, ...]:
    """Judge the claims whose runs were replayed."""
    compat = {(cell.strategy, cell.share): cell for cell in comparison.compat}
    correct = compat | {(cell.strategy, cell.share): cell for cell in comparison.correct}
    return tuple(
        _verdict(claim, (compat[claim.before], compat[claim.after]), (correct[claim.before], correct[claim.after]))
        for claim in read_claims()
        if claim.before in compat and claim.after in compat
    )


def _verdict(claim: Claim, compat: tuple[Cell, Cell], correct: tuple[Cell, Cell]) -> Verdict:
    simulated, ours = (100 * (_value(claim, after) / _value(claim, before) - 1) for before, after in (compat, correct))
    printed = claim.printed_change
    word = word_for(simulated, printed, TOLERANCE)
    reason = "" if word == "holds" else f"the simulated means are off by {_errors(claim, compat)}"
    return Verdict(claim, simulated, ours, word, reason)


def _value(claim: Claim, cell: Cell) -> float:
    if name := _PER_JOB.get(claim.measure):
        return statistics.fmean(getattr(run, name) for run in cell.ours) / (_JOBS * cell.share / 100)
    value = cell.means(claim.measure)[1]
    return float("nan") if value is None else value


def _errors(claim: Claim, cells: tuple[Cell, Cell]) -> str:
    errors = [100 * (_value(claim, cell) / value - 1) for cell, value in zip(cells, claim.printed, strict=True)]
    return " and ".join(f"{error:+.1f} %" for error in errors)
