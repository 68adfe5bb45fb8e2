"""What a configuration says that it did not say when the scheduler ran before; what was done at run time holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias

from scheduler_bridge.core import Settings, settings_for
from scheduler_bridge.core import events as ev
from scheduler_bridge.daemon.config import DaemonConfig
from scheduler_bridge.daemon.storage import log_entries

NodeEvent: TypeAlias = ev.NodeUp | ev.NodeDown | ev.NodeRemoved


def nodes(before: log_entries.Configured, config: DaemonConfig, known: Sequence[str]) -> list[NodeEvent]:
    """What happens to nodes; ``known`` are those that there are."""
    lost = [node for node in before.nodes if node not in config.nodes and node in known]
    gone: list[NodeEvent] = [ev.NodeDown(node) for node in lost]
    gone += [ev.NodeRemoved(node) for node in lost]
    return [*gone, *(ev.NodeUp(node) for node in config.nodes if node not in before.nodes)]


def limits(before: log_entries.Configured, config: DaemonConfig) -> list[ev.Event]:
    """The limit on each user's nodes, if it is another one."""
    return [] if config.user_nodes == before.user_nodes else [ev.UserNodesLimited(config.user_nodes)]


def settings(policy: str, given: log_entries.Configured) -> Settings:
    """The pauses that the policy is meant for, unless others are given; what is given holds for all policies."""
    meant = settings_for(policy)
    interval_s = meant.pass_interval_s if given.pass_interval_s is None else given.pass_interval_s or None
    cooldown_s = meant.cooldown_s if given.cooldown_s is None else given.cooldown_s
    return replace(meant, pass_interval_s=interval_s, cooldown_s=cooldown_s, walltime_grace_s=given.walltime_grace_s)


def facts(before: log_entries.Configured, config: DaemonConfig) -> list[log_entries.AnyFact]:
    """What is to be remembered of the configuration."""
    now = log_entries.Configured(
        config.nodes,
        config.policy,
        dict(config.parameters),
        config.user_nodes,
        config.pass_interval_s,
        config.cooldown_s,
        config.walltime_grace_s,
    )
    if now == before:
        return []
    if (now.policy, now.parameters) == (before.policy, before.parameters):
        return [now]  # whatever policy decides was chosen at run time
    return [now, log_entries.Policy(now.policy, now.parameters)]
