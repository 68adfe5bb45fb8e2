"""What people type: numbers, times, names of files, and files in TOML; a ``CliError`` says what is wrong with it."""

from __future__ import annotations

import datetime as dt
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar

from scheduler_bridge.cli.common import CliError
from scheduler_bridge.cli.options import described

_Name = TypeVar("_Name", bound=str)


def one_of(option: str, given: str, noun: str, *known: _Name) -> _Name:
    """Return ``given``, which is one of those that are known."""
    for name in known:
        if name == given:
            return name
    raise CliError(f"{option} {given}: no such {noun}", f"there are {' and '.join(known)}")


_NUMBER: Final = re.compile(r"\d{1,18}")


def read_numbers(option: str, text: str | None) -> tuple[int, ...] | None:
    """Read numbers such as 3,5-7."""
    from scheduler_bridge.daemon.requests import ARRAY_MOST

    if text is None:
        return None
    found: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not _NUMBER.fullmatch(first) or (dash and not _NUMBER.fullmatch(last)):
            raise CliError(f"{option} {text}", "numbers are given as 3,5-7", f"for example {option} 1-3")
        low, high = int(first), int(last or first)
        if high < low:
            raise CliError(f"{option} {text}", f"there is no number in {part.strip()}", f"for example {option} 1-3")
        if len(found) + high - low >= ARRAY_MOST:
            raise CliError(f"{option} {text}", f"at most {ARRAY_MOST} numbers are taken", "give fewer")
        found += range(low, high + 1)
    return tuple(found)


# Options for how often is decided, and for how long jobs are left alone; else as the policy is meant ------------------

PassIntervalOption = Annotated[
    float | None,
    described(
        "--pass-interval",
        "Decide at least this often, besides at events; 0: at events only.",
        "SECONDS",
        min=0,
        show_default="as the policy is meant",
    ),
]
CooldownOption = Annotated[
    float | None,
    described(
        "--cooldown",
        "A job takes no order for this long after a resize.",
        "SECONDS",
        min=0,
        show_default="as the policy is meant",
    ),
]


# Times and durations: 18:00, tomorrow's date, 2h; and the scheduler's clock as the user's -----------------------------

_UNITS: Final = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_PART: Final = re.compile(r"(\d+(?:\.\d+)?)(min|[smhd])")


def read_duration(option: str, text: str) -> float:
    """Read a duration: 90 (seconds), 45m, 2h, 1h30m, 1d."""
    compact = text.replace(" ", "")
    if re.fullmatch(r"\d+(?:\.\d+)?", compact):
        return float(compact)
    parts = _PART.findall(compact)
    if not parts or "".join(number + unit for number, unit in parts) != compact:
        raise CliError(
            f"{option} {text}: not a duration", "a duration is like 90, 45m, 2h, 1h30m or 1d", f"{option} 2h"
        )
    return sum(float(number) * _UNITS[unit] for number, unit in parts)


def read_time(option: str, text: str, now: dt.datetime) -> dt.datetime:
    """Read a time that is not past: now, +30m, 18:00 (the next one), 2026-12-01T18:00; in the time zone of ``now``."""
    if text == "now":
        return now
    try:
        if text.startswith("+"):
            return now + dt.timedelta(seconds=read_duration(option, text[1:]))
        if re.fullmatch(r"\d{1,2}:\d{2}(:\d{2})?", text):
            time = dt.time.fromisoformat(text.rjust(5, "0") if text.count(":") == 1 else text.rjust(8, "0"))
            found = dt.datetime.combine(now.date(), time).astimezone()
            return found if found >= now else dt.datetime.combine(now.date() + dt.timedelta(days=1), time).astimezone()
        found = dt.datetime.fromisoformat(text)
        found = found if found.tzinfo is not None else found.astimezone()
    except (OverflowError, ValueError):
        raise CliError(
            f"{option} {text}: not a time", "a time is like now, +30m, 18:00 or 2026-12-01T18:00", f"{option} 18:00"
        ) from None
    if found < now:
        raise CliError(f"{option} {text}: that is past", f"it is {time_text(now, now)} now", "name a later time")
    return found


def time_text(when: dt.datetime, now: dt.datetime) -> str:
    """Word a time, with its date only if that is not today's."""
    return f"{when:%H:%M:%S}" if when.date() == now.date() else f"{when:%Y-%m-%d %H:%M}"


def clock_text(at_s: float, now_s: float, now: dt.datetime) -> str:
    """Word a time on the scheduler's clock, on which it is ``now_s`` at ``now``."""
    return time_text(now + dt.timedelta(seconds=at_s - now_s), now)


def local_now() -> dt.datetime:
    """Return the present time in the user's time zone."""
    return dt.datetime.now().astimezone()


# Files that a command is to write, looked at before it works for them -------------------------------------------------

PICTURES: Final = (".png",)
WORKLOADS: Final = (".swf", ".swf.gz")


def expect_file(option: str, path: Path | None, endings: tuple[str, ...] = (), *, inputs: Iterable[Path] = ()) -> None:
    """See that the file that ``option`` names can be written, as far as that can be said beforehand, and is no input.

    Its name has one of the endings, if some are given: what is written is only read, or shown, by such a name.
    """
    if path is None:
        return
    folder = path.parent
    if path.is_dir():
        raise CliError(f"{option} {path}: this is a folder", "a file is to be written", "name one in it")
    if not folder.is_dir():
        raise CliError(f"{option} {path}: there is no folder {folder}", hint="make it, or write elsewhere", code=1)
    if not os.access(path if path.exists() else folder, os.W_OK):
        raise CliError(f"{option} {path}: Permission denied", hint="write elsewhere", code=1)
    if path.is_file() and any(each.is_file() and path.samefile(each) for each in inputs):
        raise CliError(f"{option} {path}: this file is read", "it would be overwritten", "write to another one")
    if endings and not path.name.lower().endswith(endings) and not path.is_char_device():
        raise CliError(
            f"{option} {path}: another ending than {' or '.join(endings)}",
            "a file of such a kind is only recognised by its ending",
            f"for example: {option} {path.with_suffix(endings[0])}",
        )


# TOML, with errors that name the line ---------------------------------------------------------------------------------

_MOST_BYTES: Final = 2**20
"""Of a file of options or of a job."""
_SYNTAX_AT: Final = re.compile(r"\(at line (\d+), column \d+\)")


def read_toml(path: Path, what: str, instead: str) -> tuple[str, dict[str, Any]]:
    """Return the text of ``path`` and its values; errors say what the file is, and what to do if it cannot be read."""
    import tomllib

    try:
        with path.open("rb") as file:  # it may be a device, which has no end
            data = file.read(_MOST_BYTES + 1)
        text = data.decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise CliError(f"{path}: {reason}", hint=instead) from None
    if len(data) > _MOST_BYTES:
        raise CliError(f"{path}: more than {_MOST_BYTES:,} bytes", f"{what} is short", instead)
    try:
        return text, tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # also those of a number that is too long, and of too many brackets
        found = _SYNTAX_AT.search(str(error))
        line = found[1] if found else str(len(text.splitlines()))
        wrong = _SYNTAX_AT.sub("", str(error)).strip()
        raise CliError(f"{path}:{line}: {wrong}", f"{what} is TOML", "for example: nodes = 2") from None


def line_of(text: str, key: str) -> int:
    """Return the line on which ``key`` is set, 1 if it is not found."""
    form = re.compile(rf"\s*\[?[\"']?{re.escape(key)}[\"']?\s*[=.\]]")
    return next((number for number, line in enumerate(text.splitlines(), start=1) if key and form.match(line)), 1)
