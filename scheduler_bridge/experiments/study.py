"""The engine of the studies: means of what was simulated, the language of claims, tables and figures of both.

A study simulates its cells (``sweep``), takes means over the rows, and judges the claims of its paper, which are in the
file ``claims.toml`` of its folder. The kinds of claims and how each is judged are here; which means a claim is about,
the study says.
"""

from __future__ import annotations

import itertools
import statistics
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from scheduler_bridge.experiments.study_report import DataTable, Picture, Value
from scheduler_bridge.experiments.sweep import Figures, Row
from scheduler_bridge.report.charts import BarRow, bar_table_height_in, draw_bar_table, say, sheet

# Means over seeds ----------------------------------------------------------------------------------------------------


class Means:
    """Means over seeds of what was simulated, by workload, policy and share of malleable jobs in percent.

    A share of None stands for all rows of the policy, which is enough where a study has one share a policy.
    """

    def __init__(self, rows: Iterable[Row]) -> None:
        self._figures: dict[tuple[str, str, int | None], dict[int, Figures]] = {}
        for row in rows:
            for share in (row.cell.share, None):
                self._figures.setdefault((row.cell.trace, row.cell.policy, share), {})[row.cell.seed] = row.figures

    def known(self) -> list[tuple[str, str, int]]:
        """What was simulated: workload, policy, share."""
        return [(trace, policy, share) for trace, policy, share in self._figures if share is not None]

    def seeds(self, trace: str, policy: str, share: int | None = None) -> int:
        """How many simulations a mean is of."""
        return len(self._figures.get((trace, policy, share), ()))

    def most_seeds(self, trace: str | None = None) -> int:
        """How many simulations the means of a workload, or of any, are of at most."""
        return max((self.seeds(*key) for key in self.known() if trace in (None, key[0])), default=0)

    def by_seed(self, trace: str, policy: str, measure: str, share: int | None = None) -> dict[int, float]:
        """What the simulations found that found something."""
        found = self._figures.get((trace, policy, share), {}).items()
        return {seed: value for seed, figures in found if (value := figures[measure]) is not None}

    def get(self, trace: str, policy: str, measure: str, share: int | None = None) -> float | None:
        """The mean; None: nothing was simulated, or there is no such number."""
        values = self.by_seed(trace, policy, measure, share).values()
        return statistics.fmean(values) if values else None


def change(before: float | None, after: float | None) -> float | None:
    """From one mean to another, in percent; None: there is none, or nothing to compare with."""
    return None if not before or after is None else 100 * (after / before - 1)


def spread(values: Iterable[float | None]) -> float | None:
    """From the smallest of several means to the largest, in percent; None: one is missing."""
    known = known_of(values)
    return change(min(known), max(known)) if known else None


# Claims --------------------------------------------------------------------------------------------------------------

Word: TypeAlias = Literal["held", "right direction", "differs", "not judged"]
Claim: TypeAlias = Mapping[str, Any]
"""An entry of a claims file."""
Named: TypeAlias = Mapping[str, float | None]
"""Means by what they are of; None: there is no such mean, and the claim cannot be judged."""
TOLERANCE: Final = 5.0
"""In points: a change is held where it has the printed direction and is no farther away from the printed one."""
FACTOR: Final = 2.0
"""How many times a change in the right direction is at most larger, or smaller, than the printed one."""
LEVEL: Final = 3.0
"""In points: a share or a utilization, which is no change, is held where it is no farther away from the printed one."""
HOW_JUDGED: Final = (
    f"A change is held where it has the printed direction and is at most {TOLERANCE:g} points away from the printed "
    f"one; farther away, the direction is right up to a factor of {FACTOR:g}, and beyond it the claim differs. Where "
    "the claim is that hardly anything changes, it has no direction. An order is held where it is that of all policies."
)
"""For the remarks of a study."""
CLAIM_COLUMNS: Final = ("claim", "printed", "found", "verdict", "what is known of the reason")


class Judged(NamedTuple):
    """What is printed, the same here, and the verdict in one word."""

    printed: Value
    found: Value
    word: Word


@dataclass(frozen=True, slots=True)
class ClaimVerdict:
    """What became of a claim.

    Attributes:
        text: The claim.
        printed: What is printed.
        found: The same here.
        word: In one word.
        reason: Why it is not so, as far as it is known.
        where: Where the paper has it, and of which workload it was judged, where a study says so.
        beside: What else was found, to compare with.
    """

    text: str
    printed: Value
    found: Value
    word: Word
    reason: str = ""
    where: tuple[Value, ...] = ()
    beside: tuple[Value, ...] = ()


def claims_file(package: str) -> dict[str, Any]:
    """Read ``claims.toml`` in a study's folder: lists of claims by their kind, and what else the paper prints."""
    return tomllib.loads(files(package).joinpath("claims.toml").read_text(encoding="utf-8"))


def judge(
    claims: Mapping[str, Sequence[Claim]],
    kinds: Mapping[str, Callable[[Claim], Judged]],
    reason: Callable[[Claim], str],
    *,
    where: Callable[[Claim], tuple[Value, ...]] = lambda _: (),
    beside: Callable[[Claim], tuple[Value, ...]] = lambda _: (),
) -> list[ClaimVerdict]:
    """Judge claims by what was found.

    Args:
        claims: By kind.
        kinds: What judges the claims of a kind.
        reason: What is known of why a claim does not hold.
        where: See ``ClaimVerdict``.
        beside: The same.
    """
    verdicts = []
    for kind, judged_by in kinds.items():
        for claim in claims[kind]:
            judged = judged_by(claim)
            why = "" if judged.word in ("held", "not judged") else reason(claim)
            verdicts.append(ClaimVerdict(claim["text"], *judged, why, where(claim), beside(claim)))
    return verdicts


_WORST_FIRST: Final[tuple[Word, ...]] = ("differs", "right direction", "held", "not judged")


def together(forms: Sequence[ClaimVerdict]) -> ClaimVerdict:
    """Count a claim that was judged on several forms of a workload once, by the form on which it does worst."""
    first_form, *others = forms
    if not others:
        return first_form
    return ClaimVerdict(
        first_form.text,
        first_form.printed,
        "; ".join(str(form.found) for form in forms),
        min((form.word for form in forms), key=_WORST_FIRST.index),
        _once(form.reason for form in forms),
        tuple(map(_once, zip(*(form.where for form in forms), strict=True))),
        tuple(map(_once, zip(*(form.beside for form in forms), strict=True))),
    )


def _once(texts: Iterable[Value]) -> str:
    return "; ".join(dict.fromkeys(str(text) for text in texts if text not in ("", None)))


def word_for(found: float, printed: float, *, still: bool = False) -> Word:
    """Judge a change in percent by the printed one.

    Args:
        found: Here.
        printed: By the paper; 0 has no direction.
        still: The claim is that hardly anything changes, so that it has no direction.
    """
    alike = found * printed > 0
    if abs(found - printed) <= TOLERANCE and (alike or still or printed == 0):
        return "held"
    right = alike and not still and abs(printed) <= FACTOR * abs(found) and abs(found) <= FACTOR * abs(printed)
    return "right direction" if right else "differs"


def word_for_times(found: float, printed: float, *, still: bool = False) -> Word:
    """Judge how many times one mean is another: by the change in percent that it is, and the factor by itself."""
    word = word_for(100 * (1 / found - 1), 100 * (1 / printed - 1), still=still)
    far = found > FACTOR * printed or printed > FACTOR * found
    return "differs" if word == "right direction" and far else word


def changed(found: float | None, claim: Claim, note: str = "") -> Judged:
    """A change in percent is the printed one; ``note`` says of what it was found."""
    printed = claim["printed"]
    text = f"{printed:+.1f} %"
    if found is None:
        return Judged(text, "-", "not judged")
    return Judged(text, f"{found:+.1f} %{note}", word_for(found, printed, still=claim.get("still", False)))


def near(values: Sequence[float | None], printed: float) -> Judged:
    """Shares in percent are all that which is printed, as close as does not matter."""
    text, known = f"{printed:.1f} %", known_of(values)
    if not known:
        return Judged(text, "-", "not judged")
    least = "" if len(known) == 1 else f"{min(known):.1f} to "
    return Judged(text, f"{least}{max(known):.1f} %", held(all(abs(value - printed) <= LEVEL for value in known)))


def amounts(values: Named, printed: float) -> Judged:
    """Numbers are all the printed one, up to as many percent as a change may be points away, or within the factor."""
    text, known = f"{printed:g}", known_of(values.values())
    if not known:
        return Judged(text, "-", "not judged")
    words: list[Word] = []
    for value in known:
        near = abs(value - printed) <= TOLERANCE / 100 * printed
        far = value > FACTOR * printed or printed > FACTOR * value
        words.append("held" if near else "differs" if far else "right direction")
    found = ", ".join(f"{name} {value:.1f}" for name, value in zip(values, known, strict=True))
    return Judged(text, found, min(words, key=_WORST_FIRST.index))


def first(values: Named, wanted: str, form: str | None, *, highest: bool = False) -> Judged:
    """One mean is the lowest, or the highest, of several, and no other is as low; where all are equal, none is.

    Args:
        values: Those of all policies.
        wanted: Whose mean it is.
        form: Words them; None leaves the others out.
        highest: Instead of the lowest.
    """
    known = known_of(values.values())
    if not known or (len(known) > 1 and len(set(known)) == 1):
        return Judged(wanted, "-" if not known else f"all the same: {(form or '{}').format(known[0])}", "not judged")
    ranked = sorted(((name, value or 0.0) for name, value in values.items()), key=lambda one: one[1], reverse=highest)
    extreme = [name for name, value in ranked if value == ranked[0][1]]
    found = ", ".join(extreme if form is None else (f"{name} {form.format(value)}" for name, value in ranked))
    return Judged(wanted, found, held(extreme == [wanted]))


def below_zero(changes: Named) -> Judged:
    """Changes in percent all lower something."""
    known = known_of(changes.values())
    if not known:
        return Judged("< 0 %", "-", "not judged")
    higher = "; ".join(f"{name} {value:+.1f} %" for name, value in changes.items() if value is not None and value >= 0)
    found = f"{min(known):+.1f} to {max(known):+.1f} %{'; not ' if higher else ''}{higher}"
    return Judged("< 0 %", found, held(not higher))


def falling(values: Sequence[float | None], printed: str, form: str) -> Judged:
    """Each mean is below the one before it."""
    known = known_of(values)
    if len(known) < 2:
        return Judged(printed, "-", "not judged")
    falls = all(after < before for before, after in itertools.pairwise(known))
    return Judged(printed, ", ".join(map(form.format, known)), held(falls))


def leading(pairs: Iterable[tuple[Sequence[float | None], Sequence[float | None]]], *, points: bool) -> Judged:
    """Each of some means is above each of others; found: the smallest lead of each pair, in points or percent."""
    leads = []
    for ours, theirs in pairs:
        low, high = known_of(ours), known_of(theirs)
        if not low or not high:
            return Judged("more", "-", "not judged")
        leads.append(min(low) - max(high) if points else 100 * (min(low) / max(high) - 1))
    return Judged("more", _listed(leads, "points" if points else "%"), held(all(lead > 0 for lead in leads)))


def unchanged(changes: Sequence[float | None]) -> Judged:
    """Changes in percent are so small that they do not matter."""
    known = known_of(changes)
    if not known:
        return Judged("0 %", "-", "not judged")
    return Judged("0 %", _listed(known, "%"), held(all(word_for(change, 0.0) == "held" for change in known)))


def known_of(values: Iterable[float | None]) -> list[float]:
    """The values if all are known, else none of them."""
    found = list(values)
    known = [value for value in found if value is not None]
    return known if len(known) == len(found) else []


def held(so: bool) -> Word:
    """The verdict on what is so or not."""
    return "held" if so else "differs"


def _listed(values: Iterable[float], unit: str) -> str:
    return ", ".join(f"{value:+.1f} {unit}" for value in values)


def counted(words: Iterable[Word]) -> str:
    """How many claims are held, for the verdict of the study."""
    judged = [word for word in words if word != "not judged"]
    return (
        f"{judged.count('held')} of {len(judged)} claims of the paper are held, {judged.count('right direction')} more "
        f"go in the right direction, {judged.count('differs')} differ"
    )


def agree(verdicts: Iterable[ClaimVerdict]) -> bool:
    """Whether no claim differs."""
    return all(verdict.word != "differs" for verdict in verdicts)


def claims_table(
    verdicts: Iterable[ClaimVerdict], columns: Sequence[str] = CLAIM_COLUMNS, title: str = "The paper's claims"
) -> DataTable:
    """All claims and what became of them.

    Args:
        verdicts: As judged.
        columns: Their names, with one for each of ``where`` and ``beside``; the last, the reason, may be left out.
        title: Of the table.
    """
    rows = [(v.text, *v.where, v.printed, v.found, *v.beside, v.word, v.reason) for v in verdicts]
    return DataTable("claims", title, columns, tuple(row[: len(columns)] for row in rows))


# Figures -------------------------------------------------------------------------------------------------------------


def draw_bars(
    columns: Sequence[str], rows: Sequence[BarRow], form: Callable[[float], str], finding: str, note: str, caption: str,
    alt: str,
) -> Picture:  # fmt: skip
    """A table of bars, see ``draw_bar_table``: above it what it shows, below it what the marks are."""
    figure = sheet(bar_table_height_in(rows))
    draw_bar_table(figure, columns, rows, form)
    say(figure, finding, note)
    return Picture(figure, caption, f"{finding}. {alt}")
