"""The test vectors of wire protocol v2, which schedulers and jobs of other makers can use as well."""

from __future__ import annotations

import json
from typing import Any

from support import ROOT

FOLDER = ROOT / "docs" / "protocol"
VECTORS: dict[str, Any] = json.loads((FOLDER / "v2.vectors.json").read_text(encoding="utf-8"))
TOKEN: str = VECTORS["token"]
JOB: int = VECTORS["job"]


def messages(kind: str, speaker: str) -> list[Any]:
    """The ``valid`` or ``invalid`` lines that a ``job`` or a ``scheduler`` says."""
    return [vector for vector in VECTORS[kind] if vector["from"] == speaker]


def about(vector: Any) -> str:
    """The name of a vector among the tests."""
    return str(vector["about"])
