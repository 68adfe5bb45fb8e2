"""What readers and cleaners found: counts by reason, with the first lines, so that nothing is lost in silence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

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
