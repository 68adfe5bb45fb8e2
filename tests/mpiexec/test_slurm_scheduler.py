"""The embedded scheduler in an allocation of a real Slurm."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import PATIENCE_S
from support.slurm import Cluster, need_slurm

from scheduler_bridge.daemon import JobRequest, JobStatus, NodeStatus
from scheduler_bridge.daemon.control.client import ControlClient, ControlError
from scheduler_bridge.daemon.requests import ChangeNode

DOWN = r"Slurm (has taken it out of job \d+: it is \w+|says that it is down) \(test of it\)"
PROGRAMS = Path(__file__).parent / "programs"


def python(program: str, *arguments: object) -> list[str]:
    return [sys.executable, str(PROGRAMS / program), *map(str, arguments)]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    need_slurm()
    with Cluster(tmp_path) as cluster:
        yield cluster


class Serving:
    """A scheduler in an allocation of the first nodes, which Slurm keeps alive when one of them dies.

    Args:
        cluster: Where.
        nodes: How many nodes.
        look_s: Time between its looks at them.
    """

    def __init__(self, cluster: Cluster, nodes: int, look_s: float = 15.0) -> None:
        self._cluster = cluster
        self._state = cluster.folder / "state"
        config = cluster.folder / "serve.toml"
        config.write_text(f"[health]\nevery_s = {look_s}\n", encoding="utf-8")
        script = f"malleable serve --backend slurm --config {config}; echo code $?"
        self.job = cluster.submit(nodes, script, "--no-kill")
        cluster.until_says(self.job, f"ready: {nodes} nodes")
        # the hosts see the same files, so its socket is reached from here, too
        self.client = ControlClient(self._state, timeout_s=PATIENCE_S)

    def run(self, *words: str, code: int | None = 0) -> str:
        """Run a command of malleable's where the scheduler is, as users do."""
        return self._cluster.run("malleable", "slurm", "at", str(self.job), *words, code=code)

    def submit(self, script: str, low: int, high: int) -> int:
        """Submit a job of the shell's that runs again when it is lost; return its number."""
        return self.client.submit(
            JobRequest(
                name="job", command=("sh", "-c", script), job_class="malleable" if low < high else "rigid", nodes=high,
                min_nodes=low, max_nodes=high, walltime_s=600.0, requeue=True,
            )
        )  # fmt: skip

    def until(self, number: int, state: str) -> JobStatus:
        """Wait until a job is in a state."""
        self._cluster.until(lambda: self._job(number).state == state, f"job {number} is {state}")
        return self._job(number)

    def until_down(self, name: str) -> str:
        """Wait until a node is out of service; return why."""
        self._cluster.until(lambda: self._node(name).state == "down", f"{name} is down")
        return self._node(name).reason

    def story(self, number: int) -> str:
        """What became of a job, a line for each moment."""
        return "\n".join(moment.text for moment in self.client.explain(number).moments)

    def output(self, number: int) -> str:
        """What a job has written."""
        return (self._state / f"job-{number}.out").read_text(encoding="utf-8")

    def shut_down(self) -> None:
        """End the scheduler, and with it the allocation."""
        self.client.shutdown()
        assert self._cluster.until_over(self.job).endswith("code 0\n")

    def _job(self, number: int) -> JobStatus:
        return self.client.snapshot().job(number)

    def _node(self, name: str) -> NodeStatus:
        return next(node for node in self.client.snapshot().nodes if node.name == name)


def test_it_runs_a_batch(cluster: Cluster) -> None:
    serving = Serving(cluster, 3)
    # it takes all nodes, and shrinks for the others
    serving.run("submit", "--min", "1", "--max", "3", "--", *python("uts_again.py", 1))
    for _ in range(2):
        serving.run("submit", "--nodes", "2", "--", *python("slurm_hello.py"))
    cluster.until(lambda: "no job waits or runs" in serving.run("queue"), "the batch is over")
    # the script may be over, and with it the job and this step, before the command is
    serving.run("shutdown", code=None)
    assert cluster.until_over(serving.job).endswith("code 0\n")
    assert "wrong counts []" in serving.output(1)
    for number in (2, 3):
        assert len(set(serving.output(number).splitlines()[0].split()[2:])) == 2


def test_a_node_that_is_set_down_is_out_of_service_and_its_job_runs_again(cluster: Cluster) -> None:
    serving = Serving(cluster, 3, look_s=0.5)
    again = cluster.folder / "again"
    number = serving.submit(f"[ -e {again} ] || exec sleep 600", 1, 3)
    assert len(serving.until(number, "running").nodes) == 3
    again.touch()
    with pytest.raises(ControlError, match=r"host4 is not added: it is none of Slurm job \d+, which has host1, host2"):
        serving.client.manage(ChangeNode(node="host4", to="add"))
    set_down(cluster, "host3")
    assert re.search(DOWN, serving.until_down("host3"))
    serving.until(number, "completed")
    assert re.search(f"lost: node host3.*: {DOWN}", serving.story(number))
    serving.shut_down()


def test_a_job_that_fails_where_a_node_was_set_down_is_lost_and_runs_again_elsewhere(cluster: Cluster) -> None:
    serving = Serving(cluster, 3, look_s=600.0)
    serving.until(serving.submit("exit 0", 3, 3), "completed")
    set_down(cluster, "host3")
    go = cluster.folder / "go"
    numbers = [serving.submit(f"while ! [ -e {go} ]; do sleep 0.1; done", 1, 1) for _ in range(3)]
    serving.until_down("host3")
    go.touch()
    for number in numbers:
        serving.until(number, "completed")
    assert re.search(f"lost: node host3: {DOWN}; exit status", "\n".join(map(serving.story, numbers)))
    serving.shut_down()


def set_down(cluster: Cluster, node: str) -> None:
    cluster.run("scontrol", "update", f"NodeName={node}", "State=down", "Reason=test of it")
