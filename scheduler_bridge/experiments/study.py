"""The engine of the studies: means of what was simulated, the language of claims, tables and figures of both.

A study simulates its cells (``sweep``), takes means over the rows, and judges the claims of its paper, which are in the
file ``claims.toml`` of its folder. The rules by which claims are judged are here; which means a claim is about, the
study says.
"""

from __future__ import annotations

import itertools
import statistics
import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from scheduler_bridge.experiments.study_report import DataTable, Picture, Value
from scheduler_bridge.experiments.sweep import Figures, Row
from scheduler_bridge.report.charts import BarRow, draw_bar_table, say

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

    def find(self, claim: Claim) -> float | None:
        """The mean that a claim is about."""
        return self.get(claim["workload"], claim["policy"], claim["measure"], claim.get("share"))


def change(before: float | None, after: float | None) -> float | None:
    """From one mean to another, in percent; None: there is none, or nothing to compare with."""
    return None if not before or after is None else percent(before, after)


# Claims --------------------------------------------------------------------------------------------------------------
#
# A claim is an entry of the file ``claims.toml`` in a study's folder. It says what it is about: a ``workload``, a
# ``policy``, a ``share`` of malleable jobs and a ``measure``; where it lists several, it is about all of them. ``than``
# has what is another in the mean that it is compared with. What it leaves out stands in the file's ``usual``. ``text``
# is the claim in words, ``where`` its place in the paper. An entry with ``columns`` stands for several claims: its
# ``rows`` have a value for each of these, and the rest of it in common. ``rule`` says how a claim is judged:
#
# =========  =========================================================================================================
# change     from the mean that it is compared with, in percent, is as ``printed``, by itself or by both means: [from,
#            to]; ``still``: hardly anything changes
# times      how many times lower it is than the mean that it is compared with; ``still`` as in a change
# first      ``policy`` (or what ``axis`` names) is the first of those that it is ``among``, by its mean, or by ``of``:
#            the change or the distance in points; the lowest one, or the ``highest``; a mean is written by ``form``,
#            and if that is empty, only the first one is named
# lower      all changes are below zero
# falls      each mean is below the one before it
# level      a share in percent is as printed
# amount     a number is as printed
# more       on each workload, all of its policies have more than all of those that it is compared with, in percent;
#            or in points, if the means are in percent themselves
# same       all changes are so small that they do not matter
# alike      so are, on each workload, the differences between its policies
# =========  =========================================================================================================
#
# A study may add rules of its own. A claim that needs a mean which is not there is not judged.

Word: TypeAlias = Literal["held", "right direction", "differs", "not judged"]
Claim: TypeAlias = Mapping[str, Any]
"""An entry of a claims file, with what is usual; or what it says of one of its means."""
TOLERANCE: Final = 5.0
"""In points: a change is held where it has the printed direction and is no farther away from the printed one."""
FACTOR: Final = 2.0
"""How many times a change in the right direction is at most larger, or smaller, than the printed one."""
LEVEL: Final = 3.0
"""In points: a share or a utilization, which is no change, is held where it is no farther away from the printed one."""
FAR: Final = 10.0
"""In percent: where a mean of a workload is farther away from the printed one, that may be why a claim is not held."""
HOW_JUDGED: Final = (
    f"A change is held where it has the printed direction and is at most {TOLERANCE:g} points away from the printed "
    f"one; farther away, the direction is right up to a factor of {FACTOR:g}, and beyond it the claim differs. Where "
    "the claim is that hardly anything changes, it has no direction. An order is held where it is that of all policies."
)
"""For the remarks of a study."""
CLAIM_COLUMNS: Final = ("claim", "printed", "found", "verdict", "what is known of the reason")
_AXES: Final = ("workload", "policy", "share")


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
    """Read ``claims.toml`` in a study's folder: each claim with what is usual, and what else the paper prints."""
    found = tomllib.loads(files(package).joinpath("claims.toml").read_text(encoding="utf-8"))
    for kind, usual in (("claim", found.get("usual", {})), ("real", {})):
        found[kind] = [usual | claim for entry in found.get(kind, ()) for claim in _claims_of(entry)]
    return found


def _claims_of(entry: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The claim that an entry is, or those of its rows."""
    columns = entry.pop("columns", ())
    for row in entry.pop("rows", [()]):
        yield entry | dict(zip(columns, row, strict=True))


class Missing(LookupError):
    """A claim cannot be judged; the text, if there is one, stands in the place of what was found."""


Rule: TypeAlias = tuple[Callable[[Claim], Value], Callable[["Judge", Claim], tuple[Value, Word]]]
"""Words what a claim says, and judges it: what is found, and the verdict."""


@dataclass(frozen=True, slots=True)
class Judge:
    """Judges claims by the means that a study has found.

    Attributes:
        find: The mean that a claim is about; None: there is none.
        rules: All that occur in the claims.
        names: Of the workloads that are there, by what claims call them; None: claims have these names.
        shares: Those that are there of what claims list; None: all.
        note: Says beside a change of what it was found.
        in_percent: Whether the means that a claim is about are in percent.
    """

    find: Callable[[Claim], float | None]
    rules: Mapping[str, Rule] = field(default_factory=lambda: RULES)
    names: Mapping[Any, str] | None = None
    shares: Collection[int] | None = None
    note: Callable[[Claim], str] = lambda _: ""
    in_percent: Callable[[Claim], bool] = lambda _: False

    def judged(self, claim: Claim) -> Judged:
        """Judge a claim by its rule."""
        words, rule = self.rules[claim["rule"]]
        printed = words(claim)
        try:
            return Judged(printed, *rule(self, claim))
        except Missing as missing:
            return Judged(printed, None if isinstance(printed, float) else str(missing) or "-", "not judged")

    def verdicts(
        self,
        claims: Iterable[Claim],
        reason: Callable[[Claim], str],
        *,
        where: Callable[[Claim], tuple[Value, ...]] = lambda _: (),
        beside: Callable[[Claim], tuple[Value, ...]] = lambda _: (),
    ) -> list[ClaimVerdict]:
        """Judge claims; ``reason`` says what is known of why one does not hold, for the others see ``ClaimVerdict``."""
        found = []
        for claim in claims:
            judged = self.judged(claim)
            why = "" if judged.word in ("held", "not judged") else reason(claim)
            found.append(ClaimVerdict(claim["text"], *judged, why, where(claim), beside(claim)))
        return found

    def each(self, claim: Claim) -> Sequence[Claim]:
        """The claim, once for each of the means that it is about.

        Raises:
            Missing: Nothing of what it lists is there.
        """
        there = {"workload": self.names, "share": self.shares}
        listed = {
            axis: [one for one in values if (known := there.get(axis)) is None or one in known]
            for axis in _AXES
            if isinstance(values := claim.get(axis), list)
        }
        if not all(listed.values()):
            raise Missing
        return [{**claim, **dict(zip(listed, one, strict=True))} for one in itertools.product(*listed.values())]

    def means(self, claim: Claim) -> list[float]:
        """What is found of all that a claim is about.

        Raises:
            Missing: Something is not.
        """
        names = self.names
        at = (one if names is None else {**one, "workload": names.get(one["workload"], "")} for one in self.each(claim))
        if not (found := known_of(map(self.find, at))):
            raise Missing
        return found

    def mean(self, claim: Claim) -> float:
        """The mean of all that a claim is about, see ``means``."""
        return statistics.fmean(self.means(claim))

    def base(self, claim: Claim) -> float:
        """The mean that a claim is compared with."""
        return self.mean({**claim, **claim["than"]})

    def change(self, claim: Claim) -> float:
        """From the mean that a claim is compared with to the one that it is about, in percent."""
        return percent(self.base(claim), self.mean(claim))

    def distance(self, claim: Claim) -> float:
        """Between both, in points."""
        return abs(self.mean(claim) - self.base(claim))

    def label(self, claim: Claim) -> str:
        """What a claim is about, in words."""
        workload, share = claim["workload"], claim.get("share")
        name = workload if self.names is None else self.names[workload]
        return f"{name}, {claim['policy']}{'' if share is None else f' at {share} %'}"


def percent(before: float, after: float) -> float:
    """From one mean to another.

    Raises:
        Missing: There is nothing to compare with.
    """
    if not before:
        raise Missing("nothing to compare with")
    return 100 * (after / before - 1)


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


def several(of: Any) -> list[Any]:
    """All that a claim lists, or the one that it names."""
    return of if isinstance(of, list) else [of]


def held(so: bool) -> Word:
    """The verdict on what is so or not."""
    return "held" if so else "differs"


def _wanted(claim: Claim) -> float:
    """What is printed of a change, in percent; or what follows from both means, where these are printed."""
    printed = claim["printed"]
    return percent(*printed) if isinstance(printed, list) else float(printed)


def _worded(claim: Claim) -> Value:
    """The same as a number where it follows from the means, so that it has a column of its own; else in words."""
    wanted = _wanted(claim)
    return wanted if isinstance(claim["printed"], list) else f"{wanted:+.1f} %"


def _change(by: Judge, claim: Claim) -> tuple[Value, Word]:
    found = by.change(claim)
    word = word_for(found, _wanted(claim), still=claim.get("still", False))
    return found if isinstance(claim["printed"], list) else f"{found:+.1f} %{by.note(claim)}", word


def _times(by: Judge, claim: Claim) -> tuple[Value, Word]:
    low, high = by.mean(claim), by.base(claim)
    if not low or not high:
        raise Missing("0.00" if low else "")
    return f"{high / low:.2f}", word_for_times(high / low, claim["printed"], still=claim.get("still", False))


def _first(by: Judge, claim: Claim) -> tuple[Value, Word]:
    """Where all are equal, none is the first."""
    of, axis = claim.get("of", "mean"), claim.get("axis", "policy")
    form = {"mean": claim.get("form", "{:,.1f}"), "change": "{:+.1f} %", "distance": "{:.1f} points"}[of]
    values = {name: getattr(by, of)({**claim, axis: name}) for name in claim["among"]}
    ranked = sorted(values.items(), key=lambda one: one[1], reverse=claim.get("highest", False))
    extreme = [name for name, value in ranked if value == ranked[0][1]]
    if len(extreme) == len(ranked) > 1:
        raise Missing(f"all the same: {(form or '{}').format(ranked[0][1])}")
    found = ", ".join(f"{name} {form.format(value)}" for name, value in ranked) if form else ", ".join(extreme)
    return found, held(extreme == [claim[axis]])


def _lower(by: Judge, claim: Claim) -> tuple[Value, Word]:
    changes = {by.label(one): by.change(one) for one in by.each(claim)}
    higher = "; ".join(f"{name} {value:+.1f} %" for name, value in changes.items() if value >= 0)
    ends = f"{min(changes.values()):+.1f} to {max(changes.values()):+.1f} %"
    return f"{ends}{'; not ' if higher else ''}{higher}", held(not higher)


def _falls(by: Judge, claim: Claim) -> tuple[Value, Word]:
    return falling(by.means(claim), "{:,.1f}")


def falling(means: Sequence[float], form: str) -> tuple[Value, Word]:
    """Each mean is below the one before it; ``form`` words one."""
    if len(means) < 2:
        raise Missing
    falls = all(after < before for before, after in itertools.pairwise(means))
    return ", ".join(map(form.format, means)), held(falls)


def _level(by: Judge, claim: Claim) -> tuple[Value, Word]:
    found = by.means(claim)
    least = "" if len(found) == 1 else f"{min(found):.1f} to "
    return f"{least}{max(found):.1f} %", held(all(abs(value - claim["printed"]) <= LEVEL for value in found))


def _amount(by: Judge, claim: Claim) -> tuple[Value, Word]:
    """Up to as many percent as a change may be points away, or within the factor; of several shares, the mean."""
    printed, words, found = claim["printed"], list[Word](), []
    for policy in several(claim["policy"]):
        value = by.mean({**claim, "policy": policy})
        near = abs(value - printed) <= TOLERANCE / 100 * printed
        far = value > FACTOR * printed or printed > FACTOR * value
        words.append("held" if near else "differs" if far else "right direction")
        found.append(f"{policy} {value:.1f}")
    return ", ".join(found), min(words, key=_WORST_FIRST.index)


def _more(by: Judge, claim: Claim) -> tuple[Value, Word]:
    """Found is the smallest lead on each workload, in percent or points."""
    leads, points = [], by.in_percent(claim)
    for workload in several(claim["workload"]):
        one = {**claim, "workload": workload}
        low, high = min(by.means(one)), max(by.means({**one, **claim["than"]}))
        leads.append(low - high if points else percent(high, low))
    return _listed(leads, "points" if points else "%"), held(all(lead > 0 for lead in leads))


def _same(by: Judge, claim: Claim) -> tuple[Value, Word]:
    return _unchanged([by.change(one) for one in by.each(claim)])


def _alike(by: Judge, claim: Claim) -> tuple[Value, Word]:
    each = [by.means({**claim, "workload": workload}) for workload in several(claim["workload"])]
    return _unchanged([percent(min(means), max(means)) for means in each])


def _unchanged(changes: Sequence[float]) -> tuple[Value, Word]:
    return _listed(changes, "%"), held(all(word_for(change, 0.0) == "held" for change in changes))


def _listed(values: Iterable[float], unit: str) -> str:
    return ", ".join(f"{value:+.1f} {unit}" for value in values)


RULES: Final[dict[str, Rule]] = {
    "change": (_worded, _change),
    "times": (lambda claim: f"{claim['printed']:.2f}", _times),
    "first": (lambda claim: claim[claim.get("axis", "policy")], _first),
    "lower": (lambda _: "< 0 %", _lower),
    "falls": (lambda claim: " > ".join(several(claim["policy"])), _falls),
    "level": (lambda claim: f"{claim['printed']:.1f} %", _level),
    "amount": (lambda claim: f"{claim['printed']:g}", _amount),
    "more": (lambda _: "more", _more),
    "same": (lambda _: "0 %", _same),
    "alike": (lambda _: "0 %", _alike),
}
"""By name."""


def far_off(printed: Mapping[str, float], here: Callable[[str], float | None], whose: str) -> list[str]:
    """Which means of a workload, in words, are so far away from the printed ones that it is another one."""
    return [
        f"{whose} {measure.removesuffix('_s')} is {found:,.0f}, printed {value:,.0f}"
        for measure, value in printed.items()
        if (found := here(measure)) is not None and abs(found / value - 1) > FAR / 100
    ]


def known_of(values: Iterable[float | None]) -> list[float]:
    """The values if all are known, else none of them."""
    found = list(values)
    known = [value for value in found if value is not None]
    return known if len(known) == len(found) else []


def counted(verdicts: Iterable[ClaimVerdict]) -> str:
    """How many claims are held, for the verdict of the study."""
    words = [verdict.word for verdict in verdicts if verdict.word != "not judged"]
    return (
        f"{words.count('held')} of {len(words)} claims of the paper are held, {words.count('right direction')} more "
        f"go in the right direction, {words.count('differs')} differ"
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
    figure = draw_bar_table(columns, rows, form)
    say(figure, finding, note)
    return Picture(figure, caption, f"{finding}. {alt}")
