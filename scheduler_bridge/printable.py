"""The one place that escapes texts of jobs and users for other people's terminals, logs, tables and pages.

The daemon escapes what a job says when it comes in, so that neither its log nor an answer holds more than one printable
line; and refuses names that are none. The command line and the pages escape whatever they show once more, for records
and workloads come from anywhere.
"""

from __future__ import annotations

from typing import Any


def printable(text: str, keep: str = "") -> str:
    r"""Escape what no terminal may be given, as ``\x1b``: control, direction, unpaired and unassigned characters."""
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() or each in keep else each.encode("unicode_escape").decode("ascii") for each in text
    )


def one_line(text: str) -> str:
    """Make one printable line of a text: white space becomes single spaces, the rest is escaped."""
    return printable(" ".join(text.split()))


def lines_of(value: Any) -> Any:
    """Make one printable line of each text in ``value``, keys included, however deep: of what JSON knows."""
    match value:
        case str():
            return one_line(value)
        case dict():
            return {lines_of(key): lines_of(each) for key, each in value.items()}
        case list() | tuple():
            return type(value)(map(lines_of, value))
        case _:
            return value
