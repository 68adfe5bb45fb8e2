"""The tables: means, slowdowns (Tables 6 and 7), events (Table 5, figure 6), utilization over time (figure 11)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from scheduler_bridge.experiments.mebf.cells import (
    COMMON,
    EBF,
    EXPANDS,
    HOURS,
    SCALABILITIES,
    SIZES,
    STEP_H,
    column,
    variant,
)
from scheduler_bridge.experiments.mebf.claims import read_claims
from scheduler_bridge.experiments.mebf.means import EVENTS, EXPAND_SIZES, Means
from scheduler_bridge.experiments.outcome import DataTable, Value

OVER_TIME: Final = variant("1k", "intensive", "high")
"""The workload of figure 11."""
_PLACES: Final = (
    ("Figures 7, 8, 9, 12, 16", "turnaround", "mean turnaround by load, scalability, overhead, share, wrong model"),
    ("Figures 13, 14, 15", "slowdown", "slowdown by scalability, with shrink+ and expand+"),
    ("Figure 10", "utilization", "utilization by scalability"),
    ("Figure 11", "over-time", "utilization over time"),
    ("Figure 6", "events", "expands by the size of the jobs"),
    ("Table 5", "events", "how events divide"),
    ("Tables 6, 7", "slowdowns", "change of the slowdown by scalability, share and policy"),
)


def places() -> DataTable:
    """Where the paper's figures and tables are."""
    return DataTable("places", "Where the paper's figures and tables are", ("paper", "here", "what"), _PLACES)


def means_table(means: Means) -> DataTable:
    """All means."""
    rows: list[tuple[Value, ...]] = []
    for name, policy, share in means.known():
        values = [means.get(name, policy, measure, share) for measure in COMMON]
        gains = [means.gain(name, policy, measure, share) for measure in ("turnaround_s", "slowdown")]
        rows.append((name, policy, share, *values, *gains))
    columns = (
        "workload (synthetic)",
        "policy",
        "malleable %",
        *COMMON,
        "turnaround, change %",
        "slowdown, change %",
    )
    return DataTable(
        "means", "Means over twins (synthetic), and the change against EASY with rigid jobs", columns, tuple(rows)
    )


def slowdowns(means: Means) -> DataTable:
    """By how much each policy changes the slowdown, with what the paper's text has of its Tables 6 and 7."""
    cases = [(size, scalability, 100) for size in SIZES for scalability in SCALABILITIES]
    cases += [("1k", scalability, share) for share in (60, 80) for scalability in SCALABILITIES]
    rows: list[tuple[Value, ...]] = []
    for size, scalability, share in cases:
        name = variant(size, "intensive", scalability)
        for policy in EXPANDS:
            found = means.gain(name, policy, "slowdown", share)
            rows.append((size, scalability, share, policy, _printed(name, policy, share), found))
    columns = ("jobs", "scalability", "malleable %", "policy", "printed %", "found %")
    title = "Change of the slowdown against EASY with rigid jobs, in percent, intensive load (twins, synthetic)"
    return DataTable("slowdowns", title, columns, tuple(rows))


def _printed(name: str, policy: str, share: int) -> float | None:
    for claim in read_claims()["gain"]:
        of = (claim["variant"], claim["policy"], claim.get("share", 100), claim.get("measure"))
        if of == (name, policy, share, "slowdown"):
            return float(claim["printed"])
    return None


def events(means: Means) -> DataTable:
    """How the events, and the expands by size of the jobs, divide."""
    rows: list[tuple[Value, ...]] = []
    for name, policy, share in means.known():
        kinds = _filled(means.shares(name, policy, EVENTS, share), len(EVENTS))
        sizes = _filled(means.shares(name, policy, tuple(EXPAND_SIZES), share), len(EXPAND_SIZES))
        rows.append((name, policy, share, *kinds, *sizes))
    groups = (f"expands of {size} nodes %" for size in EXPAND_SIZES.values())
    columns = ("workload (synthetic)", "policy", "malleable %", *(f"{kind} %" for kind in EVENTS), *groups)
    return DataTable(
        "events", "Events, and expands by the size of the jobs, in percent (twins, synthetic)", columns, tuple(rows)
    )


def _filled(shares: Sequence[Value], length: int) -> Sequence[Value]:
    return shares or [None] * length


def over_time(means: Means) -> DataTable:
    """Utilization by hours, as far as the last job runs."""
    policies = (EBF, *EXPANDS)
    rows: list[tuple[Value, ...]] = []
    for hour in HOURS:
        values = [means.get(OVER_TIME, policy, column(hour)) for policy in policies]
        rows.append((f"{hour}-{hour + STEP_H}", *values))
    title = "Utilization over time, in percent of all nodes: 1,000 jobs, intensive, high (twins, synthetic)"
    return DataTable("over-time", title, ("hours", *policies), tuple(rows))
