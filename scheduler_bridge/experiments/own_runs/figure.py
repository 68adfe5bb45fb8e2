"""The paper's figures 9 and 10 from our own runs; the paper's means, scaled, as hollow marks."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Final

from scheduler_bridge.experiments.outcome import Picture
from scheduler_bridge.experiments.own_runs.findings import MEASURES, cells
from scheduler_bridge.experiments.own_runs.plan import RunKey
from scheduler_bridge.record import RunRecord
from scheduler_bridge.report.charts import INK, Curve, draw_multiples, say
from scheduler_bridge.report.palette import OKABE_ITO
from scheduler_bridge.report.sheet import sheet

_SHOWN: Final = ("makespan_s", "utilization")
RESIZING: Final = "malleable"
"""The policy that the paper is about."""
MARKERS: Final = "os^DvP*X"
"""Of the policies, in their order."""
_ORDER: Final = (4, 1, 2, 5, 6, 0, 3)


def color_of(index: int) -> str:
    """The colour of a policy: those that read badly as lines come last."""
    return OKABE_ITO[_ORDER[index % len(_ORDER)]]


def draw_means(
    records: Mapping[RunKey, RunRecord], paper: Mapping[tuple[str, int], Mapping[str, float]], note: str
) -> Picture:
    """Makespan and utilization by share of malleable jobs, with quartiles over the seeds; a column a policy.

    Args:
        records: The runs.
        paper: The paper's means, scaled.
        note: What is emulated.
    """
    found = cells(records)
    policies = list(dict.fromkeys(policy for policy, _ in found))
    figure = sheet(6.0)
    rows = {MEASURES[name]: {policy: _curves(found, paper, policy, name) for policy in policies} for name in _SHOWN}
    draw_multiples(figure, rows, "malleable jobs, %", sorted({share for _, share in found}))
    ends, uses = (gained(found, name) for name in _SHOWN)
    finding = "Makespan and utilization by policy and share of malleable jobs"
    if ends is not None and uses is not None:
        finding = f"{RESIZING} ends batches {less(ends, 'earlier', 'later')} with malleable jobs than with rigid ones"
        finding += f", and uses {less(uses, 'less', 'more')} of the nodes"
    hollow = " Dashed: the paper's means, their seconds scaled." if paper else ""
    say(figure, finding, f"Means of {len(records)} real runs, bands: quartiles over the seeds.{hollow} {note}")
    return Picture(
        figure,
        f"Means over {len(records)} real runs with quartiles; dashed, hollow marks: the paper's means, scaled.",
        f"{finding}. Charts over the share of malleable jobs, by policy: makespan and utilization.",
    )


def _curves(
    found: Mapping[tuple[str, int], Sequence[Mapping[str, float]]],
    paper: Mapping[tuple[str, int], Mapping[str, float]],
    policy: str,
    name: str,
) -> list[Curve]:
    shares = sorted(share for each, share in found if each == policy)
    values = [[run[name] for run in found[policy, share]] for share in shares]
    ours = list(zip(shares, map(statistics.fmean, values), strict=True))
    theirs = [(share, paper[policy, share][name]) for share in shares if name in paper.get((policy, share), {})]
    return [Curve("here", ours, spread=[_quartiles(runs) for runs in values]), Curve("paper", theirs, INK, hollow=True)]


def gained(found: Mapping[tuple[str, int], Sequence[Mapping[str, float]]], name: str) -> float | None:
    """What changes under the resizing policy from rigid to all malleable jobs, in percent; None: it was not run."""
    if any((RESIZING, share) not in found for share in (0, 100)):
        return None
    before, after = (statistics.fmean(run[name] for run in found[RESIZING, share]) for share in (0, 100))
    return 100 * (after / before - 1) if before else None


def less(change: float, lower: str, higher: str) -> str:
    """Word a change in percent: ``12 % earlier``."""
    return f"{abs(change):.0f} % {lower if change < 0 else higher}"


def _quartiles(runs: Sequence[float]) -> tuple[float, float]:
    if len(runs) < 2:
        return runs[0], runs[0]
    low, _, high = statistics.quantiles(runs, n=4, method="inclusive")
    return low, high
