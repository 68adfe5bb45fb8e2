"""What nobody is to wait for any more."""

from __future__ import annotations

from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class NoMore(dict[K, V]):
    """What was waited for when a driver gave up; whoever adds to it gets an error instead.

    Args:
        held: What was waited for until then.
        error: For those who come later.
    """

    def __init__(self, held: dict[K, V], error: BaseException) -> None:
        super().__init__(held)
        self._error = error

    def __setitem__(self, key: K, value: V) -> None:
        raise self._error
