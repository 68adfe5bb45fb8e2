"""The parameters of the core, and those that a policy is meant for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from scheduler_bridge.policies import describe


@dataclass(frozen=True, slots=True)
class Settings:
    """Parameters of the core; times in seconds.

    Attributes:
        pass_interval_s: Decide at least this often while jobs wait or run; None: at events only.
        cooldown_s: A job takes no order for this long after a completed resize.
        failure_backoff_s: A job takes no order for this long after a failed one, so that orders to a job that refuses
            them all do not chase each other.
        walltime_grace_s: A job is killed this long after its walltime.
        cores_per_node: Cores of each node, where a policy lets jobs share nodes. With 1 there is nothing to share.
        walltime: ``fixed``: as submitted, whatever the size. ``scaled``: at another size than that asked for, a job is
            expected to take as much longer or shorter as its ``rho`` says, for what is left of its walltime when its
            size changes. [D] That is a prediction, so a job that has had another size is not killed for it.
        user_nodes: The most nodes that the jobs of one user hold together; None: any number.

    Raises:
        ValueError: One of them is out of range.
    """

    pass_interval_s: float | None = None
    cooldown_s: float = 0.0
    failure_backoff_s: float = 30.0
    walltime_grace_s: float = 0.0
    cores_per_node: int = 1
    walltime: Literal["fixed", "scaled"] = "fixed"
    user_nodes: int | None = None

    def __post_init__(self) -> None:
        if self.cores_per_node < 1:
            raise ValueError(f"cores_per_node is {self.cores_per_node}, must be at least 1")
        if self.user_nodes is not None and self.user_nodes < 1:
            raise ValueError(f"user_nodes is {self.user_nodes}, must be at least 1")
        if self.pass_interval_s is not None and not self.pass_interval_s > 0:
            raise ValueError(f"pass_interval_s is {self.pass_interval_s}, must be positive")
        if self.walltime not in ("fixed", "scaled"):
            raise ValueError(f"walltime is {self.walltime!r}, must be fixed or scaled")
        for name in ("cooldown_s", "failure_backoff_s", "walltime_grace_s"):
            if not (value := getattr(self, name)) >= 0:
                raise ValueError(f"{name} is {value}, must not be negative")


def settings_for(policy: str) -> Settings:
    """The settings that the policy of this name is meant for; for most, decisions at events only, and no pause.

    Raises:
        UnknownPolicyError: No such policy.
    """
    info = describe(policy)
    return Settings(pass_interval_s=info.pass_interval_s, cooldown_s=info.cooldown_s)
