"""How mpiexec reaches nodes: through a small program that is called like ssh and starts a step there with srun.

mpiexec starts one process per node through it, so every node has a step of its own that ends when its places have
left, and nodes of several Slurm jobs can work together: a file says whose each node is.
"""

from __future__ import annotations

from pathlib import Path

from scheduler_bridge.backends.slurm import driver
from scheduler_bridge.backends.slurm.holdings import STEP, Holdings
from scheduler_bridge.backends.standin import StandIn

# The shell of the step gives way to what it starts: Slurm ends a step by a TERM, which a shell dies of and the proxy of
# mpiexec does not, and kills what is left a while later. Where it finds processes by their parents it would find none.
_BODY = """\
for name in $(env | sed -n 's/^\\(SLURM_[A-Z0-9_]*\\|SALLOC_[A-Z0-9_]*\\)=.*/\\1/p'); do
  case $name in {kept}) ;; *) unset "$name" ;; esac
done
exec srun --jobid="$found" --nodelist="$host" {step} --input=none /bin/sh -c "exec $*"
"""


class Reach(StandIn):
    """The stand-in for ssh and its table of nodes.

    Args:
        folder: Where both are written; on a file system that the batch host sees.
    """

    def __init__(self, folder: Path) -> None:
        body = _BODY.format(step=" ".join(STEP), kept="|".join(sorted(driver.KEPT)))
        super().__init__(folder, "slurm", "of this job", body)

    def know_owners(self, holdings: Holdings) -> None:
        """Write down whose each node is."""
        self.know((node, holdings.owner(node)) for node in holdings.nodes)
