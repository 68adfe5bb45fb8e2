"""Times and durations as people give and read them: 18:00, tomorrow's date, 2h; and the scheduler's clock as theirs."""

from __future__ import annotations

import datetime as dt
import re
from typing import Final

from scheduler_bridge.cli.common import CliError

_UNITS: Final = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_PART: Final = re.compile(r"(\d+(?:\.\d+)?)(min|[smhd])")


def seconds(option: str, text: str) -> float:
    """Read a duration: 90 (seconds), 45m, 2h, 1h30m, 1d.

    Raises:
        CliError: It is none.
    """
    compact = text.replace(" ", "")
    if re.fullmatch(r"\d+(?:\.\d+)?", compact):
        return float(compact)
    parts = _PART.findall(compact)
    if not parts or "".join(number + unit for number, unit in parts) != compact:
        raise CliError(
            f"{option} {text}: not a duration", "a duration is like 90, 45m, 2h, 1h30m or 1d", f"{option} 2h"
        )
    return sum(float(number) * _UNITS[unit] for number, unit in parts)


def moment(option: str, text: str, now: dt.datetime) -> dt.datetime:
    """Read a moment that is not past: now, +30m, 18:00 (the next one), 2026-12-01T18:00.

    Args:
        option: For the error.
        text: What was given.
        now: With its time zone, in which a moment without one is meant.

    Raises:
        CliError: It is none, or past.
    """
    if text == "now":
        return now
    if text.startswith("+"):
        return now + dt.timedelta(seconds=seconds(option, text[1:]))
    try:
        if re.fullmatch(r"\d{1,2}:\d{2}(:\d{2})?", text):
            time = dt.time.fromisoformat(text.rjust(5, "0") if text.count(":") == 1 else text.rjust(8, "0"))
            found = dt.datetime.combine(now.date(), time).astimezone()
            return found if found >= now else dt.datetime.combine(now.date() + dt.timedelta(days=1), time).astimezone()
        found = dt.datetime.fromisoformat(text)
    except ValueError:
        raise CliError(
            f"{option} {text}: not a moment", "a moment is like now, +30m, 18:00 or 2026-12-01T18:00", f"{option} 18:00"
        ) from None
    found = found if found.tzinfo is not None else found.astimezone()
    if found < now:
        raise CliError(f"{option} {text}: that is past", f"it is {shown(now, now)} now", "name a later time")
    return found


def shown(when: dt.datetime, now: dt.datetime) -> str:
    """Word a moment, with its date only if that is not today's."""
    return f"{when:%H:%M:%S}" if when.date() == now.date() else f"{when:%Y-%m-%d %H:%M}"


def local(at_s: float, now_s: float, now: dt.datetime) -> str:
    """Word a time on the scheduler's clock, on which it is ``now_s`` at the moment ``now``."""
    return shown(now + dt.timedelta(seconds=at_s - now_s), now)


def here() -> dt.datetime:
    """Return the present moment in the user's time zone."""
    return dt.datetime.now().astimezone()
