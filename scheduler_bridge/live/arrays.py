"""Arrays: many jobs from one request, each told its number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from scheduler_bridge.live.requests import JobRequest

ENV_INDEX: Final = "MALLEABLE_ARRAY_INDEX"
"""The variable in which a job of an array finds its number."""


def members(request: JobRequest, numbers: Sequence[int]) -> list[JobRequest]:
    """Return the jobs of an array: ``request`` once for each of ``numbers``."""
    return [
        msgspec.structs.replace(
            request,
            name=f"{request.name}[{number}]",
            environment={**request.environment, ENV_INDEX: str(number)},
        )
        for number in numbers
    ]


def number_of(request: JobRequest) -> str:
    """Return the number of a job of an array as text, of any other job an empty one."""
    return request.environment.get(ENV_INDEX, "")
