"""The experiment ``mebf``: simulate, compare with what the MEBF paper prints."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from scheduler_bridge.experiments.judging import CLOSE, TOLERANCE, agree, claims_table, counted
from scheduler_bridge.experiments.mebf import tables
from scheduler_bridge.experiments.mebf.cells import COLUMNS, SEEDS, cells, simulated
from scheduler_bridge.experiments.mebf.claims import judge
from scheduler_bridge.experiments.mebf.means import Means
from scheduler_bridge.experiments.outcome import Outcome
from scheduler_bridge.experiments.page import of_rows
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
        (
            claims_table(verdicts),
            tables.means_table(means),
            tables.slowdowns(means),
            tables.events(means),
            tables.over_time(means),
            tables.places(),
        ),
        {name: draw(means) for name, draw in DRAWN.items()},
        passed=agree(verdicts),
        provenance=of_rows(rows),
    )
