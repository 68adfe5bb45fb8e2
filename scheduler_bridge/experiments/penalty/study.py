"""The experiment ``penalty``: simulate, compare cell by cell with Table 3 of the 2016 paper."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Final

from scheduler_bridge.experiments import study
from scheduler_bridge.experiments.penalty.cells import AGE_S, AGED, CLASSES, COLUMNS, SEEDS, cells, simulated
from scheduler_bridge.experiments.study_report import DataTable, Picture, StudyReport, Value, of_rows
from scheduler_bridge.experiments.sweep import Row, Sweeping
from scheduler_bridge.report.charts import BarRow, Entry
from scheduler_bridge.workloads.generate.papers import PENALTY_SCENARIOS

CLAIMS: Final = study.claims_file(__package__)
_SIZES: Final = (
    "The workloads are synthetic, drawn from the paper's text: 1,000 jobs of 20 users on 1,672 cores. Sizes, the "
    "density of runtimes and arrivals (within a day) are ours, so that jobs in BE and GE wait as long as printed."
)
_AGING: Final = (
    f"Class by class, waits spread more under the policy as described than in the paper. In {AGED} a job gains one "
    f"priority for each {AGE_S / 3600:g} h since its submission, as by the age factor of Slurm's multifactor priority. "
    "That is one parameter, fitted to the printed waits; the paper does not mention it."
)
_CLASSES: Final = (
    "A user belongs to the class in which it is at the end; a class waits as long as its users do on average. The top "
    "group of CF reaches from 0.6 to 1, so that it is in a4 in some workloads, in a5 in others; CFG's is a5."
)
_TOLERANCE: Final = (
    f"{study.HOW_JUDGED} How many times less one class waits than another is judged as the change in percent that it "
    f"is; where the direction is right, the number of times has to be within a factor of {study.FACTOR:g}, too."
)


def run(_data: Path | None, how: Sweeping) -> StudyReport:
    """Simulate what is not known yet and compare: four workloads, as in the paper, or forty at scale ``full``."""
    seeds = SEEDS[how.scale]
    rows = how.rows(cells(seeds), simulated, COLUMNS)
    waits = study.Means(rows)
    verdicts = judged(waits)
    plain, aged = map(study.counted, (verdicts, judged(waits, AGED)))
    columns = (
        "claim", "printed", "found", "with aging", "verdict with aging", "without PSP", "verdict",
        "what is known of the reason",
    )  # fmt: skip
    return StudyReport(
        "penalty",
        "The 2016 paper: users who estimate well come first",
        f"{len(seeds)} workloads a scenario: {plain}. With aging, {aged}.",
        (_TOLERANCE, _SIZES, _CLASSES, _AGING),
        (_table_3(waits), study.claims_table(verdicts, columns), _every(rows)),
        {"waits": draw_waits(waits)},
        passed=study.agree(verdicts),
        provenance=of_rows(rows),
    )


def _column(name: str) -> str:
    """The mean wait of a class, or of ``all`` jobs."""
    return "wait_min" if name == "all" else f"{name}_wait_min"


def judged(waits: study.Means, policy: str = "penalty") -> list[study.ClaimVerdict]:
    """Judge all claims by what was found under ``policy``; beside, what was found with aging and under plain EASY."""

    def printed(claim: study.Claim) -> str:
        return " > ".join(f"{value:,.0f}" for value in CLAIMS["printed"][claim["workload"]].values())

    def classes(_by: study.Judge, claim: study.Claim) -> tuple[Value, study.Word]:
        return study.falling(_by_class(waits, claim["workload"], claim["policy"]), "{:,.0f}")

    by = study.Judge(waits.find, {**study.RULES, "classes": (printed, classes)})

    def under(other: str, claim: study.Claim) -> study.Judged:
        return by.judged({**claim, "policy": other})

    def reason(claim: study.Claim) -> str:
        held = under(AGED, claim).word == "held"
        return f"a job's age may count in the paper's scheduler: with aging it is so ({AGED})" if held else "not known"

    def beside(claim: study.Claim) -> tuple[Value, ...]:
        return *under(AGED, claim)[1:], under("easy", claim).found

    return by.verdicts([{**claim, "policy": policy} for claim in CLAIMS["claim"]], reason, beside=beside)


def _by_class(waits: study.Means, scenario: str, policy: str) -> list[float]:
    """The mean waits of the classes that have users, those who estimate worst first."""
    found = (waits.get(scenario, policy, _column(name)) for name in CLASSES)
    return [value for value in found if value is not None]


def _table_3(waits: study.Means) -> DataTable:
    rows: list[tuple[Value, ...]] = []
    for scenario, name in itertools.product(PENALTY_SCENARIOS, (*CLASSES, "all")):
        each = waits.by_seed(scenario, "penalty", _column(name)).values()
        printed = CLAIMS["printed"][scenario].get(name)
        if not each and printed is None:
            continue
        mean = waits.get(scenario, "penalty", _column(name))
        users = None if name == "all" else waits.get(scenario, "penalty", f"{name}_users")
        ends = (min(each), max(each)) if each else (None, None)
        others = (waits.get(scenario, policy, _column(name)) for policy in (AGED, "easy"))
        rows.append((scenario, name, printed, mean, study.change(printed, mean), *ends, users, *others))
    columns = (
        "scenario", "class", "paper", "wait, min", "off by %", "least", "most", "users", "with aging",
        "easy, without PSP",
    )  # fmt: skip
    title = "Table 3: mean wait in minutes, by scenario and class of accuracy (ours: synthetic workloads)"
    return DataTable("table-3", title, columns, rows)


def _every(rows: Sequence[Row]) -> DataTable:
    columns = ("scenario", "policy", "workload (synthetic)", *COLUMNS)
    found = tuple(
        (row.cell.trace, row.cell.policy, row.cell.seed, *(row.figures[name] for name in COLUMNS)) for row in rows
    )
    return DataTable("workloads", "Every simulation (synthetic workloads)", columns, found)


# The paper's figure 1: waits by scenario and class, beside what it prints --------------------------------------------

_SCENARIOS: Final = ("CF", "CFG", "DI", "HDI")
_POLICIES: Final = {"penalty": "with the penalty (PSP)", "easy": "without it (EASY)"}


def draw_waits(waits: study.Means) -> Picture:
    """Two columns of bars, with PSP and under plain EASY; lines are our smallest to largest."""
    rows = []
    for scenario in _SCENARIOS:
        found = [BarRow(name, [_entry(waits, scenario, policy, name) for policy in _POLICIES]) for name in CLASSES]
        rows += [BarRow(scenario), *(row for row in found if any(entry.value is not None for entry in row.entries))]
    means = f"means over {waits.most_seeds()} workloads"
    note = (
        "Mean wait of the users of a class in minutes (a1: worst estimates, a5: best), by scenario. Synthetic: "
        f"{means} each, lines from the least to the most. Hollow: what the paper prints."
    )
    return study.draw_bars(
        list(_POLICIES.values()),
        rows,
        "{:,.0f}".format,
        _finding(waits),
        note,
        f"Bars: {means} a scenario; lines: from the least to the most.",
        "Two columns of bars: the mean wait of users in minutes, with PSP and under plain EASY, by scenario and class "
        "of accuracy.",
    )


def _finding(waits: study.Means) -> str:
    """In how many scenarios each class waits less than the next worse one; how far they are apart without PSP."""
    ordered, apart = 0, []
    for scenario in _SCENARIOS:
        ours, plain = (_by_class(waits, scenario, policy) for policy in _POLICIES)
        ordered += len(ours) > 1 and all(worse > better for worse, better in itertools.pairwise(ours))
        apart += [max(plain) / min(plain)] if plain and min(plain) > 0 else []
    where = "every scenario" if ordered == len(_SCENARIOS) else f"{ordered} of {len(_SCENARIOS)} scenarios"
    text = f"With the penalty, who estimates better waits less in {where}"
    return f"{text}; without it, classes differ by a factor of {max(apart):.1f} at most" if apart else text


def _entry(waits: study.Means, scenario: str, policy: str, name: str) -> Entry:
    each = waits.by_seed(scenario, policy, _column(name)).values()
    printed = CLAIMS["printed"][scenario].get(name) if policy == "penalty" else None
    return Entry(fmean(each), (min(each), max(each)), printed) if each else Entry(None, None, printed)
