"""Counts the nodes of an unbalanced tree with a compiled bag: `mpiexec -n 4 python docs/examples/uts_bag.py`."""

from __future__ import annotations

import hashlib
import math
from typing import Any

import numpy as np
from numba import njit

import apgas
import glb

LANES = 256  # nodes that are hashed side by side
LEVEL, CHILDREN = 5, 6  # the columns of a task after the five words of its hash


@njit(inline="always")
def rotate(word, bits):
    return np.uint32(word << np.uint32(bits)) | np.uint32(word >> np.uint32(32 - bits))


@njit(nogil=True, cache=True)
def sha1(words, state):
    """Hash column by column: the first 6 of the 16 rows of `words` are the message, `state` becomes the hash."""
    words[6:15], words[6], words[15] = 0, 0x80000000, 192
    state[0], state[1], state[2], state[3], state[4] = 0x67452301, 0xEFCDAB89, 0x98BADCFE, 0x10325476, 0xC3D2E1F0
    for i in range(80):
        a, b, c, d, e = state[-i % 5], state[(1 - i) % 5], state[(2 - i) % 5], state[(3 - i) % 5], state[(4 - i) % 5]
        word, w3, w8, w14 = words[i % 16], words[(i + 13) % 16], words[(i + 8) % 16], words[(i + 2) % 16]
        if i >= 16:
            for k in range(LANES):
                word[k] = rotate(word[k] ^ w3[k] ^ w8[k] ^ w14[k], 1)
        if i < 20:
            for k in range(LANES):
                e[k] += rotate(a[k], 5) + (d[k] ^ b[k] & (c[k] ^ d[k])) + np.uint32(0x5A827999) + word[k]
                b[k] = rotate(b[k], 30)
        elif 40 <= i < 60:
            for k in range(LANES):
                e[k] += rotate(a[k], 5) + (b[k] & c[k] | d[k] & (b[k] | c[k])) + np.uint32(0x8F1BBCDC) + word[k]
                b[k] = rotate(b[k], 30)
        else:
            constant = np.uint32(0x6ED9EBA1 if i < 40 else 0xCA62C1D6)
            for k in range(LANES):
                e[k] += rotate(a[k], 5) + (b[k] ^ c[k] ^ d[k]) + constant + word[k]
                b[k] = rotate(b[k], 30)
    for k in range(LANES):
        state[0, k] += 0x67452301
        state[1, k] += 0xEFCDAB89
        state[2, k] += 0x98BADCFE
        state[3, k] += 0x10325476
        state[4, k] += 0xC3D2E1F0


@njit(nogil=True, cache=True)
def children_of(word, branching):
    """The geometric law: the last word of a node's hash says how many children it has."""
    return int(math.log(1 - (word & 0x7FFFFFFF) / 2**31) / math.log(1 - 1 / (1 + branching)))


@njit(nogil=True, cache=True)
def search(stack, count, n, total, depth, branching):
    """Count about `n` nodes; return how many tasks are left, and how many nodes were counted."""
    words, state = np.empty((16, LANES), np.uint32), np.empty((5, LANES), np.uint32)
    level = np.empty(LANES, np.int64)
    done = 0
    while count and done < n and count + LANES <= len(stack):
        lanes = 0
        while lanes < LANES and count:  # take the children of the newest nodes
            node = stack[count - 1]
            taken = min(LANES - lanes, np.int64(node[CHILDREN]))
            node[CHILDREN] -= taken
            for child in range(node[CHILDREN], node[CHILDREN] + taken):
                for i in range(5):
                    words[i, lanes] = node[i]
                words[5, lanes] = child
                level[lanes] = node[LEVEL] + 1
                lanes += 1
            count -= node[CHILDREN] == 0
        sha1(words, state)
        done += lanes
        for k in range(lanes):
            children = children_of(state[4, k], branching)
            if level[k] == depth - 1:  # its children are leaves: they are counted, not hashed
                done += children
            elif children:
                for i in range(5):
                    stack[count, i] = state[i, k]
                stack[count, LEVEL], stack[count, CHILDREN] = level[k], children
                count += 1
    total[0] += done
    return count, done


class Tree(glb.ArrayBag):
    """A task is a node with children that were not counted yet."""

    room = LANES

    def __init__(self, depth: int, seed: int = 19, branching: int = 4) -> None:  # depth: 2 or more
        root = np.frombuffer(hashlib.sha1(bytes(16) + seed.to_bytes(4, "big")).digest(), ">u4")
        tasks = np.array([[*root, 0, children_of(root[4], branching)]], np.uint32)
        super().__init__(tasks[tasks[:, CHILDREN] > 0], total=np.ones(1, np.int64))
        self.depth, self.branching = depth, branching

    def kernel(self, stack: Any, count: int, n: int) -> tuple[int, int]:
        return search(stack, count, n, self.total, self.depth, self.branching)


def warm_up() -> None:
    Tree(depth=4).process(100)


def main() -> None:
    outcome = glb.compute(Tree(depth=11), glb.ArrayResult, glb.Config(warm_up=warm_up))
    print("nodes:", outcome.result.values[0], "- places:", len(outcome.places))


if __name__ == "__main__":
    apgas.run(main)
