"""The UTS kernel in NumPy, for machines without numba: SHA-1 of up to 1024 children at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..levelbag import Integers, Words

NAME = "NumPy, no numba"
LANES = 1024
CAPACITY = 2 * LANES

INITIAL = (0x67452301, 0xEFCDAB89, 0x98BADCFE, 0x10325476, 0xC3D2E1F0)
ROUND = (0x5A827999, 0x6ED9EBA1, 0x8F1BBCDC, 0xCA62C1D6)
LOW, HIGH = 5, 6
"""Fields of an entry: its pending children are [low, high)."""


def _rotate_left(words: Words, bits: int) -> Words:
    return (words << np.uint32(bits)) | (words >> np.uint32(32 - bits))


def sha1(message: Words) -> Words:
    """Return the hashes, of shape (n, 5), of n messages of 6 words, of shape (n, 6)."""
    padding = (0x80000000, *[0] * 8, 192)
    words = [*message.T.copy(), *(np.full(len(message), word, np.uint32) for word in padding)]
    a, b, c, d, e = initial = [np.full(len(message), word, np.uint32) for word in INITIAL]
    for i in range(80):
        word = words[i & 15]
        if i >= 16:
            word = _rotate_left(words[(i - 3) & 15] ^ words[(i - 8) & 15] ^ words[(i - 14) & 15] ^ word, 1)
            words[i & 15] = word
        if i < 20:
            mixed = d ^ (b & (c ^ d))
        elif 40 <= i < 60:
            mixed = (b & c) | (d & (b | c))
        else:
            mixed = b ^ c ^ d
        a, b, c, d, e = _rotate_left(a, 5) + mixed + e + np.uint32(ROUND[i // 20]) + word, a, _rotate_left(b, 30), c, d
    return np.stack([word + start for word, start in zip((a, b, c, d, e), initial, strict=True)], axis=1)


def _choose_level(queue: Words, entries: Integers, floor: int) -> int:
    """Return the deepest level above the floor that fills all lanes, else the highest that has anything, else 0."""
    highest = 0
    for level in range(floor + 1, len(entries)):
        rows = queue[level, : entries[level]]
        if int((rows[:, HIGH] - rows[:, LOW]).sum()) >= LANES:
            return level
        if len(rows):
            highest = level
    return highest


def _take_messages(rows: Words) -> tuple[Words, int]:
    """Remove up to LANES pending children of the last ``rows``; return their messages and the rows left."""
    counts = (rows[:, HIGH] - rows[:, LOW]).astype(np.int64)
    reach = np.cumsum(counts[::-1])
    used = min(len(rows), int(np.searchsorted(reach, LANES)) + 1)
    taken = counts[len(rows) - used :].copy()
    taken[0] -= max(0, int(reach[used - 1]) - LANES)
    chosen = rows[len(rows) - used :]
    parents = np.repeat(np.arange(used), taken)
    nth = np.arange(len(parents)) - np.repeat(np.cumsum(taken) - taken, taken)
    messages = chosen[parents, :6]
    messages[:, 5] = chosen[parents, HIGH] - np.uint32(1) - nth.astype(np.uint32)
    chosen[:, HIGH] -= taken.astype(np.uint32)
    return messages, len(rows) - used + int(chosen[0, HIGH] > chosen[0, LOW])


def expand(
    queue: Words,
    entries: Integers,
    of_level: Integers,
    thresholds: Words,
    _guess: NDArray[np.uint8],
    floor: int,
    budget: int,
) -> tuple[int, int, bool]:
    """Do what ``vector.expand`` does."""
    nodes = hashed = 0
    level = _choose_level(queue, entries, floor)
    while level > 0 and nodes < budget:
        messages, left = _take_messages(queue[level, : entries[level]])
        entries[level] = left
        hashes = sha1(messages)
        children = np.searchsorted(thresholds[of_level[level]], hashes[:, 4] & np.uint32(0x7FFFFFFF), side="right") - 1
        hashed += len(hashes)
        nodes += len(hashes)
        if level == 2:
            nodes += int(children.sum())
        else:
            inner = children > 0
            begin = int(entries[level - 1])
            end = begin + int(inner.sum())
            queue[level - 1, begin:end, :5] = hashes[inner]
            queue[level - 1, begin:end, LOW] = 0
            queue[level - 1, begin:end, HIGH] = children[inner]
            entries[level - 1] = end
        level = _choose_level(queue, entries, floor)
    return nodes, hashed, level > 0


def expand_binomial(stack: Words, count: int, threshold: int, children: int, budget: int) -> tuple[int, int]:
    """Do what ``vector.expand_binomial`` does."""
    nodes = 0
    while count > 0 and nodes < budget and count + LANES <= len(stack):
        messages, count = _take_messages(stack[:count])
        hashes = sha1(messages)
        nodes += len(hashes)
        inner = (hashes[:, 4] & np.uint32(0x7FFFFFFF)) < threshold
        end = count + int(inner.sum())
        stack[count:end, :5] = hashes[inner]
        stack[count:end, LOW] = 0
        stack[count:end, HIGH] = children
        count = end
    return nodes, count
