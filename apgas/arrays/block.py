"""What one place holds of an array: its rows, and room for those of its neighbours beside them."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

Rows = NDArray[Any]


class Block:
    """The rows of one place, as the function of ``map_blocks`` gets them: what it writes to ``local`` stays.

    Attributes:
        rows: Their indices in the whole array.
        padded: They, with the rows of the halo before and after them; ``local`` if there is none. What is written to
            the halo is of no effect on other places.
    """

    def __init__(self, rows: range, local: Rows, padded: Rows) -> None:
        self.rows = rows
        self.padded = padded
        self._local = local

    @property
    def local(self) -> Rows:
        """The rows themselves, a view; to assign to it is to write to it."""
        return self._local

    @local.setter
    def local(self, values: Rows) -> None:
        if values is not self._local:
            self._local[...] = values


class Held:
    """The rows of one array on one place, with ``width`` rows before and after them.

    Args:
        tail: The shape of one row.
        dtype: Of its elements.
    """

    def __init__(self, tail: tuple[int, ...], dtype: DTypeLike) -> None:
        self.first = 0
        self.width = 0
        self._rows: Rows = np.zeros((0, *tail), dtype)
        self._coming: Rows | None = None
        self._lock = threading.Lock()

    @property
    def local(self) -> Rows:
        """The rows that are this place's own."""
        return self._rows[self.width : len(self._rows) - self.width]

    def part(self, first: int, end: int) -> Rows:
        """Some of its own rows, by their indices in the whole array."""
        return self.local[first - self.first : end - self.first]

    def block(self, halo: int) -> Block:
        """The rows, padded by ``halo`` at both ends; needs so much room."""
        mine = self.local
        room = self.width - halo
        padded = self._rows[room : len(self._rows) - room]
        return Block(range(self.first, self.first + len(mine)), mine, padded)

    # halo ------------------------------------------------------------------------------------------------------------

    def reserve(self, width: int) -> None:
        """Have room for a halo of ``width`` rows at each end."""
        with self._lock:
            if width > self.width:
                rows = self._empty(len(self.local), width)
                rows[width : len(rows) - width] = self.local
                self._rows, self.width = rows, width

    def take_halo(self, width: int, first: int, rows: Rows) -> None:
        """Keep rows of another place beside our own."""
        self.reserve(width)
        start = first - self.first + self.width
        self._rows[start : start + len(rows)] = rows

    def fill_ends(self, width: int, total: int, above: Any, below: Any) -> None:
        """Fill what of the halo lies before the first of ``total`` rows, and after the last; needs the room."""
        padded = self.block(width).padded
        missing = max(0, width - self.first)
        padded[:missing] = above
        missing = max(0, self.first + len(self.local) + width - total)
        padded[len(padded) - missing :] = below

    # another layout --------------------------------------------------------------------------------------------------

    def take(self, first: int, end: int, at: int, rows: Rows) -> None:
        """Keep rows, which begin with ``at``, for when this place will hold those from ``first`` up to ``end``."""
        coming = self._expect(first, end)
        coming[at - first : at - first + len(rows)] = rows

    def settle(self, first: int, end: int) -> None:
        """From now on hold the rows from ``first`` up to ``end``: those of our own, and those that have come."""
        coming = self._expect(first, end)
        low, high = max(first, self.first), min(end, self.first + len(self.local))
        if low < high:
            coming[low - first : high - first] = self.part(low, high)
        assert self._coming is not None
        self._rows, self._coming, self.first = self._coming, None, first

    def forget(self) -> None:
        """Let what has come go: the layout stays as it is."""
        self._coming = None

    def _expect(self, first: int, end: int) -> Rows:
        """The array for the rows to come, without its halo."""
        with self._lock:
            if self._coming is None:
                self._coming = self._empty(end - first, self.width)
            rows = self._coming
        return rows[self.width : len(rows) - self.width]

    def _empty(self, rows: int, width: int) -> Rows:
        return np.zeros((rows + 2 * width, *self._rows.shape[1:]), self._rows.dtype)
