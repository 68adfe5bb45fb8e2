"""Progress: plain lines at most every two seconds, silence on request, control codes on terminals only."""

from __future__ import annotations

import io

import pytest

from benchmarks.harness.progress import Progress, scaled


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def run(stream: io.StringIO, *, quiet: bool = False, seconds: int = 7) -> str:
    clock = Clock()
    with Progress("pi", "samples", 1000, quiet, stream, clock) as progress:
        for _ in range(seconds * 4):
            clock.now_s += 0.25
            progress.update(int(100 * (clock.now_s - 100)), 4, 8)
    return stream.getvalue()


def test_plain_lines_come_at_most_every_two_seconds() -> None:
    lines = run(io.StringIO()).splitlines()
    assert len(lines) == 3
    assert lines[0] == "pi: 2.0 s · 4 places, 8 workers · 200 samples · 100 samples/s · 20 %, 8 s left"


def test_the_rate_is_that_of_the_last_seconds() -> None:
    clock, stream = Clock(), io.StringIO()
    with Progress("pi", "samples", None, False, stream, clock) as progress:
        for _ in range(5):  # nothing for 10 s: the places are still warming up
            clock.now_s += 2
            progress.update(0, 1, 1)
        for done in (1000, 2000, 3000):
            clock.now_s += 2
            progress.update(done, 1, 1)
    assert stream.getvalue().splitlines()[-1].endswith("3.00 k samples · 500 samples/s")


def test_quiet_says_nothing() -> None:
    assert run(io.StringIO(), quiet=True) == ""
    assert run(Terminal(), quiet=True) == ""


def test_plain_output_has_no_control_codes_and_a_terminal_has_one_live_line() -> None:
    assert "\x1b" not in run(io.StringIO())
    live = run(Terminal())
    assert "\x1b[" in live
    assert live.count("4 places, 8 workers") > 10


def test_no_color_is_honoured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[3" not in run(Terminal())  # colours begin so; movements of the cursor do not


def test_the_time_left_is_shown_only_where_the_total_is_known() -> None:
    progress = Progress("uts", "nodes", None, quiet=False, stream=io.StringIO())
    assert progress.line(0, 1, 1, 0.0, 0.0) == "uts: 0.0 s · 1 place, 1 worker · 0 nodes · 0 nodes/s"
    assert "left" not in progress.line(10, 1, 1, 1.0, 10.0)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (7, "7"), (999, "999"), (999.9, "1.00 k"), (1000, "1.00 k"), (35_800_000, "35.8 M"), (1.5e21, "1500 E")],
)
def test_numbers_have_three_digits_and_a_prefix(value: float, text: str) -> None:
    assert scaled(value) == text
