"""Where a job's output goes: to the state folder, or to files that its user names; and what it found out.

A job may write a JSON object into the file that ``MALLEABLE_RESULT`` names: ``result`` (a number, a text, or an object
of such), ``verified`` (whether the job has found it right), ``error``. The record takes these.
"""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path
from typing import Any, Final

import msgspec

from scheduler_bridge.live import arrays
from scheduler_bridge.live.requests import JobRequest, SubmitError
from scheduler_bridge.live.state import StateFolder

_JOB, _INDEX = "{job}", "{index}"
ENV_RESULT: Final = "MALLEABLE_RESULT"
_TAKEN: Final = ("result", "verified", "error", "benchmark", "parameters", "seconds")
_MOST_BYTES: Final = 1 << 20
_MOST_KEPT_BYTES: Final = 4096
"""Of a document; the log keeps one for each job, for ever."""


def output_files(request: JobRequest, job_id: int, folder: StateFolder) -> tuple[Path, Path]:
    """Return the files for a job's standard output and standard error; they may be the same."""
    output = _filled(request, request.output, job_id) if request.output else folder.output(job_id)
    if request.errors:
        return output, _filled(request, request.errors, job_id)
    return output, output if request.output else folder.errors(job_id)


def result_of(key: str, folder: StateFolder) -> dict[str, Any] | None:
    """Read what an attempt has found out, as far as the record takes it; None: it wrote nothing that can be read.

    What a job has put there may be anything: a pipe must not hold the scheduler up, a link must not lead elsewhere.
    """
    with contextlib.suppress(OSError, ValueError, RecursionError):
        descriptor = os.open(folder.result(key), os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return None
            document = msgspec.json.decode(file.read(_MOST_BYTES))
        if isinstance(document, dict):
            found = {name: document[name] for name in _TAKEN if name in document}
            if len(msgspec.json.encode(found)) <= _MOST_KEPT_BYTES:
                return found
            return {name: found[name] for name in ("verified",) if isinstance(found.get(name), bool)}
    return None


def check_outputs(request: JobRequest) -> None:
    """See that a job's output could be written where its user wants it.

    Raises:
        SubmitError: There is no such folder, nothing may be written there, or there is a folder of that name.
    """
    for field, text in (("output", request.output), ("errors", request.errors)):
        if not text:
            continue
        if arrays.number_of(request) and _JOB not in text and _INDEX not in text:
            raise SubmitError(
                f"{text} would be written by every job of the array",
                field=field,
                hint=f"put {_INDEX} (its number) or {_JOB} (its id) into the name",
            )
        path = _filled(request, text, 0)
        if not path.parent.is_dir():
            raise SubmitError(f"{path.parent} is not a folder", field=field, hint=f"mkdir -p {path.parent}")
        if path.is_dir():
            raise SubmitError(f"{path} is a folder", field=field, hint=f"name a file in it, such as {path / _JOB}.out")
        if not os.access(path if path.exists() else path.parent, os.W_OK):
            raise SubmitError(f"{path} may not be written", field=field, hint="name a file that may be")


def _filled(request: JobRequest, text: str, job_id: int) -> Path:
    """Return a file as seen from the job's folder."""
    name = text.replace(_JOB, str(job_id)).replace(_INDEX, arrays.number_of(request))
    return Path(request.cwd or Path.cwd()) / name
