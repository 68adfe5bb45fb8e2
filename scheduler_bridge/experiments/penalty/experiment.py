"""The experiment ``penalty``: simulate, compare cell by cell with Table 3 of the 2016 paper."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from scheduler_bridge.experiments.judging import CLOSE, TOLERANCE, agree, counted
from scheduler_bridge.experiments.outcome import DataTable, Outcome, Value
from scheduler_bridge.experiments.page import of_rows
from scheduler_bridge.experiments.penalty.cells import CLASSES, COLUMNS, SEEDS, Waits, cells, simulated
from scheduler_bridge.experiments.penalty.claims import Beside, judge, read_claims
from scheduler_bridge.experiments.sweep import Row, Sweeping
from scheduler_bridge.workloads.generate.penalty import JOBS, SCENARIOS

NAME: Final = "penalty"
_SIZES: Final = (
    "The workloads are synthetic, drawn from the paper's text: 1,000 jobs of 20 users on 1,672 cores. Sizes, the "
    "density of runtimes and arrivals (within a day) are ours, so that jobs in BE and GE wait as long as printed."
)
_USERS: Final = (
    "Class by class, waits spread more here than in the paper: jobs that come within a day make one long queue, from "
    "whose front those of the best class hardly wait. How the paper's jobs arrive is not printed."
)
_CLASSES: Final = (
    "A user belongs to the class in which it is at the end; a class waits as long as its users do on average. The top "
    "group of CF reaches from 0.6 to 1, so that it is in a4 in some workloads, in a5 in others; CFG's is a5."
)
_TOLERANCE: Final = (
    f"A ratio holds where, as a change in percent, it has the printed sign and is at most {TOLERANCE:g} points away; "
    f"up to {CLOSE:g} points, the sign does not matter."
)


def run(how: Sweeping, *, jobs: int = JOBS) -> Outcome:
    """Simulate what is not known yet and compare.

    Args:
        how: How the sweep is run; at scale ``small`` there are four workloads, as in the paper, at ``full`` forty.
        jobs: How many jobs a workload has.

    Raises:
        SweepFileError: The folder holds rows of another kind.
        OSError: It cannot be written.
    """
    seeds = how.seeds_of(SEEDS)
    return _outcome(how.rows(cells(seeds), partial(simulated, jobs=jobs), COLUMNS), len(seeds))


def _outcome(rows: Sequence[Row], workloads: int) -> Outcome:
    from scheduler_bridge.experiments.penalty.figure import draw_waits

    waits = Waits(rows)
    verdicts = judge(waits)
    return Outcome(
        NAME,
        "The 2016 paper: users who estimate well come first",
        f"{workloads} workloads a scenario: {counted([verdict.word for verdict in verdicts])}.",
        (_TOLERANCE, _SIZES, _CLASSES, _USERS),
        (_table_3(waits), _claims(verdicts), _every(rows)),
        {"waits": draw_waits(waits)},
        passed=agree(verdicts),
        provenance=of_rows(rows),
    )


def _table_3(waits: Waits) -> DataTable:
    rows: list[tuple[Value, ...]] = []
    for scenario in SCENARIOS:
        for name in (*CLASSES, "all"):
            each = waits.each(scenario, "penalty", name)
            printed = read_claims()["printed"][scenario].get(name)
            if not each and printed is None:
                continue
            mean = waits.get(scenario, "penalty", name)
            error = None if mean is None or printed is None else 100 * (mean / printed - 1)
            users = None if name == "all" else waits.users(scenario, "penalty", name)
            ends = (min(each), max(each)) if each else (None, None)
            rows.append((scenario, name, printed, mean, error, *ends, users, waits.get(scenario, "easy", name)))
    columns = ("scenario", "class", "paper", "wait, min", "off by %", "least", "most", "users", "easy, without PSP")
    title = "Table 3: mean wait in minutes, by scenario and class of accuracy (ours: synthetic workloads)"
    return DataTable("table-3", title, columns, tuple(rows))


def _claims(verdicts: Sequence[Beside]) -> DataTable:
    columns = ("claim", "printed", "found", "without PSP", "verdict", "what is known of the reason")
    rows = tuple((v.text, v.printed, v.found, v.plain, v.word, v.reason) for v in verdicts)
    return DataTable("claims", "The paper's claims", columns, rows)


def _every(rows: Sequence[Row]) -> DataTable:
    columns = ("scenario", "policy", "workload (synthetic)", *COLUMNS)
    found = tuple(
        (row.cell.trace, row.cell.policy, row.cell.seed, *(row.figures[name] for name in COLUMNS)) for row in rows
    )
    return DataTable("workloads", "Every simulation (synthetic workloads)", columns, found)
