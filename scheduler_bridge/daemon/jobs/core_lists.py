"""The lists of a job's cores that it is sent: one list where one will do, else one for each node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import and_
from typing import Final

from apgas.malleability import core_ids as words
from scheduler_bridge.model.allocation import listed

MOST_CHARACTERS: Final = 32 * 1024
"""Lists by node that are longer together are not sent: a message has 64 KiB. [D] The job knows the number then."""


@dataclass(frozen=True, slots=True)
class Lists:
    """Lists of core ids: of every node, or by node; neither: nothing is sent."""

    everywhere: str = ""
    by_node: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return words.text(self.everywhere, self.by_node)


NO_LISTS: Final = Lists()


def lists(nodes: Sequence[str], core_ids: Sequence[int]) -> Lists:
    """Return the lists for a job that may use ``core_ids`` (bitsets) of ``nodes``.

    A job computes with as many threads on each node as it has cores where they are fewest. If as many cores are its on
    all nodes, it is sent these.
    """
    if not core_ids:
        return NO_LISTS
    common = reduce(and_, core_ids)
    if common.bit_count() >= min(ids.bit_count() for ids in core_ids):
        return Lists(listed(common))
    by_node = {node: listed(ids) for node, ids in zip(nodes, core_ids, strict=True)}
    length = sum(len(node) + len(ids) + 6 for node, ids in by_node.items())  # 6: quotes, colon, comma
    return Lists(by_node=by_node) if length <= MOST_CHARACTERS else NO_LISTS
