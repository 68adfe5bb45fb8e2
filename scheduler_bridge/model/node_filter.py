"""Some of the nodes, by their names."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final


@dataclass(frozen=True, slots=True)
class NodeFilter:
    """The nodes whose names one of some patterns matches, as shells match file names: ``*``, ``?``, ``[0-3]``.

    Attributes:
        patterns: At least one.
    """

    patterns: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> NodeFilter:
        """Read patterns that commas separate.

        Raises:
            ValueError: One of them is empty.
        """
        patterns = tuple(pattern.strip() for pattern in text.split(","))
        if not all(patterns):
            raise ValueError(f"{text!r} has an empty pattern")
        return cls(patterns)

    @property
    def is_all(self) -> bool:
        """Whether it is known, without a look at any name, that no node is left out."""
        return "*" in self.patterns

    def __contains__(self, node: str) -> bool:
        return any(fnmatchcase(node, pattern) for pattern in self.patterns)


EVERY_NODE: Final = NodeFilter(("*",))
"""No node is left out."""
