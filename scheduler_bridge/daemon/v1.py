"""Protocol v1's lines for administrators: a line each, a line in answer, and nothing that proves who speaks.

``FILE.sh`` submits that job script, ``Add Node a,b`` adds nodes, ``shutdown`` ends the scheduler. Scripts are taken
from one folder only, which the operator names: any peer that reaches the port may run what is in there.
Off unless asked for.
"""

from __future__ import annotations

import asyncio
import logging
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, Self

import msgspec

from scheduler_bridge.daemon.config import DaemonError
from scheduler_bridge.daemon.daemon import Daemon, submit_durably
from scheduler_bridge.daemon.listener import Counted, Listener
from scheduler_bridge.daemon.requests import JobRequest, SubmitError
from scheduler_bridge.printable import one_line

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class AdminConfig:
    """Settings of the port.

    Attributes:
        port: Where to listen; 0: a free port.
        scripts: The folder of the job scripts that may be submitted.
        host: Address to listen on.
        line_s: Time for a line to be said.
        connections: How many at a time.
        line_bytes: Length of a line.
    """

    port: int
    scripts: Path
    host: str = "127.0.0.1"
    line_s: float = 5.0
    connections: int = 16
    line_bytes: int = 4096


class AdminServer:
    """Takes the lines; an async context manager.

    It may be entered before the daemon: where its port is not to be had, the daemon takes up no jobs then.

    Args:
        daemon: What they concern.
        config: Where to listen, and limits.
        serving: False: who speaks waits for ``listener.serve``, which the daemon must be there for.

    Raises:
        DaemonError: On entering: the port is not to be had, or there is no such folder.
    """

    def __init__(self, daemon: Daemon, config: AdminConfig, *, serving: bool = True) -> None:
        self._daemon, self._config, self._serving = daemon, config, serving
        self._log = Counted(_logger)
        self.listener = Listener(self._serve, config.connections)
        self.port = config.port

    async def __aenter__(self) -> Self:
        config = self._config
        if not config.scripts.is_dir():
            raise DaemonError(f"{config.scripts} is not a folder", "name the folder of the job scripts: --v1-scripts")
        hints = "give another host in [v1] of the configuration, or none", "choose another port with --v1-admin"
        address = (config.host, config.port)
        self.port = await self.listener.start(
            address, "take v1's lines", hints, config.line_bytes, serving=self._serving
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.listener.stop()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(self._config.line_s):
                line = await reader.readuntil(b"\n")
            answer = await self._carried_out(line)
            async with asyncio.timeout(self._config.line_s):
                writer.write(f"{one_line(answer)}\n".encode())
                await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            self._log.log(logging.WARNING, "a v1 administrator said no line: %r", error)

    async def _carried_out(self, line: bytes) -> str:
        """Do what a line asks for; return what is answered."""
        try:
            done = await self._understood(line.decode("ascii").strip())
        except UnicodeDecodeError:
            self._log.log(logging.WARNING, "a v1 administrator's line is not ASCII: %r", line[:60])
            return "undefined Message"
        except (UnknownLineError, ScriptError, SubmitError, DaemonError) as error:
            self._log.log(logging.WARNING, "a v1 administrator's line is refused: %s", error)
            return "undefined Message" if isinstance(error, UnknownLineError) else f"Refused >> {error}"
        _logger.info("for a v1 administrator: %s", done)
        return done

    async def _understood(self, line: str) -> str:
        if line == "shutdown":
            self._daemon.request_stop()
            return "Start >> shutdown"
        if line.startswith("Add Node "):
            names = tuple(name.strip() for name in line.removeprefix("Add Node ").split(","))
            self._daemon.add_nodes(names)
            return f"Add Nodes >> {','.join(names)}"
        if line.endswith(".sh"):
            return f"Add Job >> JobID:{await submit_durably(self._daemon, read_script(self._script(line)))}"
        raise UnknownLineError(f"{line[:60]!r} is none of FILE.sh, Add Node a,b and shutdown")

    def _script(self, name: str) -> Path:
        folder = self._config.scripts.resolve()
        try:
            path = (folder / name).resolve()
        except (OSError, ValueError, RuntimeError) as error:
            raise ScriptError(f"{name[:60]!r} is not the path of a file: {error}") from None
        if not path.is_relative_to(folder):
            raise ScriptError(f"{name} is not in {folder}, from where scripts are taken")
        return path


# The published system's job scripts: shell scripts whose first comments say what the job needs ----------------------
#
# ======================================  =======================================================================
# ``#JOB_CLASS rigid|malleable|evolving``  rigid unless given; an evolving job is a malleable one that asks for nodes
# ``#JOB_NAME NAME``                       the script's name unless given
# ``#REQUIRED_TIME MS``                    walltime in milliseconds; an hour unless given
# ``#NODES N``                             size of a rigid job; of others, what they start with
# ``#MIN_NODES N``, ``#MAX_NODES N``       bounds of the others
# ``#JOB_TYPE TYPE``                       read and ignored
# ``#!INTERPRETER``                        the first line: what runs the script, /bin/sh unless given
# ======================================  =======================================================================
#
# The gate gives a script the variables that the published scheduler gives it; those that only the script tells are set
# here.

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


class UnknownLineError(ValueError):
    """A line that is none of an administrator's."""


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
    all_lines = text.splitlines()
    for number, line in enumerate(all_lines, start=1):
        match = _HEADER.fullmatch(line.strip())
        if match is None:
            continue
        name, value = match[1], match[2].strip()
        if name in _NUMBERS and not (value.isascii() and value.isdigit() and len(value) < 16):
            raise ScriptError(f"{path}:{number}: {name} is {value[:40]!r}, not a number")
        if name == "JOB_CLASS" and value not in _CLASSES:
            raise ScriptError(f"{path}:{number}: JOB_CLASS is {value[:40]!r}, not one of {', '.join(_CLASSES)}")
        found[name] = value
    return _request(found, _interpreter(all_lines[0] if all_lines else ""), path)


def _interpreter(line: str) -> tuple[str, ...]:
    """The words before a script's path, as the kernel reads its first line: a path, and all that follows as one."""
    return tuple(line.removeprefix("#!").strip().split(maxsplit=1)) if line.startswith("#!") else ()


def _request(found: dict[str, str], interpreter: tuple[str, ...], path: Path) -> JobRequest:
    numbers = {name: int(found[name]) for name in _NUMBERS if name in found}
    elastic = found.get("JOB_CLASS", "rigid")
    job_class = _CLASSES[elastic]
    fields: dict[str, object] = {
        "name": found.get("JOB_NAME", path.stem),
        "command": (*(interpreter or ("/bin/sh",)), str(path)),
        "job_class": job_class,
        "nodes": numbers.get("NODES", numbers.get("MIN_NODES", 1)),
        "walltime_s": numbers.get("REQUIRED_TIME", 3_600_000) / 1000,
        "cwd": str(path.parent),
        "protocol": "v1",
        "environment": {"SCRIPT_DIR": str(path.parent), "ELASTIC": elastic},
    }
    if job_class == "malleable":
        fields |= {name.lower(): numbers[name] for name in ("MIN_NODES", "MAX_NODES") if name in numbers}
    try:
        request = msgspec.convert(fields, JobRequest)
        request.bounds()
    except (msgspec.ValidationError, SubmitError) as error:
        raise ScriptError(f"{path}: {error}") from None
    return request
