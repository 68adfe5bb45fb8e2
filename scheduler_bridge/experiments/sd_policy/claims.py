"""The claims of the SD-Policy paper, one by one."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from scheduler_bridge.experiments.judging import CLOSE, Verdict, Word, claims_file, word_for
from scheduler_bridge.experiments.sd_policy.cells import MEASURES, STATIC
from scheduler_bridge.experiments.sd_policy.means import FEW, Gains, Means
from scheduler_bridge.experiments.sd_policy.traces import Trace

_FAR: Final = 10.0
"""A static mean that is so many percent away from the printed one makes another workload."""
_DAYS: Final = 90.0
"""So many percent of the days on which slowdown is not higher are taken for all but a first spike."""
_NEARLY: Final = 80.0
"""So many percent of the categories are taken for nearly all: the paper has three that are worse."""
_ANOTHER: Final = {
    1: "drawn by the model's form, not by the authors",
    2: "drawn by the model's form, not by the authors",
    3: "a twin: of the log, only numbers of jobs and nodes and the largest job are known here",
    4: "a part of the log, another one than the paper's eight months",
    5: "a simulation, where jobs have no memory-bound phases; what sharing gained in the real run is not in the model",
}
_Found: TypeAlias = tuple[str, str, Word]
_NOT_JUDGED: Final[Word] = "not judged"


def read_claims() -> dict[str, Any]:
    """The claims file: Table 1 as ``printed``, and lists by the kinds of claims."""
    return claims_file(__package__)


def printed(paper: int, measure: str) -> float | None:
    """What Table 1 has for a workload under static backfill."""
    value: float | None = read_claims()["printed"][str(paper)].get(measure)
    return value


@dataclass(frozen=True, slots=True)
class Judge:
    """Judges claims by what was found.

    Attributes:
        means: Of all simulations.
        traces: The workloads that there are, by the paper's number.
        gains: Who gains in workload 4; None: it is not there.
    """

    means: Means
    traces: dict[int, Trace]
    gains: Gains | None

    def judge(self) -> list[Verdict]:
        """All claims."""
        kinds = {
            "change": self._change,
            "between": self._between,
            "falls": self._falls,
            "best": self._best,
            "better": self._better,
            "share": self._share,
            "map": self._map,
        }
        verdicts = []
        for kind, verdict_on in kinds.items():
            for claim in read_claims()[kind]:
                text, found, word = verdict_on(claim)
                reason = "" if word in ("holds", _NOT_JUDGED) else self._reason(claim)
                verdicts.append(Verdict(claim["text"], text, found, word, reason))
        return verdicts

    def _name(self, paper: int) -> str:
        trace = self.traces.get(paper)
        return "" if trace is None else trace.name

    def _policy(self, paper: int, wanted: str, measure: str) -> str:
        return (self.means.best(self._name(paper), measure) or "") if wanted == "best" else wanted

    def _change(self, claim: dict[str, Any]) -> _Found:
        measure, wanted = claim["measure"], claim["printed"]
        policy = self._policy(claim["workload"], claim["policy"], measure)
        found = self.means.change(self._name(claim["workload"]), policy, measure, claim.get("than", STATIC))
        text = f"{wanted:+.1f} %"
        if found is None:
            return text, "-", _NOT_JUDGED
        at = f" ({policy})" if claim["policy"] == "best" else ""
        return text, f"{found:+.1f} %{at}", word_for(found, wanted)

    def _between(self, claim: dict[str, Any]) -> _Found:
        values = [
            self.means.get(self._name(paper), self._policy(paper, claim["policy"], "slowdown"), "slowdown")
            for paper in (claim["workload"], claim["than"])
        ]
        text = f"{claim['printed']:+.1f} %"
        if values[0] is None or not values[1]:
            return text, "-", _NOT_JUDGED
        found = 100 * (values[0] / values[1] - 1)
        return text, f"{found:+.1f} %", word_for(found, claim["printed"])

    def _falls(self, claim: dict[str, Any]) -> _Found:
        """In all; a step may rise as little as does not matter."""
        name, order = self._name(claim["workload"]), claim["order"]
        values = [self.means.get(name, policy, "slowdown") for policy in order]
        known = [value for value in values if value is not None]
        text = " > ".join(order)
        if len(known) < len(order):
            return text, "-", _NOT_JUDGED
        rises = max(100 * (after / before - 1) for before, after in itertools.pairwise(known))
        falls = known[-1] < known[0] and rises <= CLOSE
        return text, ", ".join(f"{value:,.1f}" for value in known), "holds" if falls else "differs"

    def _best(self, claim: dict[str, Any]) -> _Found:
        found = self.means.best(self._name(claim["workload"]), "slowdown")
        if found is None:
            return claim["policy"], "-", _NOT_JUDGED
        return claim["policy"], found, "holds" if found == claim["policy"] else "differs"

    def _better(self, claim: dict[str, Any]) -> _Found:
        there = [self.traces[paper] for paper in claim["workloads"] if paper in self.traces]
        changes = {
            f"{trace.name}, {policy}": self.means.change(trace.name, policy, "slowdown")
            for trace in there
            for policy in claim["policies"]
        }
        known = {name: value for name, value in changes.items() if value is not None}
        if not known or len(known) < len(changes):
            return "< 0 %", "-", _NOT_JUDGED
        worse = [f"{name} {value:+.1f} %" for name, value in known.items() if value >= 0]
        range_of = f"{min(known.values()):+.1f} to {max(known.values()):+.1f} %"
        return "< 0 %", f"{range_of}{'; not ' if worse else ''}{'; '.join(worse)}", "differs" if worse else "holds"

    def _share(self, claim: dict[str, Any]) -> _Found:
        found = self.means.get(self._name(claim["workload"]), "10", claim["measure"])
        text = f"{claim['printed']:.1f} %"
        if found is None:
            return text, "-", _NOT_JUDGED
        return text, f"{found:.1f} %", "holds" if abs(found - claim["printed"]) <= CLOSE else "differs"

    def _map(self, claim: dict[str, Any]) -> _Found:
        if self.gains is None:
            return "", "-", _NOT_JUDGED
        if claim["kind"] == "days":
            return _days(self.gains)
        return _corner(self.gains, claim["printed"]) if claim["kind"] == "corner" else _kept(self.gains, claim["kind"])

    def _reason(self, claim: dict[str, Any]) -> str:
        """What is known: that the workload is another one, and how far off it is before anything is shared."""
        paper = claim.get("workload", 4 if claim.get("kind") else None)
        if paper is None:
            return "see the claims on each workload"
        far = [_ANOTHER[paper]]
        for measure in MEASURES:
            here, there = self.means.get(self._name(paper), STATIC, measure), printed(paper, measure)
            if here and there and measure != "makespan_s" and abs(here / there - 1) > _FAR / 100:
                far.append(f"static {measure.removesuffix('_s')} is {here:,.0f}, printed {there:,.0f}")
        return "; ".join(far)


def _corner(gains: Gains, wanted: float) -> _Found:
    counted = [category for category in gains.categories if category.counts]
    small, large = ([c.slowdown for c in counted if c.is_small is is_small] for is_small in (True, False))
    text = f"up to x {wanted:.2f}"
    if not small or not large:
        return text, "-", _NOT_JUDGED
    best = max(small)
    found = f"up to x {best:.2f}; larger or longer ones up to x {max(large):.2f}"
    if best <= max(large) or best <= 1:
        return text, found, "differs"
    return text, found, word_for(100 * (1 / best - 1), 100 * (1 / wanted - 1))


def _kept(gains: Gains, kind: str) -> _Found:
    """Whether categories are better, nearly all of them; of waits: all that run longer."""
    counted = [category for category in gains.categories if category.counts]
    if kind == "wait":
        ratios = [c.wait if c.wait is not None else 1.0 for c in counted if c.runtime < 1]
    else:
        ratios = [category.slowdown for category in counted]
    if not ratios:
        return "x >= 1", f"no category of {FEW} jobs", _NOT_JUDGED
    better = sum(ratio >= 1 for ratio in ratios)
    needed = len(ratios) if kind == "wait" else math.ceil(_NEARLY / 100 * len(ratios))
    return "x >= 1", f"{better} of {len(ratios)} categories", "holds" if better >= needed else "differs"


def _days(gains: Gains) -> _Found:
    """A day counts as kept where its slowdown is not above that of static backfill."""
    kept = sum(day.shared <= day.static for day in gains.days)
    share = 100 * kept / len(gains.days)
    return "nearly all days", f"{kept} of {len(gains.days)} days", "holds" if share >= _DAYS else "differs"


def judge(means: Means, traces: Sequence[Trace], gains: Gains | None) -> list[Verdict]:
    """Judge all claims; those on workloads that are not there are not judged."""
    return Judge(means, {trace.paper: trace for trace in traces}, gains).judge()
