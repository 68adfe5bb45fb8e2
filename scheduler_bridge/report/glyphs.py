"""What the font of the pictures can draw: names come from users, and may hold anything."""

from __future__ import annotations

from functools import cache

from matplotlib import font_manager


def drawable(text: str) -> str:
    """Return ``text`` with a question mark for each character that the font lacks, and on one line."""
    known = _known()
    return "".join(character if ord(character) in known else "?" for character in " ".join(text.split()))


@cache
def _known() -> frozenset[int]:
    font = font_manager.get_font(font_manager.findfont(font_manager.FontProperties()))
    return frozenset(font.get_charmap())
