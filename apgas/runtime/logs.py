"""Logging and output, tagged by place and activity; newcomers log as the others do."""

from __future__ import annotations

import atexit
import io
import logging
import os
import sys
import threading
from collections.abc import Iterable
from operator import attrgetter
from typing import Any, Final, TextIO

import msgspec

from apgas.core.messages import PlaceInfo
from apgas.errors import UsageError
from apgas.runtime import context
from apgas.runtime.driver import Driver, current_driver

ENV_LEVEL: Final = "APGAS_LOG_LEVEL"
FORMAT: Final = "%(asctime)s %(levelname)s [place %(place)s] %(activity)s %(name)s: %(message)s"


class Settings(msgspec.Struct, frozen=True):
    """How places log."""

    level: int
    format: str


settings: Settings | None = None
"""What was configured on this place; None: nothing."""


def configure_logging(level: int | str = "INFO", format: str = FORMAT) -> None:
    """Have every place write its log records to standard error, newcomers too; replaces what was configured before.

    Works before ``apgas.run``, on the places that run the same lines, and on place 0 in the program, for all. Without
    it, the environment variable ``APGAS_LOG_LEVEL`` does the same, and a program may use ``logging`` as it likes: while
    a program runs, every record has the attributes ``place``, the place's id, and ``activity``, the name of the
    function that the thread runs as an activity, both ``-`` where there is none.

    Args:
        level: The least severe level that is written, a name (upper or lower case) or a number of ``logging``.
        format: Of a record, in the style of ``logging``: ``%(place)s``, ``%(activity)s`` and all that logging knows.

    Raises:
        UsageError: There is no such level, the format is none, or the program is running and this is not place 0.

    Example:
        >>> apgas.configure_logging("WARNING", "%(levelname)s on %(place)s, %(activity)s: %(message)s")
    """
    driver = current_driver()
    if driver is not None and driver.core.here != 0:
        raise UsageError("logging is configured on place 0, for all places")
    chosen = Settings(_number(level), format)
    apply(chosen)
    if driver is not None:
        distribute(driver, driver.core.membership.staying)


def _number(level: int | str) -> int:
    """A level as a number.

    Raises:
        UsageError: There is no such level.
    """
    known = logging.getLevelNamesMapping()
    number = known.get(level, known.get(level.upper())) if isinstance(level, str) else level
    if not isinstance(number, int):
        raise UsageError(f"logging has no level {level!r}; it has {', '.join(known)}")
    return number


def distribute(driver: Driver, places: Iterable[PlaceInfo]) -> None:
    """(place 0) Have ``places`` log as this one does, if it was configured."""
    if settings is not None:
        for info in places:
            if info.place != driver.core.here:
                driver.immediate(driver.place(info.place), (apply, (settings,), {}))


def apply(chosen: Settings) -> None:
    """Log as ``chosen``.

    Raises:
        UsageError: The format is none.
    """
    global settings  # noqa: PLW0603 - logging is a matter of the process
    handler = logging.StreamHandler()
    absent = {"place": context.NOTHING, "activity": context.NOTHING}
    try:
        handler.setFormatter(logging.Formatter(chosen.format, defaults=absent))
        logging.basicConfig(level=chosen.level, handlers=[handler], force=True)
    except (ValueError, TypeError) as error:
        raise UsageError(f"logging cannot be configured so: {error}") from error
    settings = chosen


def install() -> None:
    """Have records name place and activity from now on, and log as the environment says, unless that was configured."""
    factory = logging.getLogRecordFactory()
    if not isinstance(factory, _Factory):
        logging.setLogRecordFactory(_Factory(factory))
    level = os.environ.get(ENV_LEVEL, "")
    if level and settings is None:
        try:
            apply(Settings(_number(int(level) if level.isdecimal() else level), FORMAT))
        except UsageError as error:
            raise UsageError(f"{ENV_LEVEL}: {error}") from error


_OURS: Final = frozenset({"place", "activity"})


class _Attributes(dict[str, Any]):
    """Those of a record. ``logging`` refuses an ``extra`` with names that are there already: ours may be replaced."""

    def __contains__(self, name: object) -> bool:
        return name not in _OURS and super().__contains__(name)

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(self),)  # a collector of records of many programs may not have this class


class _Factory:
    """Makes records as ``make`` does, which another library may have installed."""

    def __init__(self, make: Any) -> None:
        self._make = make

    def __call__(self, *args: Any, **kwargs: Any) -> logging.LogRecord:
        record: logging.LogRecord = self._make(*args, **kwargs)
        driver = current_driver()
        record.place = context.NOTHING if driver is None else driver.core.here
        record.activity = context.activity()
        record.__dict__ = _Attributes(record.__dict__)
        return record


# Standard output and error tagged by place: ``[place 3] ...``, whole lines at a time ---------------------------------

ENV_TAG: Final = "APGAS_TAG_OUTPUT"


class TaggedOutput(io.TextIOBase):
    """Writes to ``stream``, each line behind ``tag`` and in one piece; the parts of a line are kept per thread."""

    def __init__(self, stream: TextIO, tag: str) -> None:
        self._stream = stream
        self._tag = tag
        # a finalizer that prints may run within a write
        self._lock = threading.RLock()
        self._parts: dict[int, str] = {}

    # what the stream has, where ``TextIOBase`` would answer; what is written to ``buffer`` is not tagged
    encoding = property(attrgetter("_stream.encoding"))
    errors = property(attrgetter("_stream.errors"))
    buffer = property(attrgetter("_stream.buffer"))
    fileno = property(attrgetter("_stream.fileno"))
    isatty = property(attrgetter("_stream.isatty"))

    def __getattr__(self, name: str) -> Any:
        """What else the stream has: ``reconfigure``, ``name``, ``mode``."""
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._stream, name)

    def writable(self) -> bool:
        """Like any output."""
        return True

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
        """Write the lines that are not complete."""
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


def tag_output(place: int) -> None:
    """Tag what this process prints from now on, if that is wanted."""
    if not wanted() or isinstance(sys.stdout, TaggedOutput):
        return
    for name in ("stdout", "stderr"):
        tagged = TaggedOutput(getattr(sys, name), f"[place {place}] ")
        atexit.register(tagged.finish)
        os.register_at_fork(after_in_child=tagged.begin_anew)
        setattr(sys, name, tagged)
