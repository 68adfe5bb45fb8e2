"""The queue in blocks that know their smallest jobs, so that a search passes whole blocks over."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from scheduler_bridge.model import JobSpec, Need

_BLOCK_JOBS: Final = 32
_NOBODY: Final = 1 << 60
"""More nodes than any job needs."""


class _Block:
    """Some neighbours in the queue, with what they need."""

    __slots__ = ("ids", "least_need", "least_walltime_s", "most_need", "needs", "specs", "walltimes_s")

    def __init__(self) -> None:
        self.specs: list[JobSpec] = []
        self.ids: list[int] = []
        self.needs: list[int] = []
        self.walltimes_s: list[float] = []
        self.least_need = self.most_need = 0
        self.least_walltime_s = 0.0

    def insert(self, index: int, spec: JobSpec, need: int, walltime_s: float) -> None:
        """Add a job at this position."""
        if not self.specs or need < self.least_need:
            self.least_need = need
        if not self.specs or walltime_s < self.least_walltime_s:
            self.least_walltime_s = walltime_s
        if need > self.most_need:
            self.most_need = need
        self.specs.insert(index, spec)
        self.ids.insert(index, spec.job_id)
        self.needs.insert(index, need)
        self.walltimes_s.insert(index, walltime_s)

    def remove(self, job_id: int) -> int:
        """Take a job out; return what it needed."""
        index = self.ids.index(job_id)
        need, walltime_s = self.needs.pop(index), self.walltimes_s.pop(index)
        del self.specs[index], self.ids[index]
        if self.specs:
            if need in (self.least_need, self.most_need):
                self.least_need, self.most_need = min(self.needs), max(self.needs)
            if walltime_s == self.least_walltime_s:
                self.least_walltime_s = min(self.walltimes_s)
        return need


class WaitingIndex:
    """The waiting jobs in the order of a queue, searchable by what they need.

    Args:
        need: The nodes that a job needs.
        queue: The jobs that wait now.
        walltime_s: How long a job may take on so many nodes.

    Attributes:
        blocks: The jobs, in order.
        least_need: The nodes that the smallest job needs; very many if there is none.
    """

    def __init__(self, need: Need, queue: Iterable[JobSpec], walltime_s: Callable[[JobSpec, int], float]) -> None:
        self._need = need
        self._walltime_s = walltime_s
        self._total_nodes = -1
        self._block_of: dict[int, _Block] = {}
        self.blocks: list[_Block] = []
        self.least_need = _NOBODY
        for spec in queue:
            self._append(spec, 0)  # the needs follow at the first walk

    def add(self, spec: JobSpec) -> None:
        """Add a job at the end, if it is not there."""
        if spec.job_id not in self._block_of:
            self._append(spec, self._need(spec, self._total_nodes))

    def insert(self, spec: JobSpec, behind: int | None) -> None:
        """Add a job, which is not there, right behind another one; None: before all others."""
        if behind is None and not self.blocks:
            self._append(spec, self._need(spec, self._total_nodes))
            return
        block = self.blocks[0] if behind is None else self._block_of[behind]
        index = 0 if behind is None else block.ids.index(behind) + 1
        need = self._need(spec, self._total_nodes)
        block.insert(index, spec, need, self._walltime_s(spec, need or spec.nodes))
        self._block_of[spec.job_id] = block
        if need < self.least_need:
            self.least_need = need
        if len(block.specs) > 4 * _BLOCK_JOBS:
            self._rebuild()

    def remove(self, job_id: int) -> None:
        """Take a job out, if it is there."""
        if (block := self._block_of.pop(job_id, None)) is None:
            return
        need = block.remove(job_id)
        if not block.specs:
            self.blocks.remove(block)
        if need == self.least_need and (not block.specs or block.least_need > need):
            self.least_need = min([block.least_need for block in self.blocks], default=_NOBODY)
        if len(self.blocks) > 8 and len(self.blocks) * _BLOCK_JOBS > 4 * len(self._block_of):
            self._rebuild()

    def walk(self, total_nodes: int) -> IndexedLine:
        """Begin a walk; ``total_nodes`` are in service."""
        if total_nodes != self._total_nodes:
            self._total_nodes = total_nodes
            self._rebuild()
        return IndexedLine(self.blocks, self.least_need)

    def _append(self, spec: JobSpec, need: int) -> None:
        if not self.blocks or len(self.blocks[-1].specs) == _BLOCK_JOBS:
            self.blocks.append(_Block())
        block = self.blocks[-1]
        block.insert(len(block.specs), spec, need, self._walltime_s(spec, need or spec.nodes))
        self._block_of[spec.job_id] = block
        if need < self.least_need:
            self.least_need = need

    def _rebuild(self) -> None:
        specs = [spec for block in self.blocks for spec in block.specs]
        self.blocks.clear()
        self.least_need = _NOBODY
        for spec in specs:
            self._append(spec, self._need(spec, self._total_nodes))


class IndexedLine:
    """A walk along the blocks; see ``Line``."""

    __slots__ = ("_block", "_blocks", "_index", "_least_need", "need")

    def __init__(self, blocks: list[_Block], least_need: int) -> None:
        self.need = 0
        self._blocks = blocks
        self._least_need = least_need
        self._block = self._index = 0

    def next(self) -> JobSpec | None:
        """The next job, whatever it needs; None at the end."""
        while self._block < len(self._blocks):
            block, index = self._blocks[self._block], self._index
            if index < len(block.specs):
                self._index = index + 1
                self.need = block.needs[index]
                return block.specs[index]
            self._block += 1
            self._index = 0
        return None

    def next_fitting(self, least: int, most: int, spare: int, now: float, by_s: float) -> JobSpec | None:
        """The next job that needs ``least`` to ``most`` nodes, and at most ``spare`` of them unless it ends in time."""
        blocks, start = self._blocks, self._index
        behind = len(blocks) if self._least_need <= most else 0  # else nobody's turn comes
        for position in range(self._block, behind):
            block = blocks[position]
            lowest = block.least_need
            if (
                lowest <= most
                and (lowest <= spare or now + block.least_walltime_s <= by_s)
                and block.most_need >= least
            ):
                walltimes_s = block.walltimes_s
                for index, need in enumerate(block.needs[start:] if start else block.needs, start):
                    if least <= need <= most and (need <= spare or now + walltimes_s[index] <= by_s):
                        self._block, self._index = position, index + 1
                        self.need = need
                        return block.specs[index]
            start = 0
        self._block, self._index = len(blocks), 0
        return None
