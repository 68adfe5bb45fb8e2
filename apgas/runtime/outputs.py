"""Standard output and error tagged by place: ``[place 3] ...``, whole lines at a time."""

from __future__ import annotations

import atexit
import io
import os
import sys
import threading
from typing import Any, Final, TextIO

ENV_TAG: Final = "APGAS_TAG_OUTPUT"


class TaggedOutput(io.TextIOBase):
    """Writes to ``stream``, each line behind ``tag`` and in one piece; the parts of a line are kept per thread.

    Args:
        stream: Where the lines go.
        tag: What stands before each of them.
    """

    def __init__(self, stream: TextIO, tag: str) -> None:
        self._stream = stream
        self._tag = tag
        # a finalizer that prints may run within a write
        self._lock = threading.RLock()
        self._parts: dict[int, str] = {}

    @property
    def encoding(self) -> str:  # type: ignore[override]  # read-only, as the stream's own is
        """That of the stream."""
        return self._stream.encoding

    @property
    def errors(self) -> str | None:  # type: ignore[override]  # read-only, as the stream's own is
        """That of the stream."""
        return self._stream.errors

    @property
    def buffer(self) -> object:
        """The bytes below: what is written there is not tagged."""
        return self._stream.buffer

    def __getattr__(self, name: str) -> Any:
        """What else the stream has: ``reconfigure``, ``name``, ``mode``."""
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._stream, name)

    def writable(self) -> bool:
        """Like any output."""
        return True

    def fileno(self) -> int:
        """That of the stream."""
        return self._stream.fileno()

    def isatty(self) -> bool:
        """That of the stream."""
        return self._stream.isatty()

    def write(self, text: str) -> int:
        """Keep ``text`` until its line is complete, then write that."""
        thread = threading.get_ident()
        with self._lock:
            *lines, rest = (self._parts.pop(thread, "") + text).split("\n")
            if rest:
                self._parts[thread] = rest + self._parts.get(thread, "")
            self._put(lines)
        return len(text)

    def finish(self) -> None:
        """Write the lines that nobody has completed."""
        with self._lock:
            rest = list(self._parts.values())
            self._parts.clear()
            self._put(rest)

    def begin_anew(self) -> None:
        """(forked child) Leave to the parent what is its; a thread that is not here may have held the lock."""
        self._lock = threading.RLock()
        self._parts.clear()

    def _put(self, lines: list[str]) -> None:
        if lines:
            self._stream.write("".join(f"{self._tag}{line}\n" for line in lines))
            self._stream.flush()


def wanted() -> bool:
    """Whether the environment says that what places print is to be tagged."""
    return os.environ.get(ENV_TAG, "0") not in ("", "0")


def want(*, tagged: bool) -> None:
    """(newcomer) Tag what this process prints if the other places do."""
    os.environ[ENV_TAG] = str(int(tagged))


def install(place: int) -> None:
    """Tag what this process prints from now on, if that is wanted."""
    if not wanted() or isinstance(sys.stdout, TaggedOutput):
        return
    for name in ("stdout", "stderr"):
        tagged = TaggedOutput(getattr(sys, name), f"[place {place}] ")
        atexit.register(tagged.finish)
        os.register_at_fork(after_in_child=tagged.begin_anew)
        setattr(sys, name, tagged)
