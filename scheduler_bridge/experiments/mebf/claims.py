"""The claims of the MEBF paper, one by one."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from typing import Any, Final

from scheduler_bridge.experiments.judging import CLOSE, Verdict, Word, claims_file, word_for
from scheduler_bridge.experiments.mebf.cells import EBF, EXPANDS
from scheduler_bridge.experiments.sweep import Row

_TWIN: Final = "not known; the workload is a twin of which only numbers of jobs and nodes are the paper's"


class Means:
    """Means over seeds."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self._rows: dict[tuple[str, str, int], list[Row]] = {}
        for row in rows:
            self._rows.setdefault((row.cell.trace, row.cell.policy, row.cell.share), []).append(row)

    def known(self) -> list[tuple[str, str, int]]:
        """What there is: variant, policy, share."""
        return list(self._rows)

    def twins(self) -> int:
        """How many there are."""
        return len({row.cell.seed for rows in self._rows.values() for row in rows})

    def get(self, variant: str, policy: str, measure: str = "turnaround_s", share: int = 100) -> float | None:
        """A mean; of EASY, whose jobs are rigid, that of the variant's size and load."""
        key = (" ".join(variant.split()[:2]), EBF, 0) if policy == EBF else (variant, policy, share)
        values = [value for row in self._rows.get(key, ()) if (value := row.figures[measure]) is not None]
        return statistics.fmean(values) if values else None

    def gain(self, variant: str, policy: str, measure: str = "turnaround_s", share: int = 100) -> float | None:
        """The change against EASY in percent."""
        before, after = self.get(variant, EBF, measure), self.get(variant, policy, measure, share)
        return None if not before or after is None else 100 * (after / before - 1)


def read_claims() -> dict[str, Any]:
    """The claims file: lists ``gain``, ``best``, ``better``, ``same`` and ``worse``."""
    return claims_file(__package__)


def judge(means: Means) -> list[Verdict]:
    """Judge all claims."""
    kinds = {"gain": _gain, "best": _best, "better": _better, "same": _same, "worse": _worse}
    verdicts: list[Verdict] = []
    for kind, verdict_on in kinds.items():
        for claim in read_claims()[kind]:
            printed, found, word = verdict_on(claim, means)
            reason = "" if word in ("holds", "not judged") else _TWIN
            verdicts.append(Verdict(claim["text"], printed, found, word, reason))
    return verdicts


def _gain(claim: dict[str, Any], means: Means) -> tuple[str, str, Word]:
    measure, share = claim.get("measure", "turnaround_s"), claim.get("share", 100)
    found = means.gain(claim["variant"], claim["policy"], measure, share)
    printed = f"{claim['printed']:+.1f} %"
    return (
        (printed, "-", "not judged")
        if found is None
        else (printed, f"{found:+.1f} %", word_for(found, claim["printed"]))
    )


def _best(claim: dict[str, Any], means: Means) -> tuple[str, str, Word]:
    share, wanted = claim.get("share", 100), claim["policy"]
    gains = {name: means.gain(claim["variant"], name, share=share) for name in EXPANDS}
    known = {name: gain for name, gain in gains.items() if gain is not None}
    if len(known) < len(EXPANDS):
        return wanted, "-", "not judged"
    ranked = sorted(known.items(), key=lambda item: item[1])
    found = ", ".join(f"{name} {gain:+.1f} %" for name, gain in ranked)
    return wanted, found, "holds" if ranked[0][0] == wanted else "differs"


def _better(claim: dict[str, Any], means: Means) -> tuple[str, str, Word]:
    gains = [means.gain(variant, policy) for variant in claim["variants"] for policy in EXPANDS]
    known = [gain for gain in gains if gain is not None]
    if len(known) < len(gains):
        return "< 0 %", "-", "not judged"
    return "< 0 %", f"{min(known):+.1f} to {max(known):+.1f} %", "holds" if max(known) < 0 else "differs"


def _apart(claim: dict[str, Any], means: Means, other: str) -> list[float] | None:
    """By how many percent the policy's turnaround is larger than that of the other one, by variant."""
    found = []
    for variant in claim["variants"]:
        ours, theirs = means.get(variant, claim["policy"]), means.get(variant, other)
        if ours is None or not theirs:
            return None
        found.append(100 * (ours / theirs - 1))
    return found


def _same(claim: dict[str, Any], means: Means) -> tuple[str, str, Word]:
    apart = _apart(claim, means, claim["as"])
    if apart is None:
        return "0 %", "-", "not judged"
    return "0 %", _listed(apart), "holds" if all(abs(one) <= CLOSE for one in apart) else "differs"


def _worse(claim: dict[str, Any], means: Means) -> tuple[str, str, Word]:
    apart = _apart(claim, means, claim["than"])
    if apart is None:
        return "> 0 %", "-", "not judged"
    return "> 0 %", _listed(apart), "holds" if all(one > 0 for one in apart) else "differs"


def _listed(values: Iterable[float]) -> str:
    return ", ".join(f"{value:+.1f} %" for value in values)
