"""Advance reservations by the command line, against a real daemon."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from scheduler_bridge.cli.app import run
from scheduler_bridge.daemon import DaemonConfig
from scheduler_bridge.daemon.daemon import DaemonThread


@pytest.fixture
def daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DaemonThread]:
    monkeypatch.setenv("MALLEABLE_STATE", str(tmp_path / "state"))
    with DaemonThread(DaemonConfig(("a", "b", "c", "d"), state_dir=tmp_path / "state")) as thread:
        yield thread


def said(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    assert run(list(words)) == code
    captured = capsys.readouterr()
    return captured.err if code else captured.out


@pytest.mark.usefixtures("daemon")
def test_nodes_are_reserved_listed_used_and_given_back(capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, "reserve", "list") == "nothing is reserved\n"
    made = said(capsys, "reserve", "--nodes", "2", "--start", "+1h", "--for", "2h")
    assert made.startswith("r1: 2 nodes (c, d) from ")
    assert said(capsys, "submit", "--nodes", "3", "--walltime", "86400", "--", "sleep", "60") == "1\n"
    assert said(capsys, "submit", "--reservation", "r1", "--", "sleep", "60") == "2\n"
    queue = said(capsys, "queue")
    assert "its reservation r1 begins in 60.0 min" in queue
    assert "2 are free but reserved" in queue
    assert "reserved: 2 nodes for r1 from " in queue
    assert "r1 from " in said(capsys, "nodes")
    (kept,) = json.loads(said(capsys, "reserve", "list", "--json"))
    assert (kept["nodes"], kept["jobs"], kept["started"]) == (["c", "d"], [2], False)
    assert kept["end_s"] - kept["start_s"] == pytest.approx(7200)
    jobs = {job["job"]: job for job in json.loads(said(capsys, "queue", "--json"))}
    assert jobs[2]["expected_start_s"] == kept["start_s"]
    assert jobs[1]["expected_start_s"] == kept["end_s"]
    assert said(capsys, "reserve", "cancel", "r1") == "reservation r1 is cancelled\n"
    assert {job["state"] for job in json.loads(said(capsys, "queue", "--json"))} <= {"starting", "running"}
    assert said(capsys, "reserve", "--node-names", "a", "--start", "+10h", "--for", "1h", code=1).startswith(
        "nothing is reserved: a cannot be free by its start: job 1 may run until "
    )


@pytest.mark.usefixtures("daemon")
def test_a_reservation_that_has_begun_keeps_its_nodes(capsys: pytest.CaptureFixture[str]) -> None:
    said(capsys, "reserve", "--nodes", "3", "--for", "2h", "--name", "visit", "--users", "nobody-else")
    refused = said(capsys, "submit", "--reservation", "visit", "--", "sleep", "60", code=2)
    assert refused.splitlines()[1] == "it is for nobody-else"
    assert "visit until " in said(capsys, "nodes")
    assert said(capsys, "submit", "--nodes", "2", "--", "sleep", "60") == "1\n"
    assert json.loads(said(capsys, "queue", "--json"))[0]["state"] == "waiting"


@pytest.mark.usefixtures("daemon")
@pytest.mark.parametrize(
    ("words", "what", "code"),
    [
        (["--for", "2h"], "--nodes or --node-names", 2),
        (["--nodes", "2"], "--for is missing", 2),
        (["--nodes", "2", "--for", "2x"], "--for 2x: not a duration", 2),
        (["--nodes", "2", "--for", "2h", "--start", "noon"], "--start noon: not a time", 2),
        (["--nodes", "9", "--for", "2h"], "nothing is reserved: it asks for 9 nodes, the cluster has 4", 1),
        (["--nodes", "1", "--for", "2h", "--name", "a b"], "nothing is reserved: reservation 'a b'", 1),
        (["--nodes", "1", "--for", "2h", "--jobs", "7"], "nothing is reserved: job 7 does not wait", 1),
        (["cancel", "r7"], "there is no reservation r7", 1),
    ],
)
def test_bad_wishes_are_answered_clearly(
    words: list[str], what: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said(capsys, "reserve", *words, code=code).startswith(what)


@pytest.mark.usefixtures("daemon")
@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["--reservation", "r7"], "there is no reservation r7"),
        (["--reservation", "r1", "--nodes", "3"], "the job needs 3 nodes, reservation r1 has 2"),
        (
            ["--reservation", "r1", "--walltime", "8000"],
            "the walltime of 8000 s is more than reservation r1 leaves, 7200",
        ),
    ],
)
def test_jobs_that_do_not_fit_are_not_taken(words: list[str], what: str, capsys: pytest.CaptureFixture[str]) -> None:
    said(capsys, "reserve", "--nodes", "2", "--start", "+1h", "--for", "2h")
    assert said(capsys, "submit", *words, "--", "sleep", "60", code=2).startswith(what)
