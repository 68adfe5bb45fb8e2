"""Malleable programs in allocations of a real Slurm, which is asked who holds which node."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.slurm import Cluster, need_slurm

pytestmark = pytest.mark.timeout(180)

PROGRAMS = Path(__file__).parent / "programs"
UTS = f"{sys.executable} {PROGRAMS / 'uts_again.py'}"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """A Slurm that permits expansion; nothing of it is left afterwards."""
    need_slurm()
    with Cluster(tmp_path) as cluster:
        yield cluster


@pytest.mark.parametrize("grow_by", ["companion", "expand"])
def test_a_program_grows_and_shrinks_with_its_allocation_and_counts_right(cluster: Cluster, grow_by: str) -> None:
    job = cluster.submit(2, f"malleable slurm run --max-nodes 4 --grow-by {grow_by} -- {UTS} 2; echo code $?")
    cluster.until_says(job, "up")
    assert cluster.held() == {job: ("host1", "host2")}
    cluster.resize(job, "--grow=2")
    assert cluster.until_nodes(4) == ["host1", "host2", "host3", "host4"]
    own = cluster.held()[job]
    assert own == (("host1", "host2") if grow_by == "companion" else ("host1", "host2", "host3", "host4"))
    cluster.resize(job, "--shrink=3")
    said = cluster.until_over(job)
    assert "resizes [('grow', 2), ('shrink', 3)], wrong counts [], on host1" in said
    assert said.endswith("code 0\n")
