"""The paper's claims, one by one: do our own runs show the same change?"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from typing import Final

from scheduler_bridge.experiments.judging import Word, word_for
from scheduler_bridge.experiments.outcome import DataTable, Value
from scheduler_bridge.experiments.own_runs.findings import PUBLISHED, cells, orders
from scheduler_bridge.experiments.own_runs.plan import RunKey
from scheduler_bridge.experiments.real_runs.claims import Claim, read_claims
from scheduler_bridge.record import RunRecord

_ORDERS: Final = {"grows_per_job": 0, "shrinks_per_job": 1}


def judged(records: Mapping[RunKey, RunRecord]) -> tuple[DataTable, list[Word]]:
    """The claims whose runs are there, as a table, and what became of them."""
    found, told = cells(records), orders(records)
    ours = {theirs: name for name, theirs in PUBLISHED.items()}

    def mean(claim: Claim, cell: tuple[str, int]) -> float:
        policy, share = ours[cell[0]], cell[1]
        if claim.measure in _ORDERS:
            return told.get((policy, share), (math.nan, math.nan))[_ORDERS[claim.measure]]
        runs = found.get((policy, share), [])
        return statistics.fmean(run[claim.measure] for run in runs) if runs else math.nan

    rows: list[tuple[Value, ...]] = []
    words: list[Word] = []
    for claim in read_claims():
        before, after = mean(claim, claim.before), mean(claim, claim.after)
        if math.isnan(before) or math.isnan(after) or not before:
            continue
        change = 100 * (after / before - 1)
        words.append(word_for(change, claim.printed_change))
        rows.append((claim.text, claim.where, claim.printed_change, change, words[-1]))
    columns = ("claim", "where", "paper: change %", "ours: change %", "verdict")
    return DataTable("claims", "The paper's claims", columns, tuple(rows)), words
