"""The nodes that a job holds now."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Allotment:
    """Whole nodes, in the order in which the job got them; place 0 lives on the first one.

    Raises:
        ValueError: A node is named twice.
    """

    nodes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if len(set(self.nodes)) != len(self.nodes):
            raise ValueError(f"a node is named twice in {self.nodes}")

    def __len__(self) -> int:
        return len(self.nodes)

    def __iter__(self) -> Iterator[str]:
        return iter(self.nodes)

    def __contains__(self, node: object) -> bool:
        return node in self.nodes

    def plus(self, nodes: Iterable[str]) -> Allotment:
        """The allotment with ``nodes`` added at the end.

        Raises:
            ValueError: One of them is there already.
        """
        return Allotment(self.nodes + tuple(nodes))

    def minus(self, nodes: Iterable[str]) -> Allotment:
        """The allotment without ``nodes``.

        Raises:
            ValueError: One of them is not there.
        """
        gone = set(nodes)
        if missing := gone.difference(self.nodes):
            raise ValueError(f"{', '.join(sorted(missing))} not in the allotment {self.nodes}")
        return Allotment(tuple(node for node in self.nodes if node not in gone))
