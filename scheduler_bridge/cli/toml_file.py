"""TOML files of users, with errors that name the line."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any, Final

from scheduler_bridge.cli.errors import CliError

_SYNTAX_AT: Final = re.compile(r"\(at line (\d+), column \d+\)")


def read_toml(path: Path, what: str, instead: str) -> tuple[str, dict[str, Any]]:
    """Return the text of ``path`` and its values.

    Args:
        path: The file.
        what: What it is, for errors: "a job file".
        instead: What to do if it cannot be read.

    Raises:
        CliError: It cannot be read or is not TOML.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise CliError(f"{path}: {reason}", hint=instead) from None
    try:
        return text, tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = _SYNTAX_AT.search(str(error))
        line = found[1] if found else str(len(text.splitlines()))
        wrong = _SYNTAX_AT.sub("", str(error)).strip()
        raise CliError(f"{path}:{line}: {wrong}", f"{what} is TOML", "for example: nodes = 2") from None


def line_of(text: str, key: str) -> int:
    """Return the line on which ``key`` is set, 1 if it is not found."""
    form = re.compile(rf"\s*\[?[\"']?{re.escape(key)}[\"']?\s*[=.\]]") if key else None
    for number, line in enumerate(text.splitlines(), start=1):
        if form is not None and form.match(line):
            return number
    return 1
