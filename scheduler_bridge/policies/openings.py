"""Where a reservation could move forward to, after nodes have come free."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from scheduler_bridge.policies.profile import Profile, Span

Reach: TypeAlias = Sequence[Span]
"""Since when and until when 1, 2, 4, 8 and so on nodes are free at most, around some time: ``Profile.around``."""


class Openings:
    """When how many nodes have come free, for as long as this is so.

    A job that could not start earlier before can do so now only in one of two ways. Its nodes are free just before the
    start that it is promised, so that it slides forward. Or they are free long enough without a break before that, and
    a part of this time is in an opening. How far that reaches around an opening is measured once: nodes that are taken
    later make it less, and those that come free later are openings of their own, measured then. It is measured for
    powers of two: no job reaches further than the next lower one. So nearly all jobs that stay where they are do so
    after a look at the step before their start, and at one length.

    Args:
        profile: The nodes that are free, when it is asked.
        measured: How far openings reached in the pass before, when they came to be.
        freed: From when until when (seconds) nodes came free since.
        now: What came free before does not count.
        until_s: By the number of nodes that a job needs, the latest start that one is promised.

    Attributes:
        new: How far those reach that were added later.
    """

    def __init__(
        self,
        profile: Profile,
        measured: Iterable[Reach],
        freed: Iterable[Span],
        now: float,
        until_s: Mapping[int, float],
    ) -> None:
        self._profile = profile
        self._now = now
        rows = max(until_s, default=0).bit_length()
        self._until_s = [now] * rows
        for nodes, last_s in until_s.items():
            row = nodes.bit_length() - 1
            if last_s > self._until_s[row]:
                self._until_s[row] = last_s
        self._spans: list[list[Span]] = [[] for _ in range(rows)]
        self._longest_s = [0.0] * rows
        self._any = False
        for reach in measured:
            self._any = True
            self._enter(reach)
        self.new: list[Reach] = []
        for start_s, end_s in freed:
            self.add(start_s, end_s)
        self.new.clear()

    def __bool__(self) -> bool:
        return self._any

    def add(self, start_s: float, end_s: float) -> None:
        """Note that nodes have come free."""
        if end_s > self._now:
            reach = self._profile.around(max(start_s, self._now), end_s)
            self._any = True
            if reach:
                self.new.append(reach)
                self._enter(reach)

    def _enter(self, reach: Reach) -> None:
        """Enter what may be of use to some job."""
        now = self._now
        for row, (opens_s, closes_s) in enumerate(reach[: len(self._spans)]):
            length_s = min(closes_s, self._until_s[row]) - max(opens_s, now)
            if length_s <= 0:
                continue
            spans = self._spans[row]
            if spans and spans[-1][0] <= opens_s and closes_s <= spans[-1][1]:
                continue
            spans.append((opens_s, closes_s))
            if length_s > self._longest_s[row]:
                self._longest_s[row] = length_s

    def first(self, nodes: int, duration_s: float, start_s: float) -> float:
        """When a job can start instead of at ``start_s``, which it is promised; infinite: it stays there.

        Args:
            nodes: What it needs.
            duration_s: How long it takes, in seconds.
            start_s: What it is promised; its own nodes are not free in the profile from then on.
        """
        slides_s = self._profile.since(nodes, start_s)
        row = nodes.bit_length() - 1
        if duration_s > self._longest_s[row]:
            return slides_s
        fits_s = [
            opens_s
            for opens_s, closes_s in self._spans[row]
            if opens_s + duration_s <= start_s and opens_s + duration_s <= closes_s
        ]
        if not fits_s:
            return slides_s
        return min(slides_s, self._profile.sooner(nodes, duration_s, min(fits_s), start_s))
