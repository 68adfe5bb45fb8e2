"""Jobs that are held, moved, chained, repeated; nodes that are drained; users that have enough."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import msgspec
import pytest
from support import PATIENCE_S
from support.daemons import perform, replace_request, rigid, until

from scheduler_bridge.cli.app import run
from scheduler_bridge.core.events import JobSubmitted
from scheduler_bridge.daemon import Daemon, DaemonConfig, DaemonThread, SubmitError
from scheduler_bridge.daemon.requests import ChangeNode, Hold, JobRequest, LimitUsers, Prioritise
from scheduler_bridge.daemon.storage.log_entries import Requested, decode
from scheduler_bridge.daemon.storage.store import Store


def logs(file: Path, word: str, nodes: int = 3, **fields: object) -> JobRequest:
    """A job that adds a word to a file."""
    request = JobRequest(name=word, command=("/bin/sh", "-c", f"echo {word} >> {file}"), nodes=nodes, launch="direct")
    return replace_request(request, **fields)


def test_jobs_come_in_the_order_that_is_wished(config: DaemonConfig, tmp_path: Path) -> None:
    file = tmp_path / "words"

    async def play(daemon: Daemon) -> None:
        blocker = daemon.submit(rigid(3, "/bin/sleep", "1000"))
        held = daemon.submit(logs(file, "held", hold=True))
        last = daemon.submit(logs(file, "last"))
        late = daemon.submit(logs(file, "late", priority=5))
        first = daemon.submit(logs(file, "first"))
        assert daemon.manage(Prioritise(job=first, priority=9)) == f"job {first} has priority 9"
        assert daemon.manage(Hold(job=late)) == f"job {late} is held"
        states = {job.job: (job.state, job.reason) for job in daemon.snapshot().jobs}
        assert (states[held], states[late]) == (("held", "its user holds it"), ("held", "an operator holds it"))
        assert daemon.explain(held).text == "its user holds it"  # the core has never heard of it
        explanation = daemon.explain(late)
        assert (explanation.state, explanation.text, explanation.nodes) == ("queued", "an operator holds it", ())
        assert explanation.moments[0].text == "submitted"
        assert daemon.snapshot().now_s >= explanation.now_s > 0
        with pytest.raises(ValueError, match="does not wait"):
            daemon.manage(Hold(job=blocker))
        daemon.manage(Hold(job=held, held=False))
        daemon.cancel(blocker)
        await until(daemon, lambda: daemon.snapshot().job(last).state == "completed")
        daemon.cancel(late)
        assert daemon.snapshot().job(late).state == "cancelled"

    perform(config, play)
    assert file.read_text().split() == ["first", "held", "last"]


def test_jobs_come_after_others(config: DaemonConfig, tmp_path: Path) -> None:
    file = tmp_path / "words"

    async def play(daemon: Daemon) -> None:
        fails = daemon.submit(rigid(1, "/bin/false"))
        good = daemon.submit(logs(file, "good", nodes=1))
        anyway = daemon.submit(logs(file, "anyway", after_any=(fails, good)))
        never = daemon.submit(logs(file, "never", after_ok=(fails,)))
        then = daemon.submit(logs(file, "then", after_ok=(anyway,)))
        orphan = daemon.submit(logs(file, "orphan", after_ok=(never,)))
        with pytest.raises(SubmitError, match="no job 77"):
            daemon.submit(logs(file, "x", after_any=(77,)))
        with pytest.raises(SubmitError, match="4 nodes"):
            daemon.submit(logs(file, "x", nodes=4, after_any=(good,)))
        await daemon.idle()
        ends = {job.job: (job.state, job.reason) for job in daemon.snapshot().jobs}
        assert ends[then] == ("completed", "")
        assert ends[never] == ("cancelled", f"job {fails} did not complete")
        assert ends[orphan] == ("cancelled", f"job {never} did not complete")

    perform(config, play)
    assert file.read_text().split() == ["good", "anyway", "then"]


def test_every_job_that_can_never_run_is_ended_once(config: DaemonConfig) -> None:
    async def play(daemon: Daemon) -> None:
        fails = daemon.submit(rigid(1, "/bin/false"))
        never = [daemon.submit(replace_request(rigid(1, "/bin/true"), after_ok=(fails,))) for _ in range(3)]
        anyway = [daemon.submit(replace_request(rigid(1, "/bin/true"), after_any=(job_id,))) for job_id in never]
        await daemon.idle()
        ends = {job.job_id: job.state for job in daemon.record().jobs}
        assert ends == {fails: "failed", **dict.fromkeys(never, "cancelled"), **dict.fromkeys(anyway, "completed")}

    perform(config, play)
    store = Store(config.state_dir, read_only=True)
    entries = [decode(row)[0] for _, row in store.rows(store.eras()[0])]
    found = [event.job.job_id for entry in entries for event in entry.events if isinstance(event, JobSubmitted)]
    found += [fact.job_id for entry in entries for fact in entry.facts if isinstance(fact, Requested) and fact.admitted]
    store.close()
    assert sorted(found) == list(range(1, 8))


def test_a_job_is_run_again_when_its_node_is_lost(config: DaemonConfig, tmp_path: Path) -> None:
    file = tmp_path / "words"

    async def play(daemon: Daemon) -> None:
        first = "echo '{\"verified\": true}' > $MALLEABLE_RESULT; sleep 1000"
        command = ("/bin/sh", "-c", f"echo ran >> {file}; test $(wc -l < {file}) -gt 1 || {{ {first}; }}")
        again = JobRequest(name="again", command=command, launch="direct", requeue=True)
        job_id = daemon.submit(again)
        while not list(config.state_dir.glob("result-*")) or daemon.snapshot().job(job_id).state != "running":
            await asyncio.sleep(0.02)
        daemon.manage(ChangeNode(node="n1", to="down"))
        job = (await daemon.ended(job_id)).job(job_id)
        assert (job.state, [node.state for node in daemon.snapshot().nodes]) == ("completed", ["down", "idle", "idle"])
        daemon.manage(ChangeNode(node="n1", to="resume"))
        daemon.manage(ChangeNode(node="n9", to="add"))
        assert [node.name for node in daemon.snapshot().nodes if node.state == "idle"] == ["n1", "n2", "n3", "n9"]
        with pytest.raises(ValueError, match="no node n7"):
            daemon.manage(ChangeNode(node="n7", to="drain"))

    daemon = perform(config, play)
    assert file.read_text().split() == ["ran", "ran"]
    (job,) = daemon.record().jobs
    assert [segment.nodes for segment in job.segments] == [("n1",), ("n2",)]
    assert (job.result, job.verified) == (None, None), "what a lost attempt said is not what the job found out"


def test_a_drained_node_lets_its_job_end(config: DaemonConfig) -> None:
    async def play(daemon: Daemon) -> None:
        job_id = daemon.submit(rigid(1, "/bin/sleep", "1000"))
        await until(daemon, lambda: daemon.snapshot().job(job_id).state == "running")
        daemon.manage(ChangeNode(node="n1", to="drain"))
        assert daemon.snapshot().nodes[0].state == "draining"
        wide = daemon.submit(rigid(3, "/bin/true"))
        daemon.cancel(job_id)
        await until(daemon, lambda: daemon.snapshot().nodes[0].state == "down")
        assert daemon.snapshot().job(wide).state == "waiting"
        daemon.manage(ChangeNode(node="n1", to="resume"))
        assert (await daemon.ended(wide)).job(wide).state == "completed"

    perform(config, play)


def test_a_user_has_so_many_jobs_at_most(config: DaemonConfig) -> None:
    async def play(daemon: Daemon) -> None:
        ids = [daemon.submit(rigid(1, "/bin/sleep", "1000")) for _ in range(2)]
        kept = daemon.submit(rigid(1, "/bin/true"))
        assert daemon.snapshot().job(kept).reason.startswith("its user has 2 jobs")
        daemon.cancel(ids[0])
        assert (await daemon.ended(kept)).job(kept).state == "completed"

    perform(msgspec.structs.replace(config, user_jobs=2), play)


def test_the_jobs_of_a_user_have_so_many_nodes_at_most(config: DaemonConfig) -> None:
    async def play(daemon: Daemon) -> None:
        assert daemon.snapshot().user_nodes == 2
        first = daemon.submit(rigid(2, "/bin/sleep", "1000"))
        second = daemon.submit(rigid(1, "/bin/true"))
        words = "it needs 1 node; its user's jobs have 2 nodes and may have 2"
        waits = daemon.snapshot().job(second)
        assert (waits.state, waits.reason, waits.expected_start_s) == ("waiting", words, None)
        assert words in daemon.explain(second).text
        with pytest.raises(SubmitError, match="needs 3 nodes, a user may have 2"):
            daemon.submit(rigid(3, "/bin/true"))
        kept = daemon.submit(replace_request(rigid(2, "/bin/true"), hold=True))
        daemon.manage(LimitUsers(nodes=1))
        daemon.manage(Hold(job=kept, held=False))
        words = "it needs 2 nodes; its user's jobs have 2 nodes and may have 1"
        assert daemon.snapshot().job(kept).reason == words
        daemon.manage(LimitUsers(nodes=3))
        assert (await daemon.ended(second)).job(second).state == "completed"
        daemon.cancel(first)
        assert (await daemon.ended(kept)).job(kept).state == "completed"

    perform(msgspec.structs.replace(config, user_nodes=2), play)


def test_the_command_line_of_it(config: DaemonConfig, capsys: pytest.CaptureFixture[str]) -> None:
    def said(*words: str, code: int = 0) -> str:
        assert run([words[0], "--state", str(config.state_dir), *words[1:]]) == code, capsys.readouterr().err
        printed = capsys.readouterr()
        return printed.err if code else printed.out

    with DaemonThread(config) as daemon:
        blocker = daemon.submit(rigid(3, "/bin/sleep", "1000"))
        assert "n4" in said("nodes", "--add", "n4")
        held_node_s = daemon.snapshot().held_node_s
        assert "n4" not in said("nodes", "--remove", "n4")
        assert daemon.snapshot().held_node_s > held_node_s > 0, "what was held stays held when a node leaves"
        leaving = said("nodes", "--remove", "n3").splitlines()[3]
        assert leaving.split(maxsplit=4) == ["n3", "draining", "1", "rigid", "is to leave the cluster"]
        assert said("nodes", "--resume", "n3").splitlines()[3].split()[:2] == ["n3", "busy"]
        assert said("nodes", "--remove", "n4", code=1).startswith("there is no node n4\n")
        assert said("nodes", "--resume", "n4", code=1).startswith("there is no node n4\n")
        assert said("nodes", "--add", "n3", code=1).startswith("there is a node n3 already\n")
        assert "n2" in said("nodes", "--remove", "n1", "--remove", "n3")
        assert said("nodes", "--remove", "n2", code=1).startswith("node n2 is not removed: it is the last one\n")
        said("nodes", "--resume", "n1", "--resume", "n3")
        assert (
            said("submit", "--array", "0-1,5", "--launch", "direct", "--", "printenv", "MALLEABLE_ARRAY_INDEX")
            == "2\n3\n4\n"
        )
        assert said("submit", "--after-ok", "2-4", "--hold", "--grace", "1", "--requeue", "--", "true") == "5\n"
        assert said("limits") == "the jobs of one user hold any number of nodes\n"
        assert said("limits", "--user-nodes", "9") == "the jobs of one user hold 9 nodes at most\n"
        assert json.loads(said("limits", "--user-nodes", "none", "--json")) == {"user_nodes": None}
        assert said("limits", "--user-nodes", "0", code=2).startswith("--user-nodes 0: not a number of nodes\n")
        assert said("hold", "3") == "job 3 is held\n"
        assert said("priority", "4", "7") == "job 4 has priority 7\n"
        jobs = {job["job"]: job for job in json.loads(said("queue", "--json"))}
        assert [jobs[number]["state"] for number in (2, 3, 4, 5)] == ["waiting", "held", "waiting", "held"]
        assert (jobs[3]["name"], jobs[4]["priority"]) == ("printenv[1]", 7)
        assert "its user holds it" in said("queue")
        assert "waits: its user holds it" in said("explain", "5")
        assert said("release", "3") == "job 3 is released\n"
        assert said("release", "5") == "job 5 is released\n"
        assert "n4" in said("nodes", "--add", "n4", "--drain", "n4")
        assert said("priority", "77", "1", code=1).startswith("there is no job 77\n")
        assert said("submit", "--after-ok", "x", "--", "true", code=2).startswith("--after-ok x\n")
        assert said("submit", "--array", "0-99", "--nodes", "9", "--", "true", code=2).startswith("job 6 needs 9 nodes")
        assert said("submit", "--priority", "3", "--nodes", "9", "--", "true", code=2).startswith("job ")
        assert len(daemon.snapshot().jobs) == 5, "none of the array was taken"
        daemon.cancel(blocker)
        daemon.idle(timeout_s=PATIENCE_S)
        assert [daemon.snapshot().job(number).state for number in (2, 3, 4, 5)] == ["completed"] * 4
        assert daemon.output(4).read_text() == "5\n"


def test_output_goes_where_it_is_wanted(
    config: DaemonConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "results"
    folder.mkdir()
    file = tmp_path / "many.toml"
    file.write_text(
        'command = ["sh", "-c", "echo $MALLEABLE_ARRAY_INDEX in $PWD; echo wrong >&2"]\nlaunch = "direct"\n'
        'array = "3,7"\ncwd = "results"\noutput = "{index}-{job}.out"\nuser = "anna"\n'
    )
    with DaemonThread(config) as daemon:
        monkeypatch.chdir(tmp_path)
        assert run(["submit", "--state", str(config.state_dir), str(file)]) == 0
        words = ("--output", "{job}.out", "--errors", f"{folder}/e", "--cwd", str(folder), "--resilient")
        script = ("sh", "-c", "echo $APGAS_RESILIENT; echo wrong >&2")
        assert run(["submit", "--state", str(config.state_dir), *words, "--launch", "direct", "--", *script]) == 0
        assert capsys.readouterr().out == "1\n2\n3\n"
        daemon.idle(timeout_s=PATIENCE_S)
        assert [job.user for job in daemon.snapshot().jobs[:2]] == ["anna", "anna"]
    written = {path.name: path.read_text() for path in folder.iterdir()}
    assert written == {
        "3-1.out": f"3 in {folder}\nwrong\n",
        "7-2.out": f"7 in {folder}\nwrong\n",
        "3.out": "1\n",
        "e": "wrong\n",
    }
