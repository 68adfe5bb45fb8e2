"""Times and durations as people give them."""

from __future__ import annotations

import datetime as dt

import pytest

from scheduler_bridge.cli import inputs
from scheduler_bridge.cli.common import CliError

NOW = dt.datetime(2026, 11, 20, 17, 30, tzinfo=dt.UTC).astimezone()


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("1.5", 1.5), ("45m", 2700), ("2h", 7200), ("1h30m", 5400), ("1 d", 86400)]
)
def test_durations(text: str, seconds: float) -> None:
    assert inputs.read_duration("--for", text) == seconds


@pytest.mark.parametrize("text", ["", "h", "2x", "-5", "1h 30", "h2"])
def test_what_is_no_duration_is_named(text: str) -> None:
    with pytest.raises(CliError, match="not a duration") as error:
        inputs.read_duration("--for", text)
    assert error.value.hint == "--for 2h"


def test_moments() -> None:
    assert inputs.read_time("--start", "now", NOW) == NOW
    assert inputs.read_time("--start", "+30m", NOW) == NOW + dt.timedelta(minutes=30)
    later = NOW + dt.timedelta(hours=2)
    assert inputs.read_time("--start", f"{later:%Y-%m-%dT%H:%M}", NOW) == later
    for hour in range(24):
        found = inputs.read_time("--start", f"{hour}:05", NOW)
        assert (found.hour, found.minute) == (hour, 5)
        assert dt.timedelta() <= found - NOW <= dt.timedelta(days=1, hours=1)


@pytest.mark.parametrize(("text", "what"), [("25:00", "not a time"), ("soon", "not a time"), ("2020-01-01", "past")])
def test_what_is_no_moment_to_come_is_named(text: str, what: str) -> None:
    with pytest.raises(CliError, match=what):
        inputs.read_time("--start", text, NOW)


def test_the_scheduler_s_times_are_shown_as_the_user_s() -> None:
    assert inputs.clock_text(160.0, 100.0, NOW) == f"{NOW + dt.timedelta(seconds=60):%H:%M:%S}"
    later = NOW + dt.timedelta(days=2)
    assert inputs.clock_text(100.0 + 2 * 86400, 100.0, NOW) == f"{later:%Y-%m-%d %H:%M}"
