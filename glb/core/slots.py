"""The worker slots of a place.

| slot     | meaning                                      | left by                                             |
|----------|----------------------------------------------|-----------------------------------------------------|
| free     | nobody works in it                           | take -> busy                                        |
| busy     | a worker is in it, or an activity brings one | release -> free or closed; set_wanted -> retiring;  |
|          |                                              | leave -> away                                       |
| away     | busy, and the worker is in a long call, with | back -> busy; release -> free or closed             |
|          | nothing in hand but what it processes        |                                                     |
| retiring | busy, but there are to be fewer workers      | release -> closed; set_wanted -> busy               |
| closed   | its number is not below the wanted one       | set_wanted -> free                                  |

A slot is retiring or closed by its number alone, so that the same cores stay in use when workers go and come. There is
always a slot that is neither, hence a worker that retires finds a free slot to move its bag to, or somebody in each.
"""

from __future__ import annotations


class Slots:
    """Which slots are busy, as the bits of a number.

    Args:
        wanted: How many workers there may be.
    """

    __slots__ = ("_away", "_busy", "wanted")

    def __init__(self, wanted: int) -> None:
        self.wanted = wanted
        self._busy = 0
        self._away = 0

    @property
    def alive(self) -> int:
        """Number of busy slots, those of retiring workers included."""
        return self._busy.bit_count()

    @property
    def any_free(self) -> bool:
        """Whether another worker may start."""
        return bool(~self._busy & self._open)

    @property
    def any_away(self) -> bool:
        """Whether a worker is in a long call."""
        return bool(self._away)

    @property
    def all_away(self) -> bool:
        """Whether there are workers, and all are in long calls."""
        return bool(self._busy) and self._away == self._busy

    @property
    def any_retiring(self) -> bool:
        """Whether a worker has still to make way."""
        return bool(self._busy & ~self._open)

    @property
    def _open(self) -> int:
        return (1 << self.wanted) - 1

    def retires(self, slot: int) -> bool:
        """Return whether the worker in ``slot`` is to make way."""
        return slot >= self.wanted

    def take(self) -> int | None:
        """Make the lowest free slot busy and return its number; None if there is none."""
        free = ~self._busy & self._open
        if not free:
            return None
        lowest = free & -free
        self._busy |= lowest
        return lowest.bit_length() - 1

    def release(self, slot: int) -> None:
        """Note that nobody works in ``slot`` any more."""
        self._busy &= ~(1 << slot)
        self.back(slot)

    def leave(self, slot: int) -> None:
        """Note that the worker in ``slot`` begins a long call."""
        self._away |= 1 << slot

    def back(self, slot: int) -> None:
        """Note that the worker in ``slot`` is in no call."""
        self._away &= ~(1 << slot)

    def set_wanted(self, wanted: int) -> None:
        """Allow ``wanted`` workers.

        Raises:
            ValueError: It is not at least 1.
        """
        if wanted < 1:
            raise ValueError(f"a place has at least one worker, not {wanted}")
        self.wanted = wanted
