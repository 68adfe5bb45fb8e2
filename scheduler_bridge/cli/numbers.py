"""Lists of numbers as people write them: 3,5-7."""

from __future__ import annotations

from scheduler_bridge.cli.errors import CliError
from scheduler_bridge.live.requests import ARRAY_MOST


def numbers(option: str, text: str | None) -> tuple[int, ...] | None:
    """Read numbers such as 3,5-7.

    Raises:
        CliError: They are none.
    """
    if text is None:
        return None
    found: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise CliError(f"{option} {text}", "numbers are given as 3,5-7", f"for example {option} 1-3")
        low, high = int(first), int(last or first)
        if len(found) + high - low >= ARRAY_MOST:
            raise CliError(f"{option} {text}", f"at most {ARRAY_MOST} numbers are taken", "give fewer")
        found += range(low, high + 1)
    if not found:
        raise CliError(f"{option} {text}", "there is no number in it", f"for example {option} 1-3")
    return tuple(found)
