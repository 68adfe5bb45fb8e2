"""How mpiexec reaches nodes: through a small program that is called like ssh and starts a step there with srun.

mpiexec starts one process per node through it, so every node has a step of its own that ends when its places have
left, and nodes of several Slurm jobs can work together: a file says whose each node is. Written, not installed, because
it has to start fast: as a script of the shell it needs 2 ms.
"""

from __future__ import annotations

import os
import shlex
import socket
from pathlib import Path

from scheduler_bridge.backends.slurm import commands, driver
from scheduler_bridge.backends.slurm.holdings import Holdings

# The shell of the step gives way to what it starts: Slurm ends a step by a TERM, which a shell dies of and the proxy of
# mpiexec does not, and kills what is left a while later. Where it finds processes by their parents it would find none.
_SCRIPT = """\
#!/bin/sh
# Called like ssh: starts a command on a node of the Slurm job that the node belongs to.
while [ "${{1#-}}" != "$1" ]; do
  case $1 in -[bceiloFJLmpSW]) shift 2 ;; *) shift ;; esac
done
host=$1
shift
while read -r node job; do
  [ "$node" = "$host" ] && found=$job
done < {table}
if [ -z "$found" ]; then
  echo "$host is not a node of this job" >&2
  exit 255
fi
for name in $(env | sed -n 's/^\\(SLURM_[A-Z0-9_]*\\|SALLOC_[A-Z0-9_]*\\)=.*/\\1/p'); do
  case $name in {kept}) ;; *) unset "$name" ;; esac
done
exec srun --jobid="$found" --nodelist="$host" {step} --input=none /bin/sh -c "exec $*"
"""


class Reach:
    """The stand-in for ssh and its table of nodes.

    Args:
        folder: Where both are written; on a file system that the batch host sees.
    """

    def __init__(self, folder: Path) -> None:
        self.program = folder / "slurm-reach"
        self._table = folder / "slurm-nodes"
        step = " ".join(commands.STEP)
        kept = "|".join(sorted(driver.KEPT))
        self.program.write_text(
            _SCRIPT.format(table=shlex.quote(str(self._table)), step=step, kept=kept), encoding="utf-8"
        )
        self.program.chmod(0o700)

    @property
    def options(self) -> tuple[str, ...]:
        """What mpiexec is told."""
        return ("-launcher", "ssh", "-launcher-exec", str(self.program))

    def know(self, holdings: Holdings) -> None:
        """Write down whose each node is."""
        partial = self._table.with_suffix(".part")
        partial.write_text("".join(f"{node} {holdings.owner(node)}\n" for node in holdings.nodes), encoding="utf-8")
        partial.replace(self._table)

    def forget(self) -> None:
        """Remove both files."""
        for path in (self.program, self._table):
            path.unlink(missing_ok=True)


def address(nodes: tuple[str, ...]) -> str:
    """Return the address of this host at which the other ``nodes`` reach it."""
    for node in nodes:
        if node == os.uname().nodename:
            continue
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as towards:
            try:
                towards.connect((node, 9))  # sends nothing
            except OSError:
                continue
            return str(towards.getsockname()[0])
    return socket.gethostbyname(os.uname().nodename)
