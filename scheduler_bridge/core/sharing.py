"""What the core knows about shared nodes."""

from __future__ import annotations

from dataclasses import dataclass, field

from mypy_extensions import mypyc_attr

from scheduler_bridge.core.stacks import Change, Stack, Stacks
from scheduler_bridge.model import EVERY_NODE, NodeFilter, Reason


@mypyc_attr(allow_interpreted_subclasses=True, serializable=True)  # it is pickled; one goes with the other
@dataclass(slots=True)
class Claim:
    """A newcomer that waits for its mates.

    Attributes:
        cores: How many each mate gives of each of its nodes.
        waits_for: The mates that have not done so yet.
        mates: All of them.
        reason: Why the newcomer starts so.
    """

    cores: int
    waits_for: set[int]
    mates: tuple[int, ...]
    reason: Reason


@mypyc_attr(allow_interpreted_subclasses=True, serializable=True)  # it is pickled; one goes with the other
@dataclass(slots=True)
class Sharing:
    """All that the core knows about shared nodes.

    Attributes:
        stacks: Who may use which cores of which nodes.
        jobs_per_node: How many jobs the policy lets share a node.
        nodes: Which nodes it lets jobs share.
        every_node: These are all nodes.
        claims: The newcomers that wait for their mates.
        told: What jobs are told to take or give, by job.
        unsettled: Jobs to which spare cores may have to be given.
        moved: Jobs whose cores or neighbours have changed since the last predictions.
    """

    stacks: Stacks
    jobs_per_node: int = 1
    nodes: NodeFilter = EVERY_NODE
    every_node: bool = True
    claims: dict[int, Claim] = field(default_factory=dict)
    told: dict[int, list[Change]] = field(default_factory=dict)
    unsettled: set[int] = field(default_factory=set)
    moved: set[int] = field(default_factory=set)

    def declare(self, jobs_per_node: int, nodes: NodeFilter) -> None:
        """Let so many jobs share a node, or as many as do so already, and these nodes be shared from now on."""
        self.jobs_per_node = max([jobs_per_node, *(len(stack.cores) for stack in self.stacks)])
        self.nodes, self.every_node = nodes, nodes.is_all

    def claimed(self, stack: Stack) -> bool:
        """Whether the spare cores of a stack are kept for a newcomer."""
        return any(job_id in self.claims for job_id in stack.cores)
