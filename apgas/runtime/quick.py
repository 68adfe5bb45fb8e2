"""Which functions return at once, by experience: those are run by the io thread itself, without a change of threads."""

from __future__ import annotations

from types import BuiltinFunctionType, CodeType
from typing import Final

QUICK_S: Final = 200e-6
"""A call that returns within this time was quick."""
TRUSTED: Final = 2
"""So many quick calls are needed before a function is trusted to be."""
_MOST: Final = 4096
"""Functions remembered; beyond it all are forgotten, for a program that makes so many has no use for the memory."""


class QuickFunctions:
    """Counts the quick calls of each function; one slow call outweighs eight. Functions are known by their code."""

    def __init__(self) -> None:
        self._scores: dict[int, int] = {}
        self._known: dict[int, object] = {}

    def expects(self, fn: object) -> bool:
        """Tell whether ``fn`` is expected to return at once."""
        return self._scores.get(id(getattr(fn, "__code__", fn)), 0) >= TRUSTED

    def doubt(self, fn: object) -> None:
        """Expect no call of ``fn`` to return at once while one is under way: ``learn`` trusts it again if that did."""
        self._scores[id(getattr(fn, "__code__", fn))] = TRUSTED - 1

    def learn(self, fn: object, seconds: float) -> None:
        """Take note of how long a call of ``fn`` took. Any thread: a score that gets lost now and then does no harm."""
        key = getattr(fn, "__code__", fn)
        if not isinstance(key, CodeType | BuiltinFunctionType):
            return
        score = self._scores.get(id(key), 0)
        if seconds > QUICK_S:
            score = max(-8, score - 8)
        elif score < TRUSTED:
            score += 1
        else:
            return
        if id(key) not in self._known:
            if len(self._known) >= _MOST:
                self._scores.clear()
                self._known.clear()
            self._known[id(key)] = key
        self._scores[id(key)] = score
