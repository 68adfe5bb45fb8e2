"""The file that keeps how long the resizes of earlier runs have taken."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from apgas.core.resize import ResizeRecord, Sample, newest, samples_of
from apgas.runtime.environment import ENV_CALIBRATION

_MOST_BYTES: Final = 1 << 20
_log = logging.getLogger("apgas.resize")


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    version: Annotated[int, Meta(ge=1, le=1)]
    samples: list[Sample]


class Calibration:
    """A file with the resizes of earlier runs; one that cannot be used is as good as none."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @cached_property
    def samples(self) -> list[Sample]:
        """Those of earlier runs, the newest last."""
        return self._read()

    def store(self, records: Iterable[ResizeRecord]) -> None:
        """Add the resizes of this run, atomically; jobs that end at the same time may lose some of theirs."""
        new = samples_of(records)
        if not new:
            return
        file = _File(1, newest([*self._read(), *new]))
        part = self.path.with_name(f"{self.path.name}.{os.getpid()}.part")
        try:
            try:
                part.write_bytes(msgspec.json.encode(file) + b"\n")
                part.replace(self.path)
            finally:
                with suppress(OSError):  # what failed before is logged
                    part.unlink(missing_ok=True)
        except OSError as error:
            _log.warning("the calibration %s cannot be written: %s", self.path, error)

    def _read(self) -> list[Sample]:
        try:
            with self.path.open("rb") as stream:
                text = stream.read(_MOST_BYTES + 1)
            if len(text) > _MOST_BYTES:
                raise ValueError(f"more than {_MOST_BYTES} bytes")
            return msgspec.json.decode(text, type=_File).samples
        except FileNotFoundError:
            return []
        except (OSError, ValueError) as error:
            _log.warning("the calibration %s is ignored: %s", self.path, error)
            return []


def from_environment(environ: Mapping[str, str]) -> Calibration | None:
    """The file that ``APGAS_CALIBRATION`` names, if it does."""
    name = environ.get(ENV_CALIBRATION)
    return Calibration(Path(name).absolute()) if name else None
