"""A paper's claim beside what was found, in one word."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

Word: TypeAlias = Literal["holds", "same sign", "differs", "not judged"]
TOLERANCE: Final = 10.0
"""A change holds where it has the printed sign and is at most so many points away from the printed one."""
CLOSE: Final = 3.0
"""So close, in points, the sign does not matter: what hardly changes may change either way."""


def word_for(found: float, printed: float, tolerance: float = TOLERANCE) -> Word:
    """Judge a change in percent by the printed one, which may be ``tolerance`` points away."""
    apart, alike = abs(found - printed), found * printed > 0
    if apart <= (tolerance if alike else CLOSE):
        return "holds"
    return "same sign" if alike else "differs"


def counted(words: list[Word]) -> str:
    """How many claims hold, for the verdict."""
    judged = [word for word in words if word != "not judged"]
    alike = judged.count("same sign")
    return (
        f"{judged.count('holds')} of {len(judged)} claims of the paper hold, {alike} more by their sign alone, "
        f"{judged.count('differs')} differ"
    )
