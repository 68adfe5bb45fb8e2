"""The claims of the 2016 paper, one by one."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any, Final

from scheduler_bridge.experiments.judging import Verdict, Word, claims_file, word_for
from scheduler_bridge.experiments.penalty.cells import CLASSES, Waits

_SPAN: Final = (
    "not known: how the paper's jobs arrive is not printed; ours come within a day, so that those in front hardly wait"
)
_UNKNOWN: Final = "not known"


@dataclass(frozen=True, slots=True)
class Beside(Verdict):
    """A verdict; ``plain`` is what was found under plain EASY."""

    plain: str


def read_claims() -> dict[str, Any]:
    """The claims file: the ``printed`` table, and lists ``times`` and ``falls``."""
    return claims_file(__package__)


def judge(waits: Waits) -> list[Beside]:
    """Judge all claims. A ratio is judged by the change in percent that it is."""
    times = [_times(claim, waits) for claim in read_claims()["times"]]
    return times + [_falls(claim, waits) for claim in read_claims()["falls"]]


def _times(claim: dict[str, Any], waits: Waits) -> Beside:
    ratios = [_ratio(claim, waits, policy) for policy in ("penalty", "easy")]
    printed = claim["printed"]
    found, plain = ("-" if ratio is None else f"{ratio:.2f}" for ratio in ratios)
    word: Word = "not judged" if not ratios[0] else word_for(100 * (1 / ratios[0] - 1), 100 * (1 / printed - 1))
    reason = "" if word in ("holds", "not judged") else _SPAN if ratios[0] and ratios[0] > printed else _UNKNOWN
    return Beside(claim["text"], f"{printed:.2f}", found, word, reason, plain)


def _ratio(claim: dict[str, Any], waits: Waits, policy: str) -> float | None:
    (lower, its_class), (than, other_class) = claim["lower"], claim["than"]
    low, high = waits.get(lower, policy, its_class), waits.get(than, policy, other_class)
    return None if not low or high is None else high / low


def _falls(claim: dict[str, Any], waits: Waits) -> Beside:
    scenario = claim["scenario"]
    printed = " > ".join(f"{value:,.0f}" for value in read_claims()["printed"][scenario].values())
    shown: list[str] = []
    falling: list[bool] = []
    for policy in ("penalty", "easy"):
        values = [value for name in CLASSES if (value := waits.get(scenario, policy, name)) is not None]
        shown.append(", ".join(f"{value:,.0f}" for value in values))
        falling.append(len(values) > 1 and all(high > low for high, low in itertools.pairwise(values)))
    word: Word = "holds" if falling[0] else "differs"
    return Beside(claim["text"], printed, shown[0], word, "" if falling[0] else _UNKNOWN, plain=shown[1])
