"""What one place holds of an array: its rows, room for those of its neighbours beside them, and copies for a loss."""

from __future__ import annotations

import math
import threading
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from operator import attrgetter
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray

Rows: TypeAlias = NDArray[Any]
Range: TypeAlias = tuple[int, int]
"""The first row, and the one after the last."""
NOW: Final = 0
"""The version that the rows themselves are; copies have others."""
_ROOM: Final = 1
"""How wide a halo has room from the start: most reach no further, and to make room later copies all rows."""


class Block:
    """Rows of one place, as the function of ``map_blocks`` gets them: what it writes to ``local`` stays.

    To iterate over a block is to go through its rows: it yields the index of each in the whole array, and its elements.

    Attributes:
        rows: Their indices in the whole array.
        padded: They, with the rows of the halo before and after them; ``local`` if there is none. What is written to
            the halo is of no effect on other places.
    """

    def __init__(self, rows: range, local: Rows, padded: Rows) -> None:
        self.rows = rows
        self.padded = padded
        self._local = local

    def __iter__(self) -> Iterator[tuple[int, Any]]:
        return zip(self.rows, self._local, strict=True)

    @property
    def local(self) -> Rows:
        """The rows themselves, a view; to assign to it is to write to it."""
        return self._local

    @local.setter
    def local(self, values: Rows) -> None:
        if values is not self._local:
            self._local[...] = values

    @property
    def indices(self) -> tuple[Rows, ...]:
        """The indices in the whole array: of rows, and for two dimensions of columns, with shapes (n, 1) and (1, m)."""
        rows = np.arange(self.rows.start, self.rows.stop)
        return (rows,) if self._local.ndim == 1 else (rows[:, np.newaxis], np.arange(self._local.shape[1])[np.newaxis])


def read_only(rows: Rows) -> Rows:
    """A view that cannot be written to."""
    view = rows.view()
    view.flags.writeable = False
    return view


class Piece:
    """Consecutive rows, and room for ``width`` more before them and after them. It never changes its memory.

    A row lies in the same place of a piece's memory as long as that lives, whichever piece has it.
    """

    def __init__(self, first: int, rows: Rows, width: int = 0, capacity: int = 0) -> None:
        self.first = first
        self.local = rows[width : len(rows) - width]
        self.end = first + len(self.local)
        self.width = width
        self._all = rows
        self._capacity = capacity or len(self.local)

    @classmethod
    def empty(cls, rows: Range, width: int, like: Rows) -> Piece:
        """One of zeros."""
        first, end = rows
        return cls(first, np.zeros((end - first + 2 * width, *like.shape[1:]), like.dtype), width)

    def padded(self, halo: int) -> Rows:
        """The rows with those around them; needs so much room."""
        room = self.width - halo
        return self._all[room : len(self._all) - room]

    def put(self, first: int, rows: Rows) -> None:
        """Keep of some rows what lies here or in the room around; those in the same memory are where they belong."""
        start = self.first - self.width
        low, high = max(first, start), min(first + len(rows), start + len(self._all))
        if low < high and not np.may_share_memory(rows, self._all):
            self._all[low - start : high - start] = rows[low - first : high - first]

    def within(self, rows: Range, width: int) -> Piece | None:
        """Some of the rows, in the same memory; None: it has not that room, or most of it would lie idle."""
        first, end = rows
        inside = self.first <= first and end <= self.end and width <= self.width
        if not inside or 2 * (end - first) < self._capacity:
            return None
        start = self.first - self.width
        return Piece(first, self._all[first - width - start : end + width - start], width, self._capacity)

    def with_room(self, width: int) -> Piece:
        """One with room for ``width`` rows at both ends: this one if it has that."""
        if self.width >= width:
            return self
        wider = Piece.empty((self.first, self.end), width, self.local)
        wider.local[:] = self.local
        return wider


def put_into(pieces: Sequence[Piece], first: int, rows: Rows, room: int = 0) -> None:
    """Let all pieces that some rows lie in, or in the ``room`` around, have them; pieces are in the order of rows."""
    for piece in islice(pieces, bisect_right(pieces, first - room, key=attrgetter("end")), None):
        if piece.first - room >= first + len(rows):
            break
        piece.put(first, rows)


class Held:
    """The rows of one array on one place, each of shape ``tail``, in pieces, with ``width`` rows around each piece."""

    def __init__(self, tail: tuple[int, ...], dtype: DTypeLike) -> None:
        self.width = _ROOM
        self._row: Rows = np.zeros((0, *tail), dtype)
        self._pieces: Sequence[Piece] = ()
        self._coming: dict[int, Sequence[Piece]] = {}
        self._whole: Rows = self._row
        self._copies: dict[int, list[Piece]] = {}
        self._lock = threading.Lock()

    @property
    def row_bytes(self) -> int:
        """How much memory a row takes."""
        return self._row.dtype.itemsize * math.prod(self._row.shape[1:])

    @property
    def local(self) -> Rows:
        """The rows that are this place's own: a view if they are one piece."""
        if len(self._pieces) == 1:
            return self._pieces[0].local
        return np.concatenate([self._row, *(piece.local for piece in self._pieces)])

    def parts(self, ranges: Iterable[Range], version: int = NOW) -> list[tuple[int, Rows]]:
        """Some of our rows, or of a copy, by their indices in the whole array: of each piece, with the first index."""
        pieces = self._pieces if version == NOW else self._copies.get(version, ())
        found = []
        for first, end in ranges:
            for piece in islice(pieces, bisect_right(pieces, first, key=attrgetter("end")), None):
                if piece.first >= end:
                    break
                low, high = max(first, piece.first), min(end, piece.end)
                found.append((low, piece.local[low - piece.first : high - piece.first]))
        return found

    def put(self, first: int, rows: Rows) -> None:
        """Let some of our rows be these."""
        put_into(self._pieces, first, rows)

    def blocks(self, halo: int, *, constant: bool = False) -> list[Block]:
        """The pieces, padded by ``halo`` rows at both ends, for which there is room; for reading if ``constant``."""
        shown: Callable[[Rows], Rows] = read_only if constant else lambda rows: rows
        return [
            Block(range(piece.first, piece.end), shown(piece.local), shown(piece.padded(halo)))
            for piece in self._pieces
        ]

    # rows of other places --------------------------------------------------------------------------------------------

    def reserve(self, width: int) -> None:
        """Have room for a halo of ``width`` rows around each piece."""
        with self._lock:
            if width > self.width:
                self._pieces, self.width = [piece.with_room(width) for piece in self._pieces], width

    def take_halo(self, width: int, first: int, rows: Rows) -> None:
        """Keep rows of another place beside our own."""
        self.reserve(width)
        put_into(self._pieces, first, rows, self.width)

    def fill_halo(self, width: int, total: int, above: Any, below: Any) -> None:
        """Fill what of the halo lies beyond the first of ``total`` rows and the last, or is our own; needs the room."""
        for piece in self._pieces:
            padded = piece.padded(width)
            shape = width, *padded.shape[1:]
            if (before := width - piece.first) > 0:  # of ``width`` rows that are given, those next to the array
                padded[:before] = np.broadcast_to(np.asarray(above, padded.dtype), shape)[-before:]
            if (after := piece.end + width - total) > 0:
                padded[-after:] = np.broadcast_to(np.asarray(below, padded.dtype), shape)[:after]
            if len(self._pieces) > 1:
                put_into(self._pieces, piece.first, piece.local, self.width)

    def take_whole(self, total: int, first: int, rows: Rows) -> None:
        """Keep rows of another place, to have all ``total`` of them together."""
        self._room_for(total)[first : first + len(rows)] = rows

    def whole(self, total: int) -> Rows:
        """All rows together, for reading, as far as those of others have been taken."""
        whole = self._room_for(total)
        for piece in self._pieces:
            whole[piece.first : piece.end] = piece.local
        return read_only(whole)

    def _room_for(self, total: int) -> Rows:
        with self._lock:
            if len(self._whole) != total:
                self._whole = np.zeros((total, *self._row.shape[1:]), self._row.dtype)
            return self._whole

    # another layout --------------------------------------------------------------------------------------------------

    def expect(self, move: int, ranges: Iterable[Range], version: int = NOW) -> None:
        """Have room for the rows of ``ranges``, which this place will hold after a move.

        Rows of a version are copied there; where they are those of now, a part of their memory may be the room.
        """
        with self._lock:
            pieces = self._pieces if version == NOW else ()
            self._coming[move] = [self._room_of(each, pieces) for each in ranges]

    def _room_of(self, rows: Range, pieces: Sequence[Piece]) -> Piece:
        at = bisect_right(pieces, rows[0], key=attrgetter("first")) - 1
        kept = pieces[at].within(rows, self.width) if at >= 0 else None
        return kept or Piece.empty(rows, self.width, self._row)

    def take(self, move: int, first: int, rows: Rows) -> None:
        """Keep rows, which begin with ``first``, as far as they are expected."""
        put_into(self._coming.get(move, ()), first, rows)

    def settle(self, move: int) -> None:
        """From now on hold the rows that are expected of a move, all of which have come; let go of other moves.

        Raises:
            KeyError: No rows are expected of it.
        """
        with self._lock:  # a halo may have become wider since the first rows came
            self._pieces, self._coming = [piece.with_room(self.width) for piece in self._coming[move]], {}

    def forget(self, move: int) -> None:
        """Let go of what has come by a move: the layout stays as it is."""
        with self._lock:
            self._coming.pop(move, None)

    # copies ----------------------------------------------------------------------------------------------------------

    def save(self, version: int, valid: int, *, constant: bool = False) -> list[tuple[int, Rows]]:
        """Copy our rows as a version, or let it have the rows themselves if they are constant.

        Of older versions only that which is ``valid`` is still needed.

        Returns:
            The copies, each with its first row, for another place to keep.
        """
        self._release(valid, version)
        made = [(piece.first, piece.local if constant else piece.local.copy()) for piece in self._pieces]
        self.keep(version, made)
        return made

    def carry(self, version: int, valid: int) -> None:
        """Let a version have the copies that the valid one has, for no row has changed."""
        self._release(valid, version)
        with self._lock:
            self._copies[version] = list(self._copies.get(valid, ()))

    def _release(self, *needed: int) -> None:
        with self._lock:
            self._copies = {known: pieces for known, pieces in self._copies.items() if known in needed}

    def keep(self, version: int, rows: Iterable[tuple[int, Rows]]) -> None:
        """Keep copies as part of a version."""
        with self._lock:
            pieces = self._copies.setdefault(version, [])
            pieces += [Piece(first, each) for first, each in rows]
            pieces.sort(key=attrgetter("first"))
