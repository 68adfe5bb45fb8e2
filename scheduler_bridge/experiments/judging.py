"""A paper's claim beside what was found, in one word."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Final, Literal, TypeAlias

from scheduler_bridge.experiments.outcome import DataTable

Word: TypeAlias = Literal["holds", "same sign", "differs", "not judged"]
TOLERANCE: Final = 10.0
"""A change holds where it has the printed sign and is at most so many points away from the printed one."""
CLOSE: Final = 3.0
"""So close, in points, the sign does not matter: what hardly changes may change either way."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a claim.

    Attributes:
        text: The claim.
        printed: What is printed.
        found: The same here.
        word: In one word.
        reason: Why it is not so, as far as it is known.
    """

    text: str
    printed: str
    found: str
    word: Word
    reason: str


@cache
def claims_file(package: str) -> dict[str, Any]:
    """The file ``claims.toml`` of an experiment's package."""
    return tomllib.loads(files(package).joinpath("claims.toml").read_text(encoding="utf-8"))


def word_for(found: float, printed: float, tolerance: float = TOLERANCE) -> Word:
    """Judge a change in percent by the printed one, which may be ``tolerance`` points away."""
    apart, alike = abs(found - printed), found * printed > 0
    if apart <= (tolerance if alike else CLOSE):
        return "holds"
    return "same sign" if alike else "differs"


def counted(words: Sequence[Word]) -> str:
    """How many claims hold, for the verdict."""
    judged = [word for word in words if word != "not judged"]
    alike = judged.count("same sign")
    return (
        f"{judged.count('holds')} of {len(judged)} claims of the paper hold, {alike} more by their sign alone, "
        f"{judged.count('differs')} differ"
    )


def agree(verdicts: Iterable[Verdict]) -> bool:
    """Whether no claim differs."""
    return all(verdict.word != "differs" for verdict in verdicts)


def claims_table(verdicts: Iterable[Verdict]) -> DataTable:
    """All claims and what became of them."""
    columns = ("claim", "printed", "found", "verdict", "what is known of the reason")
    rows = tuple((v.text, v.printed, v.found, v.word, v.reason) for v in verdicts)
    return DataTable("claims", "The paper's claims", columns, rows)
