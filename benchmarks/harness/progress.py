"""Progress of a benchmark: one live line on a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Self, TextIO

if TYPE_CHECKING:
    from rich.live import Live

PLAIN_EVERY_S: Final = 2.0
LIVE_EVERY_S: Final = 0.2
RATE_OVER_S: Final = 3.0
"""The rate shown is that of the last seconds: it follows grows and shrinks."""
_PREFIXES: Final = ("", " k", " M", " G", " T", " P", " E")


def scaled(value: float) -> str:
    """Write a number with three digits and a prefix: 358 M."""
    power = 0
    while abs(value) >= 999.5 and power < len(_PREFIXES) - 1:
        value /= 1000
        power += 1
    digits = 0 if power == 0 and value == int(value) else max(0, 2 - len(str(int(abs(value)))) + 1)
    return f"{value:.{digits}f}{_PREFIXES[power]}"


class Progress:
    """Shows how far a computation is; a context manager.

    Args:
        label: What is computed.
        unit: What tasks are, in the plural.
        total: Number of tasks, where it is known.
        quiet: Whether to show nothing.
        stream: Where to; standard error by default.
        clock: Seconds since any moment.
    """

    def __init__(
        self,
        label: str,
        unit: str,
        total: int | None,
        quiet: bool,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._label, self._unit, self._total, self._quiet = label, unit, total, quiet
        self._stream = stream or sys.stderr
        self._clock = clock
        self._began_s = self._shown_s = clock()
        self._seen: deque[tuple[float, int]] = deque([(self._began_s, 0)])
        self._live: Live | None = None

    def __enter__(self) -> Self:
        if not self._quiet and self._stream.isatty():
            from rich.console import Console
            from rich.live import Live

            self._live = Live(console=Console(file=self._stream), auto_refresh=False, transient=True)
            self._live.start()
            self._shown_s -= LIVE_EVERY_S  # it shows at once; a short run needs no plain line
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def update(self, done: int, places: int, workers: int) -> None:
        """Show that ``done`` tasks are processed, on ``places`` places with ``workers`` workers in all."""
        now = self._clock()
        if self._quiet or now - self._shown_s < (PLAIN_EVERY_S if self._live is None else LIVE_EVERY_S):
            return
        self._shown_s = now
        self._seen.append((now, done))
        while len(self._seen) > 2 and now - self._seen[1][0] >= RATE_OVER_S:
            self._seen.popleft()
        before_s, before = self._seen[0]
        line = self.line(done, places, workers, now - self._began_s, (done - before) / (now - before_s))
        if self._live is not None:
            from rich.text import Text

            self._live.update(Text(line, no_wrap=True, overflow="ellipsis"), refresh=True)
        else:
            self._stream.write(line + "\n")
            self._stream.flush()

    def line(self, done: int, places: int, workers: int, elapsed_s: float, rate: float) -> str:
        """Write the line for ``elapsed_s`` seconds after the start, at a rate in tasks per second."""
        parts = [
            f"{self._label}: {elapsed_s:.1f} s",
            f"{places} {'place' if places == 1 else 'places'}, {workers} {'worker' if workers == 1 else 'workers'}",
            f"{scaled(done)} {self._unit}",
            f"{scaled(rate)} {self._unit}/s",
        ]
        if self._total and rate > 0:
            left_s = max(0.0, (self._total - done) / rate)
            parts.append(f"{100 * done / self._total:.0f} %, {left_s:.0f} s left")
        return " · ".join(parts)
