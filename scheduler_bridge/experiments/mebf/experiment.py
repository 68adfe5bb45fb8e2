"""The experiment ``mebf``: simulate, compare with what the MEBF paper prints."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from scheduler_bridge.experiments.judging import CLOSE, TOLERANCE, agree, claims_table, counted
from scheduler_bridge.experiments.mebf.cells import COLUMNS, GROUPS, SEEDS, cells, simulated
from scheduler_bridge.experiments.mebf.claims import Means, judge
from scheduler_bridge.experiments.origins import of_rows
from scheduler_bridge.experiments.outcome import DataTable, Outcome, Value
from scheduler_bridge.experiments.sweep import Row, Sweeping

NAME: Final = "mebf"
_REMARKS: Final = (
    (
        f"A gain holds where it has the printed sign and is at most {TOLERANCE:g} points away; up to {CLOSE:g} points, "
        "the sign does not matter."
    ),
    (
        "The workload is a statistical twin of KIT's, synthetic: 500 nodes and the numbers of jobs are the paper's, "
        "sizes, runtimes and arrivals ours. So the gains are of this workload, not of the log."
    ),
    "EBF is EASY with rigid jobs. Slowdown is mean turnaround by the mean runtime without resizes, as in the paper.",
    (
        "A resize costs 10 s x ((alpha + b) x change + beta / (before + after)), alpha and beta drawn for each job "
        "from the paper's interval, and known to the scheduler, b its middle; half overhead is half of that. The "
        "paper's scale in seconds is not printed."
    ),
    "Nobody is killed; requested times are scaled where a job has another size than it asked for.",
    "shrink+ and expand+ are with handoff; the paper does not name the policy below them.",
)


def run(how: Sweeping, *, jobs: int | None = None) -> Outcome:
    """Simulate what is not known yet and compare.

    Args:
        how: How the sweep is run; at scale ``small`` there is one twin, at ``full`` there are ten.
        jobs: Another number of jobs in all workloads.

    Raises:
        SweepFileError: The folder holds rows of another kind.
        OSError: It cannot be written.
    """
    seeds = how.seeds_of(SEEDS)
    return _outcome(how.rows(cells(seeds), partial(simulated, jobs=jobs), COLUMNS), len(seeds))


def _outcome(rows: Sequence[Row], twins: int) -> Outcome:
    from scheduler_bridge.experiments.mebf.figure import DRAWN

    means = Means(rows)
    verdicts = judge(means)
    return Outcome(
        NAME,
        "The MEBF paper: resizing by scalability",
        f"Twins: {twins}. {counted([verdict.word for verdict in verdicts])}.",
        _REMARKS,
        (claims_table(verdicts), _table(means), _events(means)),
        {name: draw(means) for name, draw in DRAWN.items()},
        passed=agree(verdicts),
        provenance=of_rows(rows),
    )


def _table(means: Means) -> DataTable:
    rows: list[tuple[Value, ...]] = []
    for variant, policy, share in means.known():
        values = [means.get(variant, policy, name, share) for name in COLUMNS[:5]]
        gains = [means.gain(variant, policy, name, share) for name in ("turnaround_s", "slowdown")]
        rows.append((variant, policy, share, *values, *gains))
    columns = (
        "workload (synthetic)",
        "policy",
        "malleable %",
        *COLUMNS[:5],
        "turnaround, change %",
        "slowdown, change %",
    )
    return DataTable(
        "means", "Means over twins (synthetic), and the change against EASY with rigid jobs", columns, tuple(rows)
    )


def _events(means: Means) -> DataTable:
    """Table 5 and Figure 6: how the events, and the expands by size of the jobs, divide."""
    rows: list[tuple[Value, ...]] = []
    names = [f"expands_{low}_to_{high}" for low, high in GROUPS]
    for variant, policy, share in means.known():
        events = [means.get(variant, policy, name, share) or 0.0 for name in ("shrinks", "expands", "backfills")]
        sizes = [means.get(variant, policy, name, share) or 0.0 for name in names]
        rows.append((variant, policy, share, *_percent(events), *_percent(sizes)))
    groups = (f"expands of {low}-{high} nodes %" for low, high in GROUPS)
    columns = ("workload (synthetic)", "policy", "malleable %", "shrinks %", "expands %", "backfills %", *groups)
    return DataTable(
        "events", "Events, and expands by the size of the jobs, in percent (twins, synthetic)", columns, tuple(rows)
    )


def _percent(values: Sequence[float]) -> list[Value]:
    total = sum(values)
    return [100 * value / total if total else None for value in values]
