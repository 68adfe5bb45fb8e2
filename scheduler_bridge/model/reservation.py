"""A future claim on nodes."""

from __future__ import annotations

import math

import msgspec

from scheduler_bridge.model import wording


class Reservation(msgspec.Struct, frozen=True, gc=False):
    """When a waiting job can start at the latest, if every walltime holds.

    Attributes:
        job_id: The waiting job.
        start_s: Seconds of the scheduler's clock; infinite while the nodes in service could never hold the job.
        nodes: The nodes that it will need.
        spare_nodes: Nodes free at ``start_s`` that it leaves to others, however long those run.
    """

    job_id: int
    start_s: float
    nodes: int
    spare_nodes: int

    def admits(self, nodes: int, end_s: float) -> bool:
        """Whether a job on ``nodes`` nodes that ends by ``end_s`` leaves the reservation as it is."""
        return end_s <= self.start_s or nodes <= self.spare_nodes

    def __str__(self) -> str:
        if math.isinf(self.start_s):
            return f"job {self.job_id} needs {wording.nodes(self.nodes)}, more than are in service"
        verb = "is" if self.nodes == 1 else "are"
        return f"{wording.nodes(self.nodes)} {verb} reserved for job {self.job_id} at {wording.seconds(self.start_s)}"
