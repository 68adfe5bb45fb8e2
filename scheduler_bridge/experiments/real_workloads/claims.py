"""The claims of the 2025 paper, one by one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from scheduler_bridge.experiments.judging import Verdict, Word, claims_file, word_for
from scheduler_bridge.experiments.real_workloads.cells import STRATEGIES
from scheduler_bridge.experiments.real_workloads.means import MeanTable, change
from scheduler_bridge.experiments.real_workloads.traces import Trace

_FAR: Final = 10.0
"""A rigid workload whose mean is so many percent away from the printed one is called another workload."""
_THETA_AXIS_S: Final = 4500


@dataclass(frozen=True, slots=True)
class OnTrace(Verdict):
    """A verdict.

    Attributes:
        where: In the paper.
        trace: The workload on which it was judged.
    """

    where: str
    trace: str


def read_claims() -> dict[str, Any]:
    """The claims file: lists ``change``, ``limit`` and ``order``, and the printed means of ``rigid`` workloads."""
    return claims_file(__package__)


def judge(means: MeanTable, traces: Iterable[Trace]) -> list[OnTrace]:
    """Judge all claims on all workloads that stand for the paper's."""
    kinds = {"change": _change, "limit": _limit, "order": _order}
    verdicts: list[OnTrace] = []
    for trace in traces:
        for kind, verdict_on in kinds.items():
            for claim in read_claims()[kind]:
                if claim["trace"] == trace.paper:
                    printed, found, word = verdict_on(claim, trace.name, means)
                    reason = "" if word in ("holds", "not judged") else _reason(claim, trace, means)
                    where, text = claim["where"], claim["text"]
                    verdicts.append(OnTrace(text, printed, found, word, reason, where, trace.label))
    return verdicts


def _change(claim: dict[str, Any], trace: str, means: MeanTable) -> tuple[str, str, Word]:
    printed, measure = claim["printed"], claim["measure"]
    after = means.choose(trace, claim["after"][0], claim["after"][1], measure)
    before = means.rigid(trace, measure)
    text = f"{printed:+.1f} %"
    if after is None or before is None:
        return text, "-", "not judged"
    policy, share, value = after
    if (found := change(before, value)) is None:
        return text, "nobody waits", "not judged"
    return text, f"{found:+.1f} % ({policy}, {share} %)", word_for(found, printed)


def _limit(claim: dict[str, Any], trace: str, means: MeanTable) -> tuple[str, str, Word]:
    shares = [share for share in means.shares(trace) if share >= claim["from"]]
    best = [means.choose(trace, "best", str(share), claim["measure"]) for share in shares]
    values = [one[2] for one in best if one is not None]
    text = f"< {claim['below']:g} s"
    if not values:
        return text, "-", "not judged"
    if (rigid := means.rigid(trace, claim["measure"])) is not None and rigid < claim["below"]:
        return text, f"rigid jobs wait {rigid:.1f} s", "not judged"
    return text, f"{max(values):.1f} s", "holds" if max(values) < claim["below"] else "differs"


def _order(claim: dict[str, Any], trace: str, means: MeanTable) -> tuple[str, str, Word]:
    sign, wanted = (-1, claim["most"]) if "most" in claim else (1, claim["least"])
    values = {name: means.get(trace, name, claim["share"], claim["measure"]) for name in STRATEGIES}
    known = {name: value for name, value in values.items() if value is not None}
    if wanted not in known or len(known) < len(STRATEGIES):
        return wanted, "-", "not judged"
    ranked = sorted(known.items(), key=lambda item: sign * item[1])
    found = ", ".join(f"{name} {value:,.1f}" for name, value in ranked)
    if ranked[0][1] == ranked[1][1] == known[wanted]:
        return wanted, found, "not judged"
    return wanted, found, "holds" if wanted == ranked[0][0] else "differs"


def _reason(claim: dict[str, Any], trace: Trace, means: MeanTable) -> str:
    """What is known: that the workload is another one, and how far off it is before anything is malleable."""
    far = [
        f"rigid {name.removesuffix('_s')} is {here:,.0f}, printed {printed:,.0f}"
        for name, printed in read_claims()["rigid"][trace.paper].items()
        if (here := means.rigid(trace.name, name)) is not None and abs(here / printed - 1) > _FAR / 100
    ]
    if trace.paper == "theta":
        far += _theta(trace, means)
    if trace.warmup_s is None:
        far.append("a short cut, on which the machine is filling up")
    if claim["measure"] in ("expands", "shrinks"):
        far.append("the paper's scheduler decides at every tick, ours where something has changed")
    return "; ".join(far) or "not known"


def _theta(trace: Trace, means: MeanTable) -> list[str]:
    """The paper prints no rigid means of Theta; the axis of its figure bounds the wait."""
    jobs = "933 of the paper's 2,550 jobs are not in the public trace"
    found = [jobs if trace.name == "theta" else f"{jobs}, those in their place are drawn"]
    if (wait_s := means.rigid(trace.name, "wait_s") or 0.0) > _THETA_AXIS_S:
        found.append(f"rigid jobs wait {wait_s:,.0f} s, the axis of Fig. 9i ends at {_THETA_AXIS_S:,} s")
    return found
