"""The scheduler on hosts of a file: emulated ones with addresses of their own, reached through a launcher."""

from __future__ import annotations

import json
import re
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support import PATIENCE_S
from support.console import Console
from support.doors import all_attacked
from support.hosts import need_hosts

from scheduler_bridge.daemon import ControlClient, JobRequest, JobStatus, NodeStatus

PROGRAMS = Path(__file__).parent / "programs"
DOORS = Path(__file__).parents[1] / "support" / "doors.py"
ALL = ["host1", "host2", "host3", "host4"]
LAUNCHER = "/run/emulated-cluster/ssh {host} {command}"
CONFIG = f"""
hosts = "hosts.txt"
launcher = "{LAUNCHER}"
grace_s = 0.5

[health]
every_s = 0.5
deadline_s = 5
failures = 2
"""


class Cluster(Console):
    """Hosts and a scheduler that drives them."""

    def __enter__(self) -> Cluster:
        super().__enter__()
        (self.folder / "hosts.txt").write_text("".join(f"{host}:1\n" for host in ALL), encoding="utf-8")
        (self.folder / "malleable.toml").write_text(CONFIG, encoding="utf-8")
        return self

    def serve(self) -> None:
        """Start the scheduler, and wait until it is ready."""
        out = self.folder / "serve.out"
        out.write_text("", encoding="utf-8")
        serve = f"exec setsid malleable serve --config {self.folder}/malleable.toml"
        self.run("sh", "-c", f"{serve} < /dev/null > {out} 2>&1 &")
        self.until(lambda: "ready: 4 nodes" in out.read_text(encoding="utf-8"), "the scheduler is ready")

    def kill_scheduler(self) -> None:
        """Kill it with -9: its process has the same number outside only if asked by its mark, so ask inside."""
        endpoint = json.loads((self.folder / "state" / "endpoint.json").read_text(encoding="utf-8"))
        self.run("kill", f"-{signal.SIGKILL}", str(endpoint["pid"]))
        self.until(lambda: self.run("kill", "-0", str(endpoint["pid"]), code=None) != "", "the scheduler is dead")

    @property
    def client(self) -> ControlClient:
        """Reaches the scheduler by its socket, which is a file."""
        return ControlClient(self.folder / "state", PATIENCE_S)

    def submit(self, nodes: int, command: tuple[str, ...], least: int | None = None, *, requeue: bool = False) -> int:
        """Submit a job; return its number. With ``least`` nodes it is malleable, and ``nodes`` are the most."""
        request = JobRequest(name=command[0], command=command, nodes=least or nodes, max_nodes=nodes, requeue=requeue,
                             job_class="malleable" if least else "rigid", walltime_s=600.0)  # fmt: skip
        return self.client.submit(request)

    def waiting_job(self, nodes: int, *, requeue: bool = False) -> tuple[int, Path]:
        """Submit a rigid job that ends when the file is there that is returned with its number."""
        go = self.folder / f"go-{len(list(self.folder.iterdir()))}"
        wait = f"uname -n; until [ -e {go} ]; do sleep 0.1; done"
        return self.submit(nodes, ("sh", "-c", wait), requeue=requeue), go

    def until_job(self, number: int, holds: Callable[[JobStatus], bool]) -> JobStatus:
        """Wait for something about a job; return what the scheduler says of it then."""
        self.until(lambda: holds(self.client.snapshot().job(number)), f"job {number} is as awaited")
        return self.client.snapshot().job(number)

    def node(self, name: str) -> NodeStatus:
        """What the scheduler says of a node."""
        return next(node for node in self.client.snapshot().nodes if node.name == name)

    def output(self, number: int) -> str:
        """What a job has written."""
        path = self.folder / "state" / f"job-{number}.out"
        return path.read_text(encoding="utf-8") if path.exists() else ""

    def story(self) -> str:
        outputs = sorted((self.folder / "state").glob("job-*.???"))
        return "\n".join(path.read_text(errors="replace") for path in (self.folder / "serve.out", *outputs))

    def of_jobs(self) -> str:
        """The processes of jobs."""
        return self.run("sh", "-c", "grep -lsz ^MALLEABLE_MARK= /proc/[0-9]*/environ || true")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    need_hosts()
    with Cluster(tmp_path) as cluster:
        cluster.serve()
        yield cluster
        cluster.run("malleable", "shutdown")
        assert cluster.of_jobs() == ""
        kept = {
            "history.json",
            "scheduler.db",
            "scheduler.mark",
            *(path.name for path in (tmp_path / "state").glob("job-*")),
        }
        assert {path.name for path in (tmp_path / "state").iterdir()} == kept


def test_a_malleable_job_of_a_batch_grows_and_shrinks_over_hosts_and_counts_right(cluster: Cluster) -> None:
    rigid, go = cluster.waiting_job(2)
    uts = cluster.submit(4, (sys.executable, str(PROGRAMS / "uts_again.py"), "2"), least=1)
    assert cluster.until_job(uts, lambda job: job.ready).nodes == ("host3", "host4")
    go.touch()
    cluster.until_job(uts, lambda job: job.grows == 1)
    assert sorted(cluster.output(rigid).split()) == ["host1", "host2"]
    wide, go = cluster.waiting_job(3)
    done = cluster.until_job(uts, lambda job: job.state == "completed")
    assert (done.grows, done.shrinks) == (1, 1)
    assert "resizes [('grow', 2), ('shrink', 3)], wrong counts [], on host3" in cluster.output(uts)
    go.touch()
    cluster.until_job(wide, lambda job: job.state == "completed")
    assert sorted(cluster.output(wide).split()) == ["host1", "host2", "host4"]


def test_a_host_that_is_gone_loses_its_job_and_comes_back_later(cluster: Cluster) -> None:
    number, go = cluster.waiting_job(3, requeue=True)
    cluster.until_job(number, lambda job: job.state == "running" and len(cluster.output(number).split()) == 3)
    cluster.run("ip", "-n", "host3", "link", "set", "eth0", "down")
    elsewhere = ("host1", "host2", "host4")
    cluster.until_job(number, lambda job: job.nodes == elsewhere and job.state == "running")
    gone = cluster.node("host3")
    assert (gone.state, gone.reason != "") == ("down", True)
    printed = cluster.run(
        "malleable", "doctor", "--hosts", cluster.folder / "hosts.txt", "--launcher", LAUNCHER, code=1
    )
    assert [line.split()[:2] for line in printed.splitlines() if line.split()[0] in ("ok", "FAIL")] == [
        ["FAIL" if host == "host3" else "ok", host] for host in ALL
    ]
    cluster.kill_scheduler()
    cluster.serve()
    assert cluster.node("host3").state == "down"
    assert cluster.client.snapshot().job(number).nodes == elsewhere
    cluster.run("ip", "-n", "host3", "link", "set", "eth0", "up")
    cluster.until(lambda: cluster.node("host3").state == "idle", "host3 is back")
    go.touch()
    cluster.until_job(number, lambda job: job.state == "completed")
    assert sorted(cluster.output(number).split()) == list(elsewhere)


def test_a_job_whose_first_host_is_gone_goes_on_elsewhere(cluster: Cluster) -> None:
    """It is not computed anew, and its user has not asked for another attempt."""
    lives = cluster.folder / "lives"
    lives.mkdir()
    program = (sys.executable, str(PROGRAMS / "glb_mortal.py"), "elsewhere", str(lives))
    request = JobRequest(name="mortal", command=program, nodes=2, max_nodes=2, min_nodes=2, job_class="malleable",
                         walltime_s=600.0, resilient=True)  # fmt: skip
    _, go = cluster.waiting_job(1)  # on the scheduler's own host
    number = cluster.client.submit(request)
    cluster.until((cluster.folder / "state" / f"books-{number}" / "1").exists, "it has kept books")
    assert cluster.client.snapshot().job(number).nodes == ("host2", "host3")
    cluster.run("ip", "-n", "host2", "link", "set", "eth0", "down")
    cluster.until_job(number, lambda job: job.state == "completed")
    assert cluster.output(number).splitlines() == ["life 0 on 2", "life 1 on 2", "True after 2 lives on 2"]
    cluster.run("ip", "-n", "host2", "link", "set", "eth0", "up")
    go.touch()


@pytest.mark.slow
def test_a_job_that_survives_losses_goes_on_without_a_host(cluster: Cluster) -> None:
    """TCP takes a minute to notice that a host has gone without a word."""
    cluster.patience_s = 90.0
    go = cluster.folder / "go"
    program = (sys.executable, str(PROGRAMS / "goes_without.py"), str(go))
    request = JobRequest(name="survivor", command=program, nodes=3, max_nodes=3, min_nodes=1, job_class="malleable",
                         walltime_s=600.0, environment={"APGAS_RESILIENT": "1"})  # fmt: skip
    number = cluster.client.submit(request)
    cluster.until_job(number, lambda job: "up" in cluster.output(number))
    cluster.run("ip", "-n", "host3", "link", "set", "eth0", "down")
    cluster.until(lambda: cluster.node("host3").state == "draining", "host3 gets no further jobs")
    cluster.until_job(number, lambda job: job.nodes == ("host1", "host2", "host4") and job.grows == 1)
    assert cluster.node("host3").state == "down"
    go.touch()
    cluster.until(lambda: "3 places" in cluster.output(number), "the job is done")
    cluster.client.cancel(number)  # mpiexec waits for the host that is gone
    cluster.until_job(number, lambda job: job.state == "cancelled")


def test_real_runs_go_on_hosts(cluster: Cluster) -> None:
    out = cluster.folder / "runs"
    out.mkdir()
    printed = cluster.run(sys.executable, PROGRAMS / "runs_on_hosts.py", cluster.folder / "hosts.txt", LAUNCHER, out)
    found = json.loads(printed.strip().splitlines()[-1])
    assert (found["passed"], found["jobs"]) == (True, [["completed", True]] * 3), found
    assert set(found["nodes"]) <= set(ALL)
    assert len(found["nodes"]) > 1
    assert "4 hosts, held to small rates of work" in found["said"]
    assert not [path for path in out.iterdir() if path.is_dir()]


@pytest.mark.essential
def test_strangers_on_a_host_reach_no_launcher_and_end_no_job(cluster: Cluster) -> None:
    """Under mpiexec, twelve bytes of any user of a host, or of another machine, ended a job."""
    _, go = cluster.waiting_job(2)
    end = cluster.folder / "end"
    job = cluster.submit(4, (sys.executable, str(PROGRAMS / "listening.py"), str(end)), least=1)
    cluster.until(lambda: "up" in cluster.output(job), "the job runs")
    go.touch()
    cluster.until(lambda: "pids" in cluster.output(job), "the job has grown")
    processes, doors = all_attacked(cluster.run(sys.executable, DOORS))
    assert sum("--agent" in words for words in processes) >= 3
    assert not re.search("bin/mpiexec|hydra", " ".join(processes))
    proven = re.findall(r"doors (.*)", cluster.output(job))[0].split()
    assert set(proven) == doors
    assert {door.partition(":")[0] for door in doors} == {f"10.0.0.{number}" for number in (1, 2, 3, 4)}
    end.touch()
    cluster.until_job(job, lambda job: job.state == "completed")
    assert "alive" in cluster.output(job)


def test_the_loss_of_an_agent_costs_a_job_that_survives_losses_one_host(cluster: Cluster) -> None:
    go = cluster.folder / "go"
    program = (sys.executable, str(PROGRAMS / "goes_without.py"), str(go))
    request = JobRequest(name="survivor", command=program, nodes=3, max_nodes=3, min_nodes=1, job_class="malleable",
                         walltime_s=600.0, resilient=True)  # fmt: skip
    number = cluster.client.submit(request)
    cluster.until_job(number, lambda job: "up" in cluster.output(number))
    # one below the script that runs around it on a host; the brackets keep the shell from finding itself
    agent = "for pid in $(pgrep -f 'hosts-ther[e]'); do pgrep -P $pid -f '^[^ ]*python.* --agent$'; done"
    cluster.run("sh", "-c", f"kill -9 $({agent} | head -n 1)")
    # it may have the host again soon
    cluster.until_job(number, lambda job: len(job.nodes) == 2 or job.grows == 1)
    go.touch()
    cluster.until_job(number, lambda job: job.state == "completed")
    assert re.search("[23] places", cluster.output(number))
    errors = (cluster.folder / "state" / f"job-{number}.err").read_text(encoding="utf-8")
    assert re.search(r"host host\d is lost: its agent, or the way to it, has ended; the job goes on", errors)
