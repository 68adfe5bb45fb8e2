"""What the core raises: each is a defect, of the core or of a policy, and never a job's fault."""

from __future__ import annotations


class InvariantError(RuntimeError):
    """The state contradicts itself; the text says where."""


class InfeasibleDecisionError(RuntimeError):
    """A policy decided what cannot be done; the text names the decision and the reason. Nothing of it was done."""


class InvalidTransitionError(RuntimeError):
    """The scheduler itself tried a step that the table does not have."""
