"""What a batch will probably do: the same core and policies, with simulated jobs instead of processes.

Seeds are no excuse: a batch in which nothing is resized, or which takes five minutes, shows nothing. So a batch is
simulated before it is taken, with the delays of real jobs on two cores.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from scheduler_bridge import policies
from scheduler_bridge.record import Recorder, RunRecord, metrics
from scheduler_bridge.sim import Engine, SimJob

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scheduler_bridge.demo.batch import Drawn

START_S: Final = 1.3
"""From the start of a job's processes until it computes and takes orders."""
STARTS_S: Final = (0.7, START_S, 2.0)
"""A quick machine, the usual one, and a busy one."""
GROW_S: Final = 1.2
SHRINK_S: Final = 0.4
END_S: Final = 0.3
"""From the result to the end of the last process."""


def shows_resizing(batch: Sequence[Drawn], nodes: Sequence[str], least: int) -> bool:
    """Tell whether a batch will see ``least`` grows and shrinks under malleable, and one more if all goes as usual."""
    for start_s in STARTS_S:
        total = metrics(forecast(batch, nodes, "malleable", start_s=start_s))
        if min(total.grows, total.shrinks) < least + (start_s == START_S):
            return False
    return True


def forecast(batch: Sequence[Drawn], nodes: Sequence[str], policy: str, *, start_s: float = START_S) -> RunRecord:
    """Simulate ``batch`` on ``nodes`` under ``policy``, with ``start_s`` from a job's start until it computes.

    Raises:
        UnknownPolicyError: There is no such policy.
    """
    recorder = Recorder(nodes, policy)
    engine = Engine(nodes, policies.get(policy), observer=recorder.observe_batch)
    engine.run(_simulated(drawn, start_s) for drawn in batch)
    return recorder.record()


def _simulated(drawn: Drawn, start_s: float) -> SimJob:
    # The fixed seconds scale with the nodes here, which is wrong by less than a second at these sizes.
    return SimJob(
        drawn.spec,
        runtime_s=drawn.problem.work_node_s / drawn.spec.nodes + start_s + END_S,
        ready_delay_s=start_s,
        grow_s=GROW_S,
        shrink_s=SHRINK_S,
    )
