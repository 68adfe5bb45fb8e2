"""Job files: TOML, with errors that name the line."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from scheduler_bridge.cli.errors import CliError, culprit
from scheduler_bridge.cli.numbers import numbers
from scheduler_bridge.cli.toml_file import line_of, read_toml
from scheduler_bridge.live import JobRequest, SubmitError
from scheduler_bridge.live.template import resolve_program
from scheduler_bridge.model.job_file import KEYS

_FIELDS: Final = {"class": "job_class", "env": "environment"}
"""Keys of the file that are named otherwise in a request."""
_ASIDE: Final = ("array",)
"""Keys that are not part of the request for one job."""
_REQUIRED: Final = ("command",)


@dataclass(frozen=True, slots=True)
class JobFile:
    """A job file that was read."""

    path: Path
    text: str
    values: dict[str, Any]

    @classmethod
    def read(cls, path: Path) -> JobFile:
        """Read ``path``.

        Raises:
            CliError: It cannot be read, is not TOML, or has an unknown or lacks a required key.
        """
        text, values = read_toml(path, "a job file", "give a job file, or a command after --")
        file = cls(path, text, values)
        for key in values:
            if key not in KEYS:
                raise file.error(
                    key, f"unknown key {key!r}", f"a job file has {', '.join(KEYS)}", "remove or rename it"
                )
        for key in _REQUIRED:
            if key not in values:
                raise file.error(key, f"{key} is missing", "a job needs it", 'add: command = ["python", "hello.py"]')
        return file

    def request(self, *, user: str, cwd: str) -> JobRequest:
        """Return the request; relative folders are seen from ``cwd``.

        Raises:
            CliError: A value is wrong; the text names its line.
        """
        values = {_FIELDS.get(key, key): value for key, value in self.values.items() if key not in _ASIDE}
        if "job_class" not in values and ("min_nodes" in values or "max_nodes" in values):
            values["job_class"] = "malleable"
        values["cwd"] = str(Path(cwd) / str(values.get("cwd", "")))
        values.setdefault("user", user)
        values.setdefault("name", self.path.stem)
        try:
            request = msgspec.convert(values, JobRequest)
        except msgspec.ValidationError as error:
            field, what = culprit(error)
            raise self.error(field, f"{_key_of(field)}: {what}", hint="see: malleable submit --help") from None
        try:
            request.bounds()
            program = resolve_program(request.command[0], request.cwd)
        except SubmitError as error:
            raise self.error(error.field, str(error), error.why, error.hint) from None
        return msgspec.structs.replace(request, command=(program, *request.command[1:]))

    def array(self) -> tuple[int, ...] | None:
        """Return the numbers of the jobs if the file is one of an array.

        Raises:
            CliError: They are no numbers.
        """
        wanted = self.values.get("array")
        if wanted is None:
            return None
        if not isinstance(wanted, str):
            raise self.error("array", "array: numbers are given as text", "it may hold spans", 'for example: "0-9"')
        try:
            return numbers("array", wanted)
        except CliError as error:
            raise self.error("array", str(error), error.why, error.hint) from None

    def error(self, field: str, what: str, why: str = "", hint: str = "") -> CliError:
        """Return an error about ``field`` (a key of the file or a field of the request), with its line."""
        return CliError(f"{self.path}:{line_of(self.text, _key_of(field))}: {what}", why, hint)


def _key_of(field: str) -> str:
    return next((key for key, name in _FIELDS.items() if name == field), field)
