"""Progress of a map: plain lines at most every two seconds, one live line on a terminal, and nothing is left of it."""

from __future__ import annotations

import io
from collections.abc import Callable

import pytest

from apgas.errors import UsageError
from apgas.futures.progress import MapProgress, total_of


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def standing() -> tuple[int, int]:
    return 2, 5


def shown(stream: io.StringIO, total: int | None = 1000, seen: Callable[[], tuple[int, int]] = standing) -> str:
    """What is shown of 7 s, 100 items in each."""
    clock = Clock()
    with MapProgress(total, seen, stream, clock) as progress:
        for step in range(1, 29):
            clock.now_s += 0.25
            progress.update(25 * step, last=step == 28)
    return stream.getvalue()


def test_plain_lines_come_at_most_every_two_seconds() -> None:
    lines = shown(io.StringIO()).splitlines()
    assert lines == [
        "map: 200 of 1,000 done · 100/s · 2 places · 0 resizes · 8 s left",
        "map: 400 of 1,000 done · 100/s · 2 places · 0 resizes · 6 s left",
        "map: 600 of 1,000 done · 100/s · 2 places · 0 resizes · 4 s left",
    ]


def test_without_a_total_no_end_is_foreseen() -> None:
    assert shown(io.StringIO(), None).splitlines()[0] == "map: 200 done · 100/s · 2 places · 0 resizes"


def test_resizes_are_those_since_the_map_began_and_the_last_ones_known_stay() -> None:
    standings = iter([(2, 5), (1, 6), (4, 8)])

    def seen() -> tuple[int, int]:
        try:
            return next(standings)
        except StopIteration:
            raise UsageError("it is shut down") from None

    lines = [line.split(" · ")[2:4] for line in shown(io.StringIO(), seen=seen).splitlines()]
    assert lines == [["1 place", "1 resize"], ["4 places", "3 resizes"], ["4 places", "3 resizes"]]


def test_a_terminal_has_one_live_line_with_the_last_state_and_is_cleared() -> None:
    live = shown(Terminal())
    assert live.count(" of 1,000 done") > 20
    assert "700 of 1,000 done" in live
    assert live.endswith("\x1b[2K")
    assert "\x1b" not in shown(io.StringIO())


def test_the_total_is_known_where_all_iterables_know_theirs() -> None:
    assert total_of((range(5), "abc")) == 3
    assert total_of((range(5), iter("abc"))) is None
    assert total_of(()) is None


def test_without_rich_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "rich.console", None)
    with pytest.raises(UsageError, match=r"malleable-apgas\[bridge\]"):
        MapProgress(1, standing)
