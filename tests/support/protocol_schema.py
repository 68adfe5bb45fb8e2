"""The wire protocol v2 as a JSON schema, made from the types that both sides decode with.

``PYTHONPATH=tests python -m support.protocol_schema`` prints it; ``docs/protocol/v2.schema.json`` is that output.
"""

from __future__ import annotations

import inspect
import sys
from typing import Any, Final

import msgspec

from apgas.malleability.orders import MAX_LINE_BYTES, PROTOCOL_VERSION, ToJob, ToScheduler

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"


def schema() -> dict[str, Any]:
    """Return the schema: ``#/$defs/ToJob`` and ``#/$defs/ToScheduler`` describe one line of each direction."""
    (to_job, to_scheduler), messages = msgspec.json.schema_components(
        [ToJob, ToScheduler], ref_template="#/$defs/{name}"
    )
    described = {name: _described(message) for name, message in messages.items()}
    return {
        "$schema": DIALECT,
        "title": f"Malleable jobs: wire protocol v{PROTOCOL_VERSION}",
        "description": (
            "One message is one JSON object on one line, UTF-8, ended by a newline, at most "
            f"{MAX_LINE_BYTES} bytes. ToJob: what a scheduler says; ToScheduler: what a job says."
        ),
        "anyOf": [{"$ref": "#/$defs/ToJob"}, {"$ref": "#/$defs/ToScheduler"}],
        "$defs": {
            "ToJob": to_job,
            "ToScheduler": to_scheduler,
            **described,
        },
    }


def _described(message: dict[str, Any]) -> dict[str, Any]:
    """Return a schema whose description is not indented: only from Python 3.13 on docstrings are not."""
    return {**message, "description": inspect.cleandoc(message["description"])} if "description" in message else message


def text() -> str:
    """Return the schema as it is written to files."""
    return msgspec.json.format(msgspec.json.encode(schema(), order="deterministic"), indent=1).decode() + "\n"


if __name__ == "__main__":
    sys.stdout.write(text())
