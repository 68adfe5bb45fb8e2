"""The claims of the MEBF paper, one by one."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from typing import Any, Final

from scheduler_bridge.experiments.judging import CLOSE, Verdict, Word, claims_file, word_for
from scheduler_bridge.experiments.mebf.cells import EXPANDS, HOURS, column
from scheduler_bridge.experiments.mebf.means import EVENTS, EXPAND_SIZES, Means

_TWIN: Final = "not known; the workload is a twin of which only numbers of jobs and nodes are the paper's"
_Judged = tuple[str, str, Word]
"""What is printed, what was found, and the verdict."""
_ABSOLUTE: Final = ("utilization", "hours", "part")
"""Quantities that are in percent already."""


def read_claims() -> dict[str, Any]:
    """The claims file: lists ``gain``, ``best``, ``better``, ``same``, ``more``, ``level``, ``alike`` and ``most``."""
    return claims_file(__package__)


def judge(means: Means) -> list[Verdict]:
    """Judge all claims."""
    kinds = {
        "gain": _gain, "best": _best, "better": _better, "same": _same, "more": _more, "level": _level,
        "alike": _alike, "most": _most,
    }  # fmt: skip
    verdicts: list[Verdict] = []
    for kind, verdict_on in kinds.items():
        for claim in read_claims()[kind]:
            printed, found, word = verdict_on(claim, means)
            reason = "" if word in ("holds", "not judged") else _TWIN
            verdicts.append(Verdict(claim["text"], printed, found, word, reason))
    return verdicts


def quantity(claim: dict[str, Any], means: Means, variant: str, policy: str) -> float | None:
    """What a claim is about: a mean, that of the utilization in some ``hours``, or a ``part`` of the events, in %."""
    share = claim.get("share", 100)
    if "hours" in claim:
        from_h, to_h = claim["hours"]
        steps = [means.get(variant, policy, column(hour), share) for hour in HOURS if from_h <= hour < to_h]
        known = [step for step in steps if step is not None]
        return statistics.fmean(known) if known and len(known) == len(steps) else None
    if "part" in claim:
        names = EVENTS if set(claim["part"]) <= set(EVENTS) else tuple(EXPAND_SIZES)
        shares = means.shares(variant, policy, names, share)
        return sum(dict(zip(names, shares, strict=True))[name] for name in claim["part"]) if shares else None
    return means.get(variant, policy, claim.get("measure", "turnaround_s"), share)


def _gain(claim: dict[str, Any], means: Means) -> _Judged:
    measure, share = claim.get("measure", "turnaround_s"), claim.get("share", 100)
    found = means.gain(claim["variant"], claim["policy"], measure, share)
    printed = f"{claim['printed']:+.1f} %"
    if found is None:
        return printed, "-", "not judged"
    return printed, f"{found:+.1f} %", word_for(found, claim["printed"])


def _best(claim: dict[str, Any], means: Means) -> _Judged:
    share, wanted = claim.get("share", 100), claim["policy"]
    gains = {name: means.gain(claim["variant"], name, share=share) for name in EXPANDS}
    known = {name: gain for name, gain in gains.items() if gain is not None}
    if len(known) < len(EXPANDS):
        return wanted, "-", "not judged"
    ranked = sorted(known.items(), key=lambda item: item[1])
    found = ", ".join(f"{name} {gain:+.1f} %" for name, gain in ranked)
    return wanted, found, "holds" if ranked[0][0] == wanted else "differs"


def _better(claim: dict[str, Any], means: Means) -> _Judged:
    gains = [
        means.gain(variant, policy, share=share)
        for variant in claim["variants"]
        for policy in claim.get("policies", EXPANDS)
        for share in claim.get("shares", (100,))
    ]
    known = [gain for gain in gains if gain is not None]
    if len(known) < len(gains):
        return "< 0 %", "-", "not judged"
    return "< 0 %", f"{min(known):+.1f} to {max(known):+.1f} %", "holds" if max(known) < 0 else "differs"


def _same(claim: dict[str, Any], means: Means) -> _Judged:
    apart = []
    for variant in claim["variants"]:
        ours, theirs = means.get(variant, claim["policy"]), means.get(variant, claim["as"])
        if ours is None or not theirs:
            return "0 %", "-", "not judged"
        apart.append(100 * (ours / theirs - 1))
    return "0 %", _listed(apart, "%"), "holds" if all(abs(one) <= CLOSE for one in apart) else "differs"


def _more(claim: dict[str, Any], means: Means) -> _Judged:
    """Each of the policies has more of something than each of the others; found: the smallest lead, by variant."""
    leads = []
    absolute = any(word in claim or claim.get("measure") == word for word in _ABSOLUTE)
    for variant in claim["variants"]:
        ours = [quantity(claim, means, variant, policy) for policy in claim["policies"]]
        theirs = [quantity(claim, means, variant, policy) for policy in claim["than"]]
        low, high = [v for v in ours if v is not None], [v for v in theirs if v is not None]
        if len(low) < len(ours) or len(high) < len(theirs):
            return "more", "-", "not judged"
        leads.append(min(low) - max(high) if absolute else 100 * (min(low) / max(high) - 1))
    unit = "points" if absolute else "%"
    return "more", _listed(leads, unit), "holds" if all(lead > 0 for lead in leads) else "differs"


def _level(claim: dict[str, Any], means: Means) -> _Judged:
    """All policies are at most some points away from what is printed."""
    values = [quantity(claim, means, variant, policy) for variant in claim["variants"] for policy in EXPANDS]
    known = [value for value in values if value is not None]
    printed = f"{claim['printed']:.1f} %"
    if len(known) < len(values):
        return printed, "-", "not judged"
    close = all(abs(value - claim["printed"]) <= CLOSE for value in known)
    return printed, f"{min(known):.1f} to {max(known):.1f} %", "holds" if close else "differs"


def _alike(claim: dict[str, Any], means: Means) -> _Judged:
    """The policies hardly differ; found: by how much the worst one is above the best one, by variant."""
    spreads = []
    for variant in claim["variants"]:
        values = [quantity(claim, means, variant, policy) for policy in EXPANDS]
        known = [value for value in values if value]
        if len(known) < len(values):
            return "0 %", "-", "not judged"
        spreads.append(100 * (max(known) / min(known) - 1))
    return "0 %", _listed(spreads, "%"), "holds" if all(spread <= CLOSE for spread in spreads) else "differs"


def _most(claim: dict[str, Any], means: Means) -> _Judged:
    """Most events are of one kind."""
    shares = means.shares(claim["variant"], claim["policy"], EVENTS)
    if not shares:
        return claim["kind"], "-", "not judged"
    ranked = sorted(zip(shares, EVENTS, strict=True), reverse=True)
    found = ", ".join(f"{name} {share:.1f} %" for share, name in ranked)
    return claim["kind"], found, "holds" if ranked[0][1] == claim["kind"] else "differs"


def _listed(values: Iterable[float], unit: str) -> str:
    return ", ".join(f"{value:+.1f} {unit}" for value in values)
