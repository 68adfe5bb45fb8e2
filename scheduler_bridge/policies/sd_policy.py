"""SD-Policy."""

from __future__ import annotations

from scheduler_bridge.model import NodeFilter
from scheduler_bridge.policies.base import Policy
from scheduler_bridge.policies.compose import ComposedPolicy, OnlyPreferred, by_submission
from scheduler_bridge.policies.registry import InvalidParameterError, register
from scheduler_bridge.policies.sharing import DYNAMIC, Sharing


@register
def sd_policy(
    max_slowdown: str = "10",
    sharing_factor: float = 0.5,
    mates: int = 2,
    considered: int = 0,
    free_nodes: str = "no",
    jobs_per_node: int = 2,
    nodes: str = "*",
    cores_per_rank: int = 1,
    tested: int = 100,
) -> Policy:
    """SD-Policy: backfilling, and jobs that would wait share the nodes of running jobs if they end earlier so.

    Every job is first tried by itself: it starts if that delays no reservation of the jobs before it. A malleable job
    that cannot start looks for mates: running malleable jobs, at most ``mates``, whose nodes are exactly as many as it
    needs, with the smallest sum of penalties. A penalty is (wait + increase + requested time) / requested time, below
    MAX_SLOWDOWN. Each mate gives the new job ``sharing_factor`` of the cores of each of its nodes, keeps at least one
    per rank, and gets them back when the new job ends; if a mate ends first, the new job takes its cores. The new job
    starts so only if it ends earlier than if it waited, and before its mates.

    Parameters: ``max_slowdown``: the limit for penalties, a number, inf, or dynamic (the mean slowdown of the running
    jobs from requested times). ``sharing_factor``, ``mates`` (m). ``considered`` (nm): only so many candidates with the
    smallest penalties; 0: all. ``free_nodes``: yes lets free nodes make up for missing ones. ``jobs_per_node``: how
    many jobs share a node. ``nodes``: which nodes jobs may share, by name: patterns such as big* or n00[0-3]?, with
    commas between; who has others, too, is no mate. ``cores_per_rank``: what a mate keeps of each node. ``tested``:
    waiting jobs looked at in a pass.

    Source: D'Amico, Jokanovic, Corbalan, "Holistic Slowdown Driven Scheduling and Resource Management for Malleable
    Jobs", ICPP 2019, section 3, listings 1 to 3.
    [D] The estimates use the worst model of section 3.4, and a job's end is when the sum of elapsed time x rate is its
    requested time: equations 5 and 6 as printed give totals. [D] A mate's increase counts what sharing has cost it
    before. [D] The new job may end with its mates as slowed down by it, not later. [D] Malleable jobs run on as many
    nodes as they ask for; cores are what moves. [D] Only a job on nodes of its own can be a mate; of a node that two
    share already, the first one gives. [D] The reservations before a job are made anew in every pass, from walltimes;
    the mates' delays may push them back. [D] The paper filters nodes by what a job asks of them: name, architecture,
    memory, network. Here jobs ask for numbers of nodes, so the filter is the site's, by names. [D] Ties go to the
    smaller penalty and then the smaller job id. It needs to know the cores of a node.
    """
    try:
        limit = None if max_slowdown == DYNAMIC else float(max_slowdown)
    except ValueError:
        raise InvalidParameterError(
            f"sd-policy: max_slowdown is {max_slowdown!r}, must be a number or dynamic"
        ) from None
    if free_nodes not in ("yes", "no"):
        raise InvalidParameterError(f"sd-policy: free_nodes is {free_nodes!r}, must be yes or no")
    if not 0 < sharing_factor < 1:
        raise InvalidParameterError(f"sd-policy: sharing_factor is {sharing_factor}, must be between 0 and 1")
    try:
        shared = NodeFilter.parse(nodes)
    except ValueError as error:
        raise InvalidParameterError(f"sd-policy: nodes: {error}") from None
    for name, value, least in (
        ("mates", mates, 1),
        ("considered", considered, 0),
        ("jobs_per_node", jobs_per_node, 1),
        ("cores_per_rank", cores_per_rank, 1),
        ("tested", tested, 1),
    ):
        if value < least:
            raise InvalidParameterError(f"sd-policy: {name} is {value}, must be at least {least}")
    sharing = Sharing(
        limit, sharing_factor, cores_per_rank, mates, considered, free_nodes == "yes", jobs_per_node, tested
    )
    return ComposedPolicy(
        "sd-policy", by_submission, sharing, OnlyPreferred(), jobs_per_node=jobs_per_node, shared_nodes=shared
    )
