"""The malleable job towards its program and its scheduler.

``handler`` is what a program registers to be called around each resize. ``orders`` are the messages that jobs and
schedulers exchange (protocol v2), ``core_ids`` the lists of cores in them, and ``communicator`` is the job's connection
to its scheduler; ``v1`` translates the older protocol.
"""

from typing import Final

ENV_SCHEDULER: Final = "MALLEABLE_SCHEDULER"
"""Where the scheduler listens; without it a job has none, and need not load what it would say to it."""

ENV_V1_SCHEDULER: Final = "MALLEABLE_V1_SCHEDULER"
"""Likewise of a scheduler that speaks protocol v1 only (``apgas.malleability.v1``)."""
