"""Which node is free, held by which job, or out of service."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, TypeAlias, overload

from mypy_extensions import mypyc_attr

from scheduler_bridge.model import Allocation
from scheduler_bridge.model.allocation import lowest, members, runs

NodeState: TypeAlias = Literal["idle", "busy", "draining", "down"]
"""What a node is doing. One that is draining is out of service, and a job still holds it."""


@mypyc_attr(allow_interpreted_subclasses=True, serializable=True)  # it is pickled; one goes with the other
class NumberedNodes(Sequence[str]):
    """The names ``n0000``, ``n0001`` and so on, made when they are asked for: a million of them would take 150 MB."""

    def __init__(self, count: int) -> None:
        self._count = count

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return [f"n{rank:04d}" for rank in range(self._count)[index]]
        return f"n{range(self._count)[index]:04d}"

    def __contains__(self, node: object) -> bool:
        return isinstance(node, str) and self.rank(node) is not None

    def rank(self, node: str) -> int | None:
        """The place of a name among them; None if it is none of them."""
        digits = node[1:]
        if not (digits.isascii() and digits.isdigit()) or (rank := int(digits)) >= self._count or node != self[rank]:
            return None
        return rank


@mypyc_attr(allow_interpreted_subclasses=True, serializable=True)  # it is pickled; one goes with the other
class NodePool:
    """The nodes of the cluster. Always hands out the free nodes that were named first.

    A node's rank is its place among the names; sets of nodes are bitsets of ranks. A node is held by the job in whose
    set it is, out of service if it is among those that are down, and free if neither. One that is to leave is down as
    well; when it has left it keeps its rank, but is not reported any more.

    A node that is *lent* can be taken back at any time. It never counts as free or in service, so no policy sees it and
    no job starts there; jobs that can leave it again get it by ``lend``.

    Args:
        nodes: All nodes, in the order of preference.

    Attributes:
        names: All nodes; another object when one has left.
        all_free_ranks: The ranks of all free nodes, whether they can be taken now or not.
        down_ranks: The ranks of the nodes that are out of service.
        holdings: The ranks of the nodes that each job holds, by job, in the order in which they got their first one.
        in_service: How many nodes are free or held, and neither out of service nor lent.
        held: How many nodes jobs hold, those out of service included.
        extra: By how much the sizes of the jobs exceed the number of nodes that they hold, since they share some.
        leaving: The ranks of the nodes that are to leave, and have not left yet.
        lent: The ranks of the nodes that are lent, also of such as have left and not come back yet.

    Raises:
        ValueError: A node is named twice.
    """

    def __init__(self, nodes: Sequence[str]) -> None:
        self._numbered = nodes if isinstance(nodes, NumberedNodes) else None  # then nothing is kept of their names
        self._names: Sequence[str] = nodes if isinstance(nodes, NumberedNodes) else list(nodes)
        self._ranks = {} if self._numbered else {node: rank for rank, node in enumerate(nodes)}
        if not self._numbered and len(self._ranks) < len(self._names):
            twice = next(node for rank, node in enumerate(nodes) if self._ranks[node] != rank)
            raise ValueError(f"node {twice!r} is named twice")
        self.all_free_ranks = (1 << len(self._names)) - 1
        self.down_ranks = 0
        self.holdings: dict[int, int] = {}
        self._free_count = len(self._names)
        self.in_service = len(self._names)
        self.held = 0
        self.extra = 0
        self._shared = 0
        self.leaving = 0
        self.lent = 0
        self._gone = 0
        self.names: Sequence[str] = self._names
        self._within: int | None = None
        self._first = 0

    @property
    def ranks(self) -> int:
        """The ranks of all nodes."""
        return ((1 << len(self._names)) - 1) & ~self._gone

    @property
    def free(self) -> int:
        """How many nodes can be taken."""
        return self._free_count if self._within is None else (self.all_free_ranks & self._within).bit_count()

    def __len__(self) -> int:
        return len(self._names) - self._gone.bit_count()

    @property
    def idle_lent(self) -> int:
        """The ranks of the nodes that are lent and that no job holds."""
        idle = self.lent & ~self.down_ranks
        for ranks in self.holdings.values() if idle else ():
            idle &= ~ranks
        return idle

    @property
    def known(self) -> int:
        """How many nodes there are or ever were, but for those that are lent: those that have left may come back."""
        return len(self._names) - self.lent.bit_count()

    @property
    def staying(self) -> int:
        """How many nodes are neither lent nor to leave."""
        return (self.ranks & ~self.leaving & ~self.lent).bit_count()

    def __contains__(self, node: object) -> bool:
        rank = self._rank_of(node) if isinstance(node, str) else None
        return rank is not None and not self._gone >> rank & 1

    def _rank_of(self, node: str) -> int | None:
        return self._ranks.get(node) if self._numbered is None else self._numbered.rank(node)

    def _bit(self, node: str) -> int:
        """The set of this node alone.

        Raises:
            KeyError: There is no such node.
        """
        if (rank := self._rank_of(node)) is None:
            raise KeyError(node)
        return 1 << rank

    def name(self, allocation: Allocation) -> tuple[str, ...]:
        """The names of the nodes, in the order of the allocation."""
        names, ranks = self._names, allocation.ranks
        if len(allocation.chunks) == 1:
            first, behind = (ranks & -ranks).bit_length() - 1, ranks.bit_length()
            if behind - first == allocation.size:  # side by side
                return tuple(names[first:behind])
        found: list[str] = []
        for chunk in allocation.chunks:
            for first, behind in runs(chunk):
                found += names[first:behind]
        return tuple(found)

    def rank(self, nodes: Iterable[str]) -> int | None:
        """The ranks of the nodes; None if one of them is unknown."""
        ranks = 0
        for node in nodes:
            if (rank := self._rank_of(node)) is None:
                return None
            ranks |= 1 << rank
        return ranks

    def state(self, node: str, owners: Mapping[str, int] | None = None) -> NodeState:
        """The state of a known node; ``owners`` saves looking for its holder.

        Raises:
            KeyError: There is no such node.
        """
        bit = self._bit(node)
        if bit & self._gone:
            raise KeyError(node)
        if bit & self.all_free_ranks:
            return "idle"
        held = node in owners if owners is not None else bool(self.holders(node))
        if bit & self.down_ranks:
            return "draining" if held else "down"
        return "busy" if held else "idle"  # one that is free and lent

    def is_leaving(self, node: str) -> bool:
        """Whether the node leaves when no job holds it."""
        return bool((self.rank((node,)) or 0) & self.leaving)

    def holders(self, node: str) -> list[int]:
        """The jobs that hold the node, if there is one, in the order in which they got their first one."""
        bit = self.rank((node,)) or 0
        return [job_id for job_id, ranks in self.holdings.items() if ranks & bit]

    def owners(self) -> dict[str, int]:
        """The jobs that hold nodes, by node; the first one where several share it."""
        names = self._names
        return {names[rank]: job_id for job_id, ranks in reversed(self.holdings.items()) for rank in members(ranks)}

    def check(self) -> str:
        """What is wrong between the sets; empty if nothing is. Looks at every job that holds nodes."""
        union = count = 0
        for ranks in self.holdings.values():
            union |= ranks
            count += ranks.bit_count()
        if count != union.bit_count() + self.extra:
            return "a node is held by two jobs"
        not_counted = self.down_ranks | self.lent
        if self.all_free_ranks & (union | not_counted):
            return "a free node is held or down, or lent"
        for what, ranks, counted in (
            ("held", union, self.held),
            ("free", self.all_free_ranks, self._free_count),
            ("down or lent", not_counted, len(self._names) - self.in_service),
        ):
            if ranks.bit_count() != counted:
                return f"{ranks.bit_count()} and {counted} nodes are {what}"
        if union | self.all_free_ranks | not_counted != (1 << len(self._names)) - 1:
            return "a node is nowhere"
        if self._gone & union or (self._gone | self.leaving) & ~self.down_ranks or self._gone & self.leaving:
            return "a node that is to leave, or has left, is in use"
        return ""

    def confine(self, within: int | None, first: int = 0) -> None:
        """Let only these nodes be taken until further notice, those of ``first`` before others; None: any."""
        self._within, self._first = within, first

    def take(self, job_id: int, count: int) -> int:
        """Give the ``count`` first free nodes to a job; returns their ranks.

        Raises:
            RuntimeError: There are not as many.
        """
        if count > self.free:
            raise RuntimeError(f"job {job_id} is to get {count} nodes, {self.free} are free")
        if self._within is None:
            taken = lowest(self.all_free_ranks, count)
        else:
            free = self.all_free_ranks & self._within
            preferred = free & self._first
            taken = lowest(preferred, min(count, preferred.bit_count())) if preferred else 0
            taken |= lowest(free ^ preferred, count - taken.bit_count())
        self.all_free_ranks ^= taken
        self.holdings[job_id] = self.holdings.get(job_id, 0) | taken
        self._free_count -= count
        self.held += count
        return taken

    def lend(self, job_id: int, ranks: int) -> None:
        """Give a job nodes that are lent, and that no job holds."""
        self.holdings[job_id] = self.holdings.get(job_id, 0) | ranks
        self.held += ranks.bit_count()

    def share(self, job_id: int, ranks: int) -> None:
        """Let a job hold nodes that others hold already."""
        self.holdings[job_id] = self.holdings.get(job_id, 0) | ranks
        self._shared |= ranks
        self.extra += ranks.bit_count()

    def release(self, job_id: int, ranks: int) -> None:
        """Take nodes back from a job; those that others hold, too, stay theirs.

        Raises:
            RuntimeError: The job does not hold one of them.
        """
        held = self.holdings.get(job_id, 0)
        if strange := ranks & ~held:
            node = self._names[next(members(strange))]
            owner = next(iter(self.holders(node)), None)
            raise RuntimeError(f"job {job_id} gives back {node!r}, which job {owner} holds")
        if left := held ^ ranks:
            self.holdings[job_id] = left
        else:
            self.holdings.pop(job_id, None)
        if self._shared & ranks:
            ranks = self._part(ranks)
        back = ranks & ~(self.down_ranks | self.lent)
        self.all_free_ranks |= back
        self.held -= ranks.bit_count()
        self._free_count += back.bit_count()

    def _part(self, ranks: int) -> int:
        """Those of the nodes that a job gave back that no other holds; note which nodes one job alone has now."""
        once = twice = 0
        for held in self.holdings.values():
            twice |= once & held
            once |= held & ranks
        self.extra -= (once & ranks).bit_count()
        self._shared &= ~ranks | twice
        return ranks & ~once

    def fail(self, node: str) -> None:
        """Take a node out of service. Without effect if it is out already."""
        bit = self._bit(node)
        if not bit & self.down_ranks:
            self.down_ranks |= bit
            if not bit & self.lent:
                self.in_service -= 1
            if bit & self.all_free_ranks:
                self.all_free_ranks ^= bit
                self._free_count -= 1

    def expel(self, node: str) -> None:
        """Take a node out of service that is to leave."""
        self.fail(node)
        self.leaving |= self._bit(node)

    def vacated(self) -> tuple[str, ...]:
        """Forget the nodes that are to leave and that no job holds; return their names."""
        left = self.leaving
        for ranks in self.holdings.values():
            left &= ~ranks
        if not left:
            return ()
        self.leaving ^= left
        self._regard_as_gone(self._gone | left)
        return self.name(Allocation((left,)))

    def _regard_as_gone(self, ranks: int) -> None:
        self._gone, names = ranks, self._names
        self.names = [name for rank, name in enumerate(names) if not ranks >> rank & 1] if ranks else names

    def restore(self, node: str, *, lent: bool = False) -> None:
        """Put a node into service (again); a new one joins at the end. Without effect if it is in service.

        Args:
            node: Which one.
            lent: Whether it is lent from now on; no job may hold it then. One that is stays so until it has left.
        """
        if self._rank_of(node) is None:
            self._add(node)
        bit = self._bit(node)
        self.leaving &= ~bit
        if self._gone & bit:
            self._regard_as_gone(self._gone ^ bit)
            self.lent &= ~bit
        if not self.down_ranks & bit:
            return
        self.down_ranks ^= bit
        if lent:
            self.lent |= bit
        if self.lent & bit:
            return
        self.in_service += 1
        if not self.holders(node):
            self.all_free_ranks |= bit
            self._free_count += 1

    def _add(self, node: str) -> None:
        """Know a node, as one that has left."""
        if self._numbered is not None:
            self._ranks = {name: rank for rank, name in enumerate(self._numbered)}
            self._names, self._numbered = list(self._numbered), None
        assert isinstance(self._names, list)
        self._ranks[node] = len(self._names)
        self._names.append(node)
        bit = self._bit(node)
        self.down_ranks |= bit
        self._gone |= bit
