"""Characters that a text of a stranger may hold and that no other user's terminal may be given."""

from __future__ import annotations

import sys
import unicodedata
from typing import Final

CHARACTERS: Final = tuple(
    each
    for each in map(chr, range(sys.maxunicode + 1))
    if unicodedata.category(each) in ("Cc", "Cf", "Zl", "Zp") and ord(each) < 0x10000
)
"""Control and format characters, and separators of lines: those of the first plane."""
FORGED: Final = "job 1 is over"
"""What begins a line of its own where a newline comes through."""


def text() -> str:
    """All of them, and a forged line after those that begin one."""
    return "".join(f"{each}{FORGED} " if each in "\n\r\x0b\x0c\x85\u2028\u2029" else each for each in CHARACTERS)


def assert_harmless(shown: str) -> None:
    """See that nothing of it is left but lines, and that none of these is forged."""
    assert {each for each in shown if not each.isprintable()} <= {"\n"}
    assert not any(line.startswith(FORGED) for line in shown.splitlines())
