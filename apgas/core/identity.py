"""Places as programs see them."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, order=True, slots=True)
class Place:
    """A process of the program.

    Attributes:
        id: Unique in the program and never reused.
        node: The name of the node that it runs on.
    """

    id: int
    node: str = field(default="", compare=False)

    def __str__(self) -> str:
        return f"place({self.id})"
