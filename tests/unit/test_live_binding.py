"""Whether jobs can be bound to the cores of their nodes is found out before anything is begun."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from scheduler_bridge.daemon.config import DaemonConfig, DaemonError

HERE = sorted(os.sched_getaffinity(0))


@pytest.mark.parametrize(
    ("nodes", "cores", "reason"),
    [
        (("a", "b"), 1, "2 nodes that one machine emulates have the same cores"),
        (("a",), HERE[-1] + 3, "a node has the cores 0-[0-9]+, but here there are only"),
    ],
)
def test_cores_that_jobs_cannot_be_bound_to_are_refused(
    nodes: tuple[str, ...], cores: int, reason: str, tmp_path: Path
) -> None:
    DaemonConfig(nodes, state_dir=tmp_path, cores_per_node=cores)  # nothing is asked for
    with pytest.raises(DaemonError, match=reason) as refused:
        DaemonConfig(nodes, state_dir=tmp_path, cores_per_node=cores, bind_cores=True)
    assert "--bind-cores" in refused.value.hint or "--cores" in refused.value.hint


def test_cores_of_hosts_are_for_their_places_to_see(tmp_path: Path) -> None:
    DaemonConfig(("a", "b"), state_dir=tmp_path, cores_per_node=HERE[-1] + 3, bind_cores=True, reach="/state/reach")
