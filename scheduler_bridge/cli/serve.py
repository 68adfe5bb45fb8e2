"""``malleable serve``."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from pathlib import Path
from typing import Annotated

import typer

from scheduler_bridge import policies
from scheduler_bridge.cli.common import StateOption, state_folder
from scheduler_bridge.cli.errors import CliError
from scheduler_bridge.live import Daemon, DaemonConfig
from scheduler_bridge.live.config import numbered_nodes


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(serve)


def serve(
    nodes: Annotated[
        int | None, typer.Option("--nodes", min=1, max=100_000, help="Number of nodes: node1, ...")
    ] = None,
    node_names: Annotated[str | None, typer.Option("--node-names", metavar="A,B,C", help="Names instead.")] = None,
    policy: Annotated[str, typer.Option("--policy", help="See: malleable policies")] = "malleable",
    parameters: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A parameter of the policy.")
    ] = None,
    state: StateOption = None,
    resize_deadline_s: Annotated[
        float, typer.Option("--resize-deadline", min=0.1, metavar="S", help="Seconds for a job to carry an order out.")
    ] = 60.0,
    mpiexec: Annotated[
        Path | None,
        typer.Option("--mpiexec", metavar="FILE", help="MPI launcher.", show_default="the one beside this Python"),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only the ready line and errors.")] = False,
) -> None:
    """Run the scheduler on this machine, with emulated nodes, until it is told to end (TERM, INT or shutdown).

    Example: malleable serve --nodes 4 --policy malleable --state /tmp/malleable
    """
    if (nodes is None) == (node_names is None):
        raise CliError("serve needs the nodes", "either their number or their names", "give --nodes 4")
    names = numbered_nodes(nodes) if nodes is not None else tuple((node_names or "").split(","))
    config = DaemonConfig(
        nodes=names,
        state_dir=state_folder(state),
        policy=policy,
        parameters=policies.parse(policy, parameters or []),
        resize_deadline_s=resize_deadline_s,
        mpiexec=mpiexec,
    )
    logging.basicConfig(level=logging.ERROR if quiet else logging.INFO, format="%(asctime)s %(message)s")
    asyncio.run(_serve(config))


async def _serve(config: DaemonConfig) -> None:
    daemon = Daemon(config)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, daemon.request_stop)
    async with daemon:
        count = f"{len(config.nodes)} nodes" if len(config.nodes) > 1 else "1 node"
        sys.stdout.write(f"ready: {count}, policy {config.policy}, state {config.state_dir}, jobs {daemon.endpoint}\n")
        sys.stdout.flush()
        await daemon.stopping()
