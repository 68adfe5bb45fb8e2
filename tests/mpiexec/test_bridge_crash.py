"""kill -9 of the scheduler: no job is lost, none is started twice, running ones are taken up again."""

from __future__ import annotations

import os
import random
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

import pytest
from support import PATIENCE_S
from support.daemons import replace_request, rigid
from support.killed import Cluster, batch, batches, serving, steady, writes
from support.logged import encode

from scheduler_bridge.daemon import ControlClient, ControlError, DaemonConfig, JobRequest
from scheduler_bridge.daemon.control.access import Door
from scheduler_bridge.daemon.requests import ChangeNode, Hold, LimitUsers
from scheduler_bridge.daemon.storage.log_entries import Entry, Requested
from scheduler_bridge.daemon.storage.restore import restore
from scheduler_bridge.daemon.storage.store import Store

BATCHES = 24


@pytest.fixture
def cluster(config: DaemonConfig) -> Iterator[Cluster]:
    with serving(config) as made:
        yield made


def test_running_and_waiting_jobs_survive_the_scheduler(cluster: Cluster, tmp_path: Path) -> None:
    go = tmp_path / "go"
    os.mkfifo(go)
    waits = JobRequest(name="waits", command=("/bin/sh", "-c", f"cat {go}; exit 3"), nodes=2, launch="direct")
    first = cluster.serve()
    running = cluster.client.submit(waits)
    while cluster.client.snapshot().job(running).state != "running":
        time.sleep(0.02)
    waiting = cluster.client.submit(writes(tmp_path / "out", nodes=3))
    first.kill()
    first.wait()
    with pytest.raises(ControlError, match="no scheduler serves") as caught:
        cluster.client.snapshot()
    assert "start it again with the nodes it had" in caught.value.hint, "jobs on nodes that are gone would end"
    second = cluster.serve()
    snapshot = cluster.client.snapshot()
    assert [job.state for job in snapshot.jobs] == ["running", "waiting"]
    assert [node.job for node in snapshot.nodes] == [running, running, None]
    go.write_text("now")
    ended = cluster.await_all(2)
    assert (ended.job(running).state, ended.job(running).reason) == ("failed", "exit status 3")
    assert ended.job(waiting).state == "completed"
    assert cluster.client.snapshot().utilization > 0
    cluster.stop(second)
    assert [job.state for job in cluster.record().jobs] == ["failed", "completed"]
    assert (tmp_path / "out").read_text() == "ran\n"


@pytest.mark.parametrize("launch", ["direct", "auto"])
def test_nodes_of_a_job_that_the_log_has_lost_are_not_given_away_while_it_runs(
    cluster: Cluster, tmp_path: Path, launch: Literal["direct", "auto"]
) -> None:
    go = tmp_path / "go"
    script = f"until [ -e {go} ]; do sleep 0.05; done"
    cluster.serve()
    request = JobRequest(name="waits", command=("/bin/sh", "-c", script), nodes=2, launch=launch)
    running = cluster.client.submit(request)
    while cluster.client.snapshot().job(running).state != "running":
        time.sleep(0.02)
    for number in range(2):
        cluster.schedulers[-1].kill()
        cluster.schedulers[-1].wait()
        if not number:
            for file in cluster.config.state_dir.glob("scheduler.*"):
                file.unlink()
        cluster.serve()
        assert [node.state for node in cluster.client.snapshot().nodes] == ["down", "down", "idle"]
        assert {node.reason for node in cluster.client.snapshot().nodes[:2]} == {
            "attempt 1.1 runs there, and the log does not know of it"
        }
        writer = cluster.client.submit(writes(tmp_path / f"out-{number}", nodes=1))
        while cluster.client.snapshot().job(writer).state != "completed":
            time.sleep(0.02)
    wide = cluster.client.submit(writes(tmp_path / "wide", nodes=3))
    assert "only 1 in service" in cluster.client.explain(wide).text
    go.touch()
    assert cluster.await_all(3).job(wide).state == "completed"
    cluster.stop(cluster.schedulers[-1])


def test_a_malleable_job_that_the_log_has_lost_may_connect_and_goes_on(cluster: Cluster, tmp_path: Path) -> None:
    """It was refused as a stranger, and ended for that."""
    file, program = tmp_path / "said", Path(__file__).parent / "programs" / "unknown.py"
    command = (sys.executable, str(program), "{hosts}", str(file))
    request = JobRequest(name="unknown", command=command, job_class="malleable", nodes=1, max_nodes=2, launch="direct")
    cluster.serve()
    job_id = cluster.client.submit(request)
    while cluster.client.snapshot().job(job_id).state != "running":
        time.sleep(0.02)
    cluster.schedulers[-1].kill()
    cluster.schedulers[-1].wait()
    for log in cluster.config.state_dir.glob("scheduler.*"):
        log.unlink()
    cluster.serve()
    file.with_suffix(".ask").touch()
    while not file.exists():
        time.sleep(0.02)
    assert file.read_text() == "the scheduler's log does not know this job\n"
    assert "down" in [node.state for node in cluster.client.snapshot().nodes]
    file.with_suffix(".go").touch()
    while "down" in [node.state for node in cluster.client.snapshot().nodes]:
        time.sleep(0.05)
    assert file.read_text() == "the scheduler's log does not know this job\n"
    cluster.stop(cluster.schedulers[-1])


def test_a_job_whose_start_the_log_has_lost_runs_once(cluster: Cluster, tmp_path: Path) -> None:
    script = f"echo ran >> {tmp_path}/ran; until [ -e {tmp_path}/go ]; do sleep 0.05; done"
    request = JobRequest(name="waits", command=("/bin/sh", "-c", script), nodes=3, launch="direct")
    cluster.serve()
    assert cluster.client.submit(request) == 1
    while cluster.client.snapshot().job(1).state != "running":
        time.sleep(0.02)
    cluster.schedulers[-1].kill()
    cluster.schedulers[-1].wait()
    for file in cluster.config.state_dir.glob("scheduler.*"):
        file.unlink()
    store = Store(cluster.config.state_dir)
    log_state, _ = restore(store, cluster.config, 1)
    submitted = Entry(1.0, (), (Requested(1, replace_request(request, hold=True)),))
    store.append([encode(submitted, log_state.take(submitted))])
    store.close()
    cluster.serve()
    assert [node.state for node in cluster.client.snapshot().nodes] == ["down"] * 3
    cluster.client.manage(Hold(job=1, held=False))
    (tmp_path / "go").touch()
    assert cluster.await_all(1).job(1).state == "completed"
    assert (tmp_path / "ran").read_text() == "ran\n"
    cluster.stop(cluster.schedulers[-1])


def test_a_job_that_ends_while_nobody_schedules_is_not_lost(cluster: Cluster, tmp_path: Path) -> None:
    go = tmp_path / "go"
    os.mkfifo(go)
    first = cluster.serve()
    job_id = cluster.client.submit(
        JobRequest(name="waits", command=("/bin/sh", "-c", f"cat {go}; exit 3"), launch="direct")
    )
    while cluster.client.snapshot().job(job_id).state != "running":
        time.sleep(0.02)
    first.kill()
    first.wait()
    go.write_text("now")
    while not list((cluster.config.state_dir / "runs").glob("*.end")):
        time.sleep(0.02)
    second = cluster.serve()
    assert cluster.await_all(1).job(job_id).reason == "exit status 3"
    cluster.stop(second)


def test_a_killed_runner_is_noticed(cluster: Cluster) -> None:
    first = cluster.serve()
    job_id = cluster.client.submit(rigid(1, "/bin/sleep", "1000"))
    while cluster.client.snapshot().job(job_id).state != "running":
        time.sleep(0.02)
    first.kill()
    first.wait()
    (claim,) = (cluster.config.state_dir / "runs").glob("*.claim")
    os.kill(int(str(claim.readlink()).partition(".")[0]), signal.SIGKILL)
    second = cluster.serve()
    job = cluster.await_all(1).job(job_id)
    assert (job.state, job.reason) == ("lost", "its runner was killed, or the machine went down")
    cluster.stop(second)


def test_a_malleable_job_reconnects_and_is_resized(cluster: Cluster, tmp_path: Path) -> None:
    first = cluster.serve()
    blocker = cluster.client.submit(rigid(2, "/bin/sleep", "1000"))
    job_id = cluster.client.submit(steady(tmp_path / "orders"))
    while not cluster.client.snapshot().job(job_id).ready:
        time.sleep(0.02)
    first.kill()
    first.wait()
    second = cluster.serve()
    cluster.client.cancel(blocker)
    ended = cluster.await_all(2)
    assert (ended.job(job_id).state, ended.job(job_id).grows) == ("completed", 1)
    assert (tmp_path / "orders").read_text() == "1\n"
    cluster.stop(second)
    record = cluster.record()
    assert [(resize.kind, resize.outcome, resize.seconds) for resize in record.jobs[1].resizes] == [
        ("grow", "done", 0.1)
    ]


def test_nodes_that_leave_and_come_stay_so_when_the_scheduler_is_killed(cluster: Cluster) -> None:
    """Also one that only leaves when its job, which outlives the scheduler, has ended."""

    def named() -> dict[str, str]:
        return {node.name: node.state for node in cluster.client.snapshot().nodes}

    first = cluster.serve()
    client = cluster.client
    job_id = client.submit(rigid(1, "/bin/sleep", "1000"))
    client.manage(ChangeNode(node="n9", to="add"))
    for node in ("n2", "n1"):
        client.manage(ChangeNode(node=node, to="remove"))
    assert named() == {"n1": "draining", "n3": "idle", "n9": "idle"}
    first.kill()
    first.wait()
    second = cluster.serve()
    assert named() == {"n1": "draining", "n3": "idle", "n9": "idle"}
    cluster.client.cancel(job_id)
    cluster.await_all(1)
    assert named() == {"n3": "idle", "n9": "idle"}
    cluster.client.manage(LimitUsers(nodes=7))
    second.kill()
    second.wait()
    third = cluster.serve()
    assert named() == {"n3": "idle", "n9": "idle"}
    assert cluster.client.snapshot().user_nodes == 7
    cluster.client.manage(ChangeNode(node="n2", to="add"))
    wide = cluster.client.submit(rigid(3, "/bin/true"))
    assert cluster.await_all(2).job(wide).state == "completed"
    cluster.stop(third)


class AsNobody(ControlClient):
    """Calls as another user: the kernel notes the effective user of the thread that connects."""

    def _connected(self) -> socket.socket:
        os.seteuid(65534)
        try:
            return super()._connected()
        finally:
            os.seteuid(0)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can be another user for a while")
def test_an_operator_s_hold_stays_one_when_the_scheduler_is_killed(cluster: Cluster) -> None:
    """Its user, who came in at a door, does not release it then either; what she holds herself she does."""
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="malleable-door-") as folder:  # unlike a test's own, for others
        Path(folder).chmod(0o755)
        _hold_at_the_door(cluster, f"unix:{folder}/door")


def _hold_at_the_door(cluster: Cluster, door: str) -> None:
    anna = AsNobody(Door.parse(door), timeout_s=PATIENCE_S)
    first = cluster.serve(0, "--door", door)
    kept, hers = (anna.submit(replace_request(rigid(1, "/bin/true"), hold=True)) for _ in range(2))
    cluster.client.manage(Hold(job=kept))
    anna.manage(Hold(job=kept))  # which takes nothing from the operator's
    first.kill()
    first.wait()
    second = cluster.serve(0, "--door", door)
    with pytest.raises(ControlError, match=f"job {kept} is not released: an operator holds it"):
        anna.manage(Hold(job=kept, held=False))
    states = {job.job: (job.state, job.reason) for job in anna.snapshot().jobs}
    assert states == {kept: ("held", "an operator holds it"), hers: ("held", "its user holds it")}
    assert anna.explain(kept).text == "an operator holds it"
    anna.manage(Hold(job=hers, held=False))
    cluster.client.manage(Hold(job=kept, held=False))
    assert {job.state for job in cluster.await_all(2).jobs} == {"completed"}
    cluster.stop(second)


@pytest.mark.parametrize("point", [3, 21])
def test_a_batch_survives_a_scheduler_that_dies_at(point: int, cluster: Cluster, tmp_path: Path) -> None:
    assert batch(cluster, tmp_path, iter([point])) == 1


def test_a_batch_survives_a_scheduler_that_dies_at_every_point(config: DaemonConfig, tmp_path: Path) -> None:
    """Up to the first point that a batch does not reach; how many there are depends on what is written together."""
    died = batches(config, tmp_path, lambda number, died: None if 0 in died.values() else [number])
    assert died.index(0) > 30


@pytest.mark.parametrize("seconds", [0.0, pytest.param(240.0, marks=pytest.mark.slow)])
def test_batches_survive_schedulers_that_die_all_the_time(seconds: float, config: DaemonConfig, tmp_path: Path) -> None:
    """That many batches, or for that long; where their schedulers die is drawn from a seed."""
    rng = random.Random(7)
    until = time.monotonic() + seconds

    def points(number: int, _: Mapping[int, int]) -> Sequence[int] | None:
        if number > BATCHES and time.monotonic() > until:
            return None
        return [rng.randint(1, 30) for _ in range(8)]

    died = batches(config, tmp_path, points)
    assert sum(died) > 2 * len(died)
