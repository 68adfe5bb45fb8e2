"""What is seen while it measures: a live line on a terminal, a plain line per measure elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self, TextIO

if TYPE_CHECKING:
    from types import TracebackType


class Display:
    """Shows how far a run is; a context manager.

    Args:
        steps: Steps of the whole run, to tell the time left.
        quiet: Whether to show nothing.
        stream: Where to; standard error by default.
        clock: Seconds since any moment.
    """

    def __init__(
        self, steps: int, quiet: bool, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._steps = steps
        self._quiet = quiet
        self._stream = stream or sys.stderr
        self._clock = clock
        self._began_s = clock()
        self._name = ""
        self._done = 0
        self._live: Any = None

    def __enter__(self) -> Self:
        self._began_s = self._clock()
        if not self._quiet and self._stream.isatty():
            from rich.console import Console
            from rich.status import Status

            self._live = Status("starting", console=Console(file=self._stream))
            self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def begin(self, name: str, text: str) -> None:
        """A measure begins; ``text`` says how large it is."""
        self._name = name
        if not self._quiet and self._live is None:
            self._stream.write(f"{self._line(text)}\n")
            self._stream.flush()

    def note(self, text: str) -> None:
        """Something happens that is not a step."""
        if self._live is not None:
            from rich.markup import escape

            self._live.update(escape(self._line(text)))

    def step(self, text: str) -> None:
        """The next step begins."""
        self.note(text)
        self._done += 1

    def _line(self, text: str) -> str:
        elapsed_s = self._clock() - self._began_s
        parts = [f"{self._name}: {text}", f"{elapsed_s:.0f} s"]
        if 0 < self._done < self._steps:
            left_s = elapsed_s / self._done * (self._steps - self._done)
            parts.append(f"{100 * self._done / self._steps:.0f} %, about {left_s:.0f} s left")
        return " · ".join(parts)
