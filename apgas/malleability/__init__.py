"""Handlers, orders, and where orders come from."""

from typing import Final

ENV_SCHEDULER: Final = "MALLEABLE_SCHEDULER"
"""Where the scheduler listens; without it a job has none, and need not load what it would say to it."""

ENV_V1_SCHEDULER: Final = "MALLEABLE_V1_SCHEDULER"
"""Likewise of a scheduler that speaks protocol v1 only (``apgas.malleability.v1``)."""
