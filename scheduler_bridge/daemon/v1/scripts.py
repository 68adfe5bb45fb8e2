"""The published system's job scripts: shell scripts whose comments at the beginning say what the job needs.

======================================  =======================================================================
``#JOB_CLASS rigid|malleable|evolving``  rigid unless given; an evolving job is a malleable one that asks for nodes
``#JOB_NAME NAME``                       the script's name unless given
``#REQUIRED_TIME MS``                    walltime in milliseconds; an hour unless given
``#NODES N``                             size of a rigid job; of others, what they start with
``#MIN_NODES N``, ``#MAX_NODES N``       bounds of the others
``#JOB_TYPE TYPE``                       read and ignored
======================================  =======================================================================
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, Literal

import msgspec

from scheduler_bridge.daemon.requests import JobRequest, SubmitError

MAX_BYTES: Final = 1024 * 1024
_HEADER: Final = re.compile(
    r"#\s*(JOB_TYPE|JOB_CLASS|JOB_NAME|REQUIRED_TIME|NODES|MIN_NODES|MAX_NODES)(?:\s*[=:]\s*|\s+)(\S.*)"
)
_NUMBERS: Final = ("REQUIRED_TIME", "NODES", "MIN_NODES", "MAX_NODES")
_CLASSES: Final[dict[str, Literal["rigid", "malleable"]]] = {
    "rigid": "rigid",
    "malleable": "malleable",
    "evolving": "malleable",
}


class ScriptError(ValueError):
    """A script that cannot be submitted; the text says which, where and why."""


def read_script(path: Path) -> JobRequest:
    """Read a job script.

    Raises:
        ScriptError: It cannot be read, or a header makes no sense; the text names its line.
    """
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise ScriptError(f"{path}: {error.strerror}") from None
    if len(content) > MAX_BYTES:
        raise ScriptError(f"{path}: longer than {MAX_BYTES} bytes")
    return parse_script(content.decode("utf-8", "replace"), path)


def parse_script(text: str, path: Path) -> JobRequest:
    """Read the headers in ``text``, the content of the script at ``path``.

    Raises:
        ScriptError: A header makes no sense; the text names its line.
    """
    found: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        match = _HEADER.fullmatch(line.strip())
        if match is None:
            continue
        name, value = match[1], match[2].strip()
        if name in _NUMBERS and not (value.isascii() and value.isdigit() and len(value) < 16):
            raise ScriptError(f"{path}:{number}: {name} is {value[:40]!r}, not a number")
        if name == "JOB_CLASS" and value not in _CLASSES:
            raise ScriptError(f"{path}:{number}: JOB_CLASS is {value[:40]!r}, not one of {', '.join(_CLASSES)}")
        found[name] = value
    return _request(found, path)


def _request(found: dict[str, str], path: Path) -> JobRequest:
    numbers = {name: int(found[name]) for name in _NUMBERS if name in found}
    job_class = _CLASSES[found.get("JOB_CLASS", "rigid")]
    fields: dict[str, object] = {
        "name": found.get("JOB_NAME", path.stem),
        "command": ("/bin/sh", str(path)),
        "job_class": job_class,
        "nodes": numbers.get("NODES", numbers.get("MIN_NODES", 1)),
        "walltime_s": numbers.get("REQUIRED_TIME", 3_600_000) / 1000,
        "cwd": str(path.parent),
        "protocol": "v1",
    }
    if job_class == "malleable":
        fields |= {name.lower(): numbers[name] for name in ("MIN_NODES", "MAX_NODES") if name in numbers}
    try:
        request = msgspec.convert(fields, JobRequest)
        request.bounds()
    except (msgspec.ValidationError, SubmitError) as error:
        raise ScriptError(f"{path}: {error}") from None
    return request
