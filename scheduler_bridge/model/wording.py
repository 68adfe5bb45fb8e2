"""The sentences that people read: numbers of nodes, times, and reasons."""

from __future__ import annotations

from typing import Final, TypeAlias

import msgspec


def nodes(count: int) -> str:
    """Word a number of nodes: ``1 node``, ``2 nodes``."""
    return "1 node" if count == 1 else f"{count} nodes"


def are(count: int) -> str:
    """Word that this number (of nodes) are: ``1 is``, ``2 are``."""
    return f"{count} {'is' if count == 1 else 'are'}"


def ordinal(number: int) -> str:
    """Word a place in an order: ``1st``, ``12th``."""
    last = 0 if number % 100 in (11, 12, 13) else number % 10
    return f"{number}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(last, 'th') }"


def seconds(value_s: float) -> str:
    """Word a time to a tenth of a second, however long it is: ``100 s``, ``2419200.5 s``."""
    return f"{value_s:.1f}".removesuffix(".0") + " s"


# Reasons, which are put into words only when somebody asks ------------------------------------------------------------


class Because(msgspec.Struct, frozen=True, gc=False):
    """A sentence with gaps, and what fills them; ``str`` puts them together.

    Attributes:
        sentence: As for ``str.format``.
        parts: What fills the gaps: immutable, with a text of its own.
    """

    sentence: str
    parts: tuple[object, ...]

    def __str__(self) -> str:
        return self.sentence.format(*self.parts)


Reason: TypeAlias = str | Because
"""Why something was decided; ``str(reason)`` is the sentence."""

ORDERED: Final = "ordered to {} by {}: {}"
"""What the history of a job says of an order: its kind, nodes and reason. The live page finds the reason by it."""
