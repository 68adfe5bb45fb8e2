"""A workload's file: what it is called, and its bytes, whether compressed, cut off, piped, or no text at all."""

from __future__ import annotations

import codecs
import gzip
import io
import sys
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final, cast

from scheduler_bridge.workloads.findings import Findings, TraceError

CUT_OFF: Final = "the compressed file is cut off here"
STANDARD_INPUT: Final = Path("-")
_COMPRESSED: Final = (".gz", ".xz", ".bz2", ".zst")
_FORMS: Final = (".swf", ".csv", ".json", ".toml", ".txt")
_HEAD_BYTES: Final = 65_536


@dataclass(frozen=True, slots=True)
class Source:
    """A file, or what came by a pipe.

    Attributes:
        path: Where it is; ``STANDARD_INPUT``: nowhere.
        piped: The bytes of what can be read only once; None: they are in the file.
    """

    path: Path
    piped: bytes | None = None

    @classmethod
    def of(cls, given: Source | Path | str) -> Source:
        """The source that is meant; ``-`` is standard input, which is read now.

        Raises:
            OSError: It cannot be read.
        """
        if isinstance(given, Source):
            return given
        path = Path(given)
        if path == STANDARD_INPUT:
            return cls(path, sys.stdin.buffer.read())
        return cls(path, path.read_bytes() if path.is_fifo() else None)

    def __str__(self) -> str:
        return "standard input" if self.path == STANDARD_INPUT else str(self.path)

    @property
    def file_name(self) -> str:
        """What it is called, without its folder."""
        return "standard input" if self.path == STANDARD_INPUT else self.path.name

    @property
    def stem(self) -> str:
        """The same without the endings that tell compression and form."""
        name = self.file_name
        for endings in (_COMPRESSED, _FORMS):
            if name.lower().endswith(endings):
                name = name[: name.rindex(".")]
        return name or self.file_name

    @property
    def form(self) -> str:
        """The ending that tells the form; empty: it has none that does."""
        name = self.file_name.lower()
        for ending in _COMPRESSED:
            name = name.removesuffix(ending)
        return next((ending for ending in _FORMS[:-1] if name.endswith(ending)), "")

    def open(self) -> IO[bytes]:
        """Its bytes, unpacked; how they are packed is recognized by the first of them.

        Raises:
            TraceError: This Python cannot unpack it.
            OSError: It cannot be read.
        """
        where: Path | IO[bytes] = self.path if self.piped is None else io.BytesIO(self.piped)
        with self._packed() as packed:
            first = packed.read(6)
        if first.startswith(b"\x1f\x8b"):
            return cast("IO[bytes]", gzip.open(where))
        if first.startswith(b"\xfd7zXZ\x00"):
            import lzma

            return lzma.open(where)
        if first.startswith(b"BZh"):
            import bz2

            return bz2.open(where)
        if first.startswith(b"\x28\xb5\x2f\xfd"):
            return self._open_zstd(where)
        return self._packed()

    def _packed(self) -> IO[bytes]:
        return self.path.open("rb") if self.piped is None else io.BytesIO(self.piped)

    def _open_zstd(self, where: Path | IO[bytes]) -> IO[bytes]:
        try:
            from compression import zstd  # type: ignore[import-not-found,unused-ignore]  # from Python 3.14 on
        except ImportError:
            raise TraceError(
                f"{self}: compressed by zstd",
                "this Python cannot unpack it: 3.14 is the first one that can",
                f"pipe it: zstd -dc {self.path} | malleable ... -",
            ) from None
        opened: IO[bytes] = zstd.open(where)
        return opened

    def head(self) -> bytes:
        """Its first bytes, unpacked, as far as they can be."""
        found = b""
        with self.open() as file:
            try:
                while len(found) < _HEAD_BYTES and (more := file.read(_HEAD_BYTES - len(found))):
                    found += more
            except Exception as error:
                if not _is_damage(error):
                    raise
        return found.removeprefix(codecs.BOM_UTF8)

    def read(self) -> bytes:
        """All of its bytes, unpacked.

        Raises:
            TraceError: It is compressed, and cut off or damaged.
            OSError: It cannot be read.
        """
        with self.open() as file:
            try:
                return file.read().removeprefix(codecs.BOM_UTF8)
            except Exception as error:
                if not _is_damage(error):
                    raise
                raise self._cut_off(error, "") from None

    def lines(self, findings: Findings, *, keep_cut_off: bool = False) -> Iterator[str]:
        """Its lines with their ends; what is not UTF-8 in them are lone surrogates: see ``is_text``.

        Args:
            findings: Counts it if the file is cut off.
            keep_cut_off: Use the readable beginning of a compressed file that is cut off or damaged.

        Raises:
            TraceError: It is compressed, and cut off or damaged, and this is not wanted.
            OSError: It cannot be read.
        """
        number = 0
        with io.TextIOWrapper(self.open(), "utf-8", errors="surrogateescape", newline="\n") as file:
            try:
                for number, line in enumerate(file, start=1):
                    yield line.removeprefix("\ufeff") if number == 1 else line
            except Exception as error:
                if not _is_damage(error):
                    raise
                if not keep_cut_off:
                    raise self._cut_off(error, f" after line {number}") from None
                findings.note(CUT_OFF, number)

    def _cut_off(self, error: Exception, where: str) -> TraceError:
        return TraceError(
            f"{self}: the compressed file ends early or is damaged{where}",
            f"{error}; how many jobs are missing is not known",
            "get the file again, or use what is readable with --keep-cut-off",
        )


def _is_damage(error: Exception) -> bool:
    """Whether what unpacks says so, and not the file system; the latter gives a number of the error."""
    if isinstance(error, OSError):
        return error.errno is None
    return isinstance(error, (EOFError, zlib.error)) or type(error).__name__ in ("LZMAError", "ZstdError")


def is_text(line: str) -> bool:
    """Whether a line is UTF-8."""
    return line.isascii() or not any("\udc80" <= character <= "\udcff" for character in line)
