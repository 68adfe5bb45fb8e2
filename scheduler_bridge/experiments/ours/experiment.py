"""The experiment ``ours``: all policies on all workloads; which one for which, and what the own one is worth."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from scheduler_bridge.experiments.ours.cells import COLUMNS, OTHERS, OWN, PLANS, Plan, Trace, simulated, traces
from scheduler_bridge.experiments.ours.results import CONFIDENCE, Results, ablation, against, means, which
from scheduler_bridge.experiments.outcome import Outcome, of_rows
from scheduler_bridge.experiments.real_workloads.cells import NO_THETA
from scheduler_bridge.experiments.sweep import OnTraces, Row, Scale, Sweeping

NAME: Final = "ours"
_INTERVALS: Final = (
    f"Intervals are {CONFIDENCE} % percentile bootstraps over seeds; policies are compared seed by seed. A policy is "
    "named beside the best one where the interval of their ratio does not show that it is worse."
)
_BETTER: Final = (
    "A policy is better than another one if its mean turnaround and its mean wait are both lower, and its utilization "
    "is not lower by more than a point; differences up to 0.5 % are none. Waits are compared after adding 1 min."
)
_MODEL: Final = (
    "Walltimes are scaled where a job has another size than it asked for, and nobody is killed. The first tenth of the "
    "submissions is warm-up (Theta, too), except in the batches. Malleable jobs have bounds by Amdahl's law (the rule "
    "amdahl); in KIT's twin and the Cirne form those of MEBF, of medium scalability. Resizes cost nothing, except in "
    "KIT's twin (MEBF's model, 10 s) and the batches (as measured with this project's runtime)."
)
_SD: Final = "sd-policy lets two jobs share a node of 48 cores, and does not resize; the others have nodes alone."
_NOT: Final = "easy-compat and malleable-compat repeat a published program with its faults, and are left out."
_TUNED: Final = (
    f"The parameters of {OWN} were chosen on the seeds 101 to 103 of Theta, Haswell's and KIT's twin, Lublin-Feitelson "
    "and the Cirne form, with other numbers of jobs; KNL, Eagle, RICC and the batches were not looked at for it. Of "
    "Theta there is one trace: its seeds draw which jobs are malleable."
)
_SHORT: Final = (
    "Small scale: short workloads and two seeds, so that the intervals are little more than both values; hardly "
    "anybody waits on the short twins."
)


def run(
    data: Path | None,
    how: Sweeping,
    *,
    plan: Plan | None = None,
    workloads: Sequence[Trace] | None = None,
) -> Outcome:
    """Simulate what is not known yet and compare.

    Args:
        data: The folder with the traces; without it, Theta is left out.
        how: How the sweep is run; at scale ``small`` there are short workloads, half of whose jobs are malleable, and
            two seeds; at ``full`` long ones and ten seeds.
        plan: Other shares and seeds.
        workloads: Other workloads.

    Raises:
        SweepFileError: The folder holds rows of another kind.
        TraceError: The trace cannot be read.
        OSError: The same, or the folder cannot be written.
    """
    found = list(workloads) if workloads is not None else traces(how.scale, data)
    cells = (plan or PLANS[how.scale]).cells(found)
    rows = how.rows(cells, OnTraces.of(found, simulated), COLUMNS)
    return _outcome(rows, found, how.scale)


def _outcome(rows: Sequence[Row], found: Sequence[Trace], scale: Scale) -> Outcome:
    from scheduler_bridge.experiments.ours.figure import draw_ablation, draw_map, draw_trade

    results = Results(rows)
    labels = {trace.name: trace.label for trace in found}
    figures = {
        "turnaround": draw_map(results, labels, "all_turnaround_s", "Mean turnaround"),
        "wait": draw_map(results, labels, "all_wait_s", "Mean wait + 1 min"),
        "trade": draw_trade(results),
        "ablation": draw_ablation(results),
    }
    tuned = {trace.name for trace in found if trace.tuned}
    over_all = [name for name in OTHERS if results.standing(results.workloads, name, OWN) == "better"]
    return Outcome(
        NAME,
        "All policies on all workloads, and one of our own",
        _verdict(results, over_all),
        _remarks(found, scale),
        (which(results, labels), against(results, tuned), ablation(results), means(results, labels)),
        figures,
        passed=not over_all,
        provenance=of_rows(rows),
    )


def _verdict(results: Results, over_all: Sequence[str]) -> str:
    there = [
        f"{name} on {trace} at {share} %"
        for trace, share in results.workloads
        for name in OTHERS
        if results.standing([(trace, share)], name, OWN) == "better"
    ]
    first = f"Over all workloads, {_listed(over_all)} better than {OWN} on both wait and turnaround."
    return f"{first} On single workloads: {_listed(there)}."


def _listed(names: Sequence[str]) -> str:
    if not names:
        return "no policy is"
    return f"{', '.join(names)} {'is' if len(names) == 1 else 'are'}"


def _remarks(found: Sequence[Trace], scale: Scale) -> tuple[str, ...]:
    remarks = [_INTERVALS, _BETTER, _MODEL, _TUNED, _SD, _NOT]
    if not any(trace.name.startswith("theta") for trace in found):
        remarks.append(NO_THETA)
    if scale == "small":
        remarks.append(_SHORT)
    return tuple(remarks)
