"""A workload's file: its bytes, whether compressed, cut off, piped, or no text at all, and what its reader found."""

from __future__ import annotations

import codecs
import io
import sys
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import IO, Final

CUT_OFF: Final = "the compressed file is cut off here"
STANDARD_INPUT: Final = Path("-")
_COMPRESSED: Final = (".gz", ".xz", ".bz2", ".zst")
_FORMS: Final = (".swf", ".csv", ".json", ".toml", ".txt")
_HEAD_BYTES: Final = 65_536
_UNPACKED_BY: Final = {
    b"\x1f\x8b": "gzip",
    b"\xfd7zXZ\x00": "lzma",
    b"BZh": "bz2",
    b"\x28\xb5\x2f\xfd": "compression.zstd",
}
"""Which module unpacks a file that begins so."""


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
        """The same without the endings of compression and form."""
        name = self.file_name
        for endings in (_COMPRESSED, _FORMS):
            if name.lower().endswith(endings):
                name = name[: name.rindex(".")]
        return name or self.file_name

    @property
    def form(self) -> str:
        """The ending that stands for the form; empty: it has none."""
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
        with self._packed() as packed:
            first = packed.read(6)
        module = next((module for begin, module in _UNPACKED_BY.items() if first.startswith(begin)), None)
        if module is None:
            return self._packed()
        try:
            unpacker = import_module(module)
        except ModuleNotFoundError as error:
            if error.name != "compression":  # from Python 3.14 on
                raise
            raise TraceError(
                f"{self}: compressed by zstd",
                "this Python cannot unpack it: 3.14 is the first one that can",
                f"pipe it: zstd -dc {self.path} | malleable ... -",
            ) from None
        opened: IO[bytes] = unpacker.open(self.path if self.piped is None else io.BytesIO(self.piped))
        return opened

    def _packed(self) -> IO[bytes]:
        return self.path.open("rb") if self.piped is None else io.BytesIO(self.piped)

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


# Findings of readers: counts by reason, with the first lines, so that nothing is lost in silence ---------------------

_EXAMPLES = 3


class TraceError(ValueError):
    """A file that is refused as a whole.

    Args:
        what: Names the file and what is wrong.
        why: The rule.
        hint: What to do.
    """

    def __init__(self, what: str, why: str = "", hint: str = "") -> None:
        super().__init__(what)
        self.why = why
        self.hint = hint


@dataclass(slots=True)
class Finding:
    """How often one thing was found, in which lines first, and what it cost.

    Attributes:
        count: Records.
        lines: The first line numbers; empty where the input has no lines.
        node_hours: Nodes times runtime of the records, where they were known.
        example: Which field of the first of these lines has which value, where that says more.
    """

    count: int = 0
    lines: list[int] = field(default_factory=list)
    node_hours: float = 0.0
    example: str = ""


@dataclass(slots=True)
class Findings:
    """An account of what became of the records of a file.

    Attributes:
        records: Records that were read.
        skipped: Records that were left out, by reason.
        noted: Records that were kept, mended or not, by what is odd about them.
        kept_node_hours: Of all jobs of the file, where a workload has only those of some days; None: it has all.
    """

    records: int = 0
    skipped: dict[str, Finding] = field(default_factory=dict)
    noted: dict[str, Finding] = field(default_factory=dict)
    kept_node_hours: float | None = None

    def skip(self, reason: str, line: int | None = None, node_hours: float = 0.0, example: str = "") -> None:
        """Count a record that is left out."""
        _count(self.skipped, reason, line, node_hours, example)

    def note(self, what: str, line: int | None = None, node_hours: float = 0.0, example: str = "") -> None:
        """Count a record that is kept."""
        _count(self.noted, what, line, node_hours, example)

    def note_all(self, what: str, lines: Sequence[int]) -> None:
        """Count records that are kept, by their lines."""
        if lines:
            self.note(what, lines[0])
            finding = self.noted[what]
            finding.count += len(lines) - 1
            finding.lines += lines[1 : 1 + _EXAMPLES - len(finding.lines)]

    @property
    def total_skipped(self) -> int:
        """Records that were left out."""
        return sum(finding.count for finding in self.skipped.values())

    @property
    def lost_node_hours(self) -> float:
        """Nodes times runtime of the records that were left out, where they were known."""
        return sum(finding.node_hours for finding in self.skipped.values())

    def rows(self) -> Iterator[tuple[str, str, Finding]]:
        """("skipped" or "kept", reason, finding), most frequent first."""
        for kind, findings in (("skipped", self.skipped), ("kept", self.noted)):
            for reason, finding in sorted(findings.items(), key=lambda item: (-item[1].count, item[0])):
                yield kind, reason, finding

    def summary(self) -> str:
        """What was read and what became of it, in one line, with the first line and value of each kind."""
        parts = [f"{finding.count} {reason}{_where(finding)}" for _, reason, finding in self.rows()]
        return f"{self.records} records were read: {', '.join(parts) or 'it is empty'}"


def _where(finding: Finding) -> str:
    if not finding.lines:
        return f" ({finding.example})" if finding.example else ""
    return f" (line {finding.lines[0]}{': ' if finding.example else ''}{finding.example})"


def _count(findings: dict[str, Finding], reason: str, line: int | None, node_hours: float, example: str) -> None:
    finding = findings.get(reason)
    if finding is None:
        finding = findings[reason] = Finding(example=example)
    finding.count += 1
    finding.node_hours += node_hours
    if line is not None and len(finding.lines) < _EXAMPLES:
        finding.lines.append(line)
