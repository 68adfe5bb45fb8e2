"""Lines of a file that may be compressed, may be cut off, and may be no text at all."""

from __future__ import annotations

import codecs
import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path

from scheduler_bridge.workloads.findings import Findings, TraceError

CUT_OFF = "the compressed file is cut off here"


def read_lines(path: Path, findings: Findings, *, keep_cut_off: bool = False) -> Iterator[tuple[int, str | None]]:
    """Yield (number, line without its end); None for a line that is not UTF-8. ``.gz`` is unpacked.

    Comments (from ``;`` on) that are not UTF-8 are read as far as they are.

    Args:
        path: The file.
        findings: Counts it if the file is cut off.
        keep_cut_off: Use the readable beginning of a compressed file that is cut off or damaged.

    Raises:
        TraceError: A compressed file is cut off or damaged, and this is not wanted.
        OSError: The file cannot be read.
    """
    number = 0
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        try:
            for raw in file:
                number += 1
                if number == 1:
                    raw = raw.removeprefix(codecs.BOM_UTF8)  # noqa: PLW2901 - no part of the line: some editors write it
                try:
                    yield number, raw.decode("utf-8").rstrip("\r\n")
                except UnicodeDecodeError:
                    comment = raw.startswith(b";")
                    if comment:
                        findings.note("comments that are not UTF-8", number)
                    yield number, raw.decode("utf-8", "replace").rstrip("\r\n") if comment else None
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            if not keep_cut_off:
                raise TraceError(
                    f"{path}: the compressed file ends early or is damaged after line {number}",
                    f"{error}; how many jobs are missing is not known",
                    "get the file again, or use what is readable with --keep-cut-off",
                ) from None
            findings.note(CUT_OFF, number)
