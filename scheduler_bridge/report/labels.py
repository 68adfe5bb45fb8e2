"""Where the sizes of resizes are written: beside their boundary, and on nothing else that is to be read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Sequence

LABEL_SIZE_PT = 7.0
PAD = 0.12
"""Around the text, in units of its size."""
GAP_PT = (3.0, PAD * LABEL_SIZE_PT)
"""From the boundary, and from the end of the bar, to the text."""
EDGE_PX = 0.5
"""Less than this is no overlap."""


@dataclass(frozen=True)
class Box:
    """A rectangle in pixels; ``top`` is the smaller number."""

    left: float
    right: float
    top: float
    bottom: float

    def meets(self, other: Box) -> bool:
        """Whether the two share more than an edge."""
        return (
            self.left + EDGE_PX < other.right
            and other.left + EDGE_PX < self.right
            and self.top + EDGE_PX < other.bottom
            and other.top + EDGE_PX < self.bottom
        )

    def within(self, other: Box) -> bool:
        """Whether all of this one lies in the other."""
        return (
            other.left <= self.left
            and self.right <= other.right
            and other.top <= self.top
            and self.bottom <= other.bottom
        )


@dataclass(frozen=True)
class Spot:
    """A place for a label: on which side of the boundary, at which end of the bar."""

    side: Literal["left", "right"]
    end: Literal["top", "bottom"]

    def box(self, boundary: Box, text: str, pixels_per_point: float) -> Box:
        """Return the rectangle that ``text`` would take beside ``boundary``."""
        wide = ((0.8 * len(text) + PAD) * LABEL_SIZE_PT + GAP_PT[0]) * pixels_per_point
        tall = (1.17 + 2 * PAD) * LABEL_SIZE_PT * pixels_per_point
        left = boundary.left - wide if self.side == "left" else boundary.right
        top = boundary.top if self.end == "top" else boundary.bottom - tall
        return Box(left, left + wide, top, top + tall)


GROW_SPOTS = (Spot("right", "top"), Spot("right", "bottom"), Spot("left", "top"), Spot("left", "bottom"))
SHRINK_SPOTS = (Spot("left", "bottom"), Spot("left", "top"), Spot("right", "bottom"), Spot("right", "top"))
"""The first of them that is free is taken: in the job's own bar, where there is room, at opposite ends."""


def free_spot(
    spots: Sequence[Spot], boundary: Box, text: str, pixels_per_point: float, taken: Sequence[Box], area: Box
) -> tuple[Spot, Box]:
    """Choose where to write ``text`` beside ``boundary``: within ``area``, on as little as possible of ``taken``."""

    def cost(spot: Spot) -> int:
        box = spot.box(boundary, text, pixels_per_point)
        return sum(box.meets(other) for other in taken) + 2 * (not box.within(area))

    best = min(spots, key=cost)
    return best, best.box(boundary, text, pixels_per_point)
