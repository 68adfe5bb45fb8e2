"""Waiting for other processes to end."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Iterable
from types import TracebackType
from typing import Self


class Ends:
    """Handles on processes, opened while they live: their end is noticed at once, whoever their parent is.

    Args:
        pids: The processes.
    """

    def __init__(self, pids: Iterable[int]) -> None:
        self._handles = [os.pidfd_open(pid) for pid in pids]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for handle in self._handles:
            os.close(handle)

    def wait(self, limit_s: float) -> None:
        """Wait until all have ended.

        Raises:
            TimeoutError: Some live on.
        """
        until_s = time.monotonic() + limit_s
        for handle in self._handles:
            poll = select.poll()
            poll.register(handle, select.POLLIN)
            if not poll.poll(max(0.0, until_s - time.monotonic()) * 1000):
                raise TimeoutError(f"processes live on after {limit_s:g} s")
