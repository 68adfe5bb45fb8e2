"""Cutting a bag into pieces."""

from __future__ import annotations

from collections import deque
from typing import TypeVar

from glb.bag import Bag

R = TypeVar("R")


def halve(bag: Bag[R], count: int) -> list[Bag[R]]:
    """Cut ``bag`` into at most ``count`` pieces of about the same size by halving the oldest piece again and again.

    ``bag`` itself is one of the pieces.
    """
    whole: list[Bag[R]] = []
    cuttable: deque[Bag[R]] = deque([bag])
    while cuttable and len(whole) + len(cuttable) < count:
        piece = cuttable.popleft()
        part = piece.split(False) if piece.is_splittable() else None
        if part is None:
            whole.append(piece)
        else:
            cuttable.extend((piece, part))
    return [*whole, *cuttable]
