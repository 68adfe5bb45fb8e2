"""The intervals and pauses that a policy is meant for."""

from __future__ import annotations

from scheduler_bridge.core.settings import Settings
from scheduler_bridge.policies import describe


def settings_for(policy: str) -> Settings:
    """The settings that the policy of this name is meant for; for most, decisions at events only, and no pause.

    Raises:
        UnknownPolicyError: No such policy.
    """
    info = describe(policy)
    return Settings(pass_interval_s=info.pass_interval_s, cooldown_s=info.cooldown_s)
