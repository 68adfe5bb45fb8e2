"""Reasons that are put into words only when somebody asks."""

from __future__ import annotations

from typing import TypeAlias

import msgspec


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
