"""Where a reservation could move forward to, after nodes have come free."""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Iterable, Mapping

from scheduler_bridge.policies.profile import Profile


class Openings:
    """When how many nodes have come free, for as long as this is so.

    A job that could not start earlier before can do so now only where a part of the time is in an opening. What is
    taken from the profile later does not close an opening: that a job may fit is to be seen by trying.

    Args:
        profile: The nodes that are free, when it is asked.
        freed: From when until when (seconds) some came free.
        now: What came free before does not count.
        until_s: Nor does, by the number of nodes that a job needs, what came free after.
    """

    def __init__(
        self, profile: Profile, freed: Iterable[tuple[float, float]], now: float, until_s: Mapping[int, float]
    ) -> None:
        self._profile = profile
        self._now = now
        self._until_s = until_s
        self._freed: list[tuple[float, float, int]] = []  # and the most nodes that are free then
        self._known: dict[int, tuple[int, list[tuple[float, float]]]] = {}
        for start_s, end_s in freed:
            self.add(start_s, end_s)

    def __bool__(self) -> bool:
        return bool(self._freed)

    def add(self, start_s: float, end_s: float) -> None:
        """Note that nodes have come free."""
        if end_s > self._now:
            start_s = max(start_s, self._now)
            self._freed.append((start_s, end_s, self._profile.most(start_s, end_s)))

    def first(self, nodes: int, duration_s: float, start_s: float) -> float:
        """Before when a job surely cannot start that is promised to start at ``start_s``; infinite: it stays there.

        Args:
            nodes: What it needs.
            duration_s: How long it takes, in seconds.
            start_s: What it is promised; its own nodes are not free in the profile from then on.
        """
        for opens_s, closes_s in self._of(nodes):
            if opens_s >= start_s:
                break
            if start_s <= closes_s or opens_s + duration_s <= closes_s:
                return opens_s
        return math.inf

    def _of(self, nodes: int) -> list[tuple[float, float]]:
        """When so many nodes are free, for a time of which some came free; in order."""
        seen, spans = self._known.get(nodes, (0, []))
        if seen < len(self._freed):
            until_s = self._until_s[nodes]
            useful = [
                [span[0], min(span[1], until_s)]
                for span in self._freed[seen:]
                if span[2] >= nodes and span[0] < until_s
            ]
            for start_s, end_s in _united(useful):
                for span in self._profile.spans(nodes, start_s, end_s):
                    if span not in spans:
                        insort(spans, span)
            self._known[nodes] = len(self._freed), spans
        return spans


def _united(spans: list[list[float]]) -> list[list[float]]:
    """The spans in their order, those that meet as one."""
    if len(spans) < 2:
        return spans
    spans.sort()
    found = spans[:1]
    for start_s, end_s in spans[1:]:
        if start_s > found[-1][1]:
            found.append([start_s, end_s])
        elif end_s > found[-1][1]:
            found[-1][1] = end_s
    return found
