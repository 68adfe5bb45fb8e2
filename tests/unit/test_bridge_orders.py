"""The words of the protocol: what they refuse."""

from __future__ import annotations

import pytest

from apgas.malleability import orders as wire


@pytest.mark.parametrize(
    ("line", "culprit"),
    [
        (b'{"type":"outcome","order":1,"kind":"grow","outcome":"done","seconds":-1}', "$.seconds"),
        (b'{"type":"outcome","order":1,"kind":"grow","outcome":"done","phases":{"pre":-0.5}}', "$.phases"),
        (b'{"type":"outcome","order":1,"kind":"sideways","outcome":"done"}', "$.kind"),
        (b'{"type":"ready","nodes":["a b"]}', "$.nodes"),
        (b'{"type":"deferred","order":-1}', "$.order"),
        (b'{"type":"hello","version":2,"job":1,"token":"short"}', "$.token"),
        (b'{"type":"progress","done":1,"more":2}', "more"),
        (b'{"type":"grow","order":1,"count":1}', "grow"),
        (b"[]", "object"),
        (b"\xff", "JSON"),
    ],
)
def test_a_line_that_does_not_fit_names_the_culprit(line: bytes, culprit: str) -> None:
    with pytest.raises(wire.BadMessageError, match=culprit.replace("$", r"\$")):
        wire.decode_to_scheduler(line)


def test_a_job_refuses_what_only_jobs_say() -> None:
    with pytest.raises(wire.BadMessageError):
        wire.decode_to_job(wire.encode(wire.Disable()))
