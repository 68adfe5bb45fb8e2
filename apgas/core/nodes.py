"""Which places share a node: orders count nodes, and a node comes and goes as a whole.

A node is ``places_per_node`` places that were started together: for the first world those with one host name, in the
order of their ids; for newcomers those that stand next to each other. Several nodes may have one name (one machine).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from apgas.core.messages import PlaceInfo
from apgas.errors import UsageError


class Nodes:
    """The nodes of a job.

    Args:
        members: The members of the job, which change meanwhile.
        places_per_node: How many places share a node.

    Raises:
        UsageError: The present members do not fill their nodes.
    """

    def __init__(self, members: Mapping[int, PlaceInfo], places_per_node: int = 1) -> None:
        if places_per_node < 1:
            raise UsageError(f"there cannot be {places_per_node} places per node")
        self.places_per_node = places_per_node
        self._members = members
        self._of: dict[int, int] = {}
        by_name: dict[str, list[int]] = {}
        for place, info in sorted(members.items()):
            by_name.setdefault(info.node, []).append(place)
        for name, places in by_name.items():
            if len(places) % places_per_node:
                raise UsageError(
                    f"host {name} has {len(places)} places, which do not make nodes of {places_per_node}:"
                    f" start a multiple of {places_per_node} on each host"
                )
            self._number(places)

    def __len__(self) -> int:
        return len(self.held())

    def held(self) -> list[tuple[int, ...]]:
        """The places of each node, by id; the node of place 0 first. A node may have lost some of its places."""
        nodes: dict[int, list[int]] = {}
        for place in sorted(self._members):
            nodes.setdefault(self._of.get(place, place), []).append(place)
        return [tuple(places) for places in nodes.values()]

    def is_gone(self, place: int) -> bool:
        """Whether no place is left on the node that ``place`` was on."""
        node = self._of.get(place, place)
        return all(self._of.get(member, member) != node for member in self._members)

    def names(self) -> tuple[str, ...]:
        """The host name of each node."""
        return tuple(self._members[places[0]].node for places in self.held())

    def admit(self, added: Sequence[PlaceInfo]) -> None:
        """Learn newcomers, of which those of one node stand next to each other."""
        self._number([info.place for info in added])

    def with_place_0(self) -> tuple[int, ...]:
        """The places of the node that always stays."""
        return self.held()[0]

    def complaint(self, leavers: Iterable[int], count: int) -> str:
        """Why members cannot leave as ``count`` nodes; empty: they can."""
        chosen = set(leavers)
        beside = sorted(chosen.intersection(self.with_place_0()))
        if beside:
            return f"preShrink named place {beside[0]} on the node of place 0, which always stays"
        touched = [set(places) for places in self.held() if chosen.intersection(places)]
        for places in touched:
            if not places <= chosen:
                forgotten = sorted(places - chosen)
                return f"preShrink named {sorted(places & chosen)}, but not {forgotten} of the same node"
        if len(touched) != count:
            if self.places_per_node == 1:
                return f"preShrink named {len(chosen)} places instead of {count}"
            return f"preShrink named {len(chosen)} places of {len(touched)} nodes instead of all places of {count}"
        return ""

    def names_of(self, places: Iterable[int]) -> tuple[str, ...]:
        """The host names of the nodes that some members make up, one for each node."""
        first: dict[int, str] = {}
        for place in sorted(places):
            first.setdefault(self._of.get(place, place), self._members[place].node)
        return tuple(first.values())

    def _number(self, places: Sequence[int]) -> None:
        # a node is known by its first place: ids are not used twice
        for index, place in enumerate(places):
            self._of[place] = places[index - index % self.places_per_node]
