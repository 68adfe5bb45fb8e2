"""Where a reservation could move forward to, after nodes have come free."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Mapping

from scheduler_bridge.policies.profile import Profile, Span


class Openings:
    """When how many nodes have come free, for as long as this is so.

    A job that could not start earlier before can do so now only where a part of the time is in an opening.

    Args:
        profile: The nodes that are free, when it is asked.
        freed: From when until when (seconds) some came free.
        now: What came free before does not count.
        until_s: Nor does, by the number of nodes that a job needs, what came free after.
    """

    def __init__(self, profile: Profile, freed: Iterable[Span], now: float, until_s: Mapping[int, float]) -> None:
        self._profile = profile
        self._now = now
        self._until_s = until_s
        self._freed: list[tuple[float, float, int]] = []  # and the most nodes that are free then
        self._known: dict[int, tuple[int, list[Span]]] = {}
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
        """When a job can start instead of at ``start_s``, which it is promised; infinite: it stays there.

        Args:
            nodes: What it needs.
            duration_s: How long it takes, in seconds.
            start_s: What it is promised; its own nodes are not free in the profile from then on.
        """
        spans = self._of(nodes)
        index = 0
        while index < len(spans):
            opens_s, closes_s = spans[index]
            if opens_s >= start_s:
                break
            if start_s <= closes_s or opens_s + duration_s <= closes_s:
                if self._profile.room(opens_s, min(opens_s + duration_s, start_s)) >= nodes:
                    return opens_s
                spans[index : index + 1] = self._still_free(nodes, opens_s, closes_s)
            else:
                index += 1
        return math.inf

    def _of(self, nodes: int) -> list[Span]:
        """When so many nodes are free, or were, for a time of which some came free: one after the other."""
        seen, spans = self._known.get(nodes, (0, []))
        if seen < len(self._freed):
            until_s = self._until_s[nodes]
            useful = [(start_s, min(end_s, until_s)) for start_s, end_s, most in self._freed[seen:] if most >= nodes]
            for start_s, end_s in _united([span for span in useful if span[0] < span[1]]):
                for span in self._profile.spans(nodes, start_s, end_s):
                    self._enter(spans, nodes, span)
            self._known[nodes] = len(self._freed), spans
        return spans

    def _enter(self, spans: list[Span], nodes: int, span: Span) -> None:
        """Enter a span; others that it meets are looked at again."""
        first = bisect_left(spans, span)
        if first > 0 and spans[first - 1][1] > span[0]:
            first -= 1
        behind = first
        while behind < len(spans) and spans[behind][0] < span[1]:
            behind += 1
        if first == behind:
            spans.insert(first, span)
        elif behind - first > 1 or spans[first] != span:
            start_s, end_s = min(span[0], spans[first][0]), max(span[1], spans[behind - 1][1])
            spans[first:behind] = self._still_free(nodes, start_s, end_s)

    def _still_free(self, nodes: int, start_s: float, end_s: float) -> list[Span]:
        spans = self._profile.spans(nodes, start_s, end_s)
        return [(max(start_s, opens_s), min(end_s, closes_s)) for opens_s, closes_s in spans]


def _united(spans: list[Span]) -> list[Span]:
    """The spans in their order, those that meet as one."""
    if len(spans) < 2:
        return spans
    spans.sort()
    found = spans[:1]
    for start_s, end_s in spans[1:]:
        if start_s > found[-1][1]:
            found.append((start_s, end_s))
        elif end_s > found[-1][1]:
            found[-1] = found[-1][0], end_s
    return found
