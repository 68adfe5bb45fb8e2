"""From a job's request to the command that is executed."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import msgspec
import pytest

from scheduler_bridge.daemon.config import EMULATED, DaemonConfig, DaemonError
from scheduler_bridge.daemon.jobs.template import (
    check_command,
    gate_words,
    launch_command,
    lookup_environment,
    mpiexec_words,
    own_words,
    starts_mpiexec,
    wants_launcher,
)
from scheduler_bridge.daemon.requests import JobRequest, Launch, SubmitError

MPIEXEC = Path("/opt/bin/mpiexec")
LAUNCHER = ("launcher", "--hosts")


def request(*command: str, **environment: str) -> JobRequest:
    return JobRequest(name="job", command=command, nodes=2, environment=environment)


@pytest.mark.parametrize(
    ("environment", "hosts", "count"),
    [({}, "a,b", "2"), ({"APGAS_PLACES_PER_NODE": "1"}, "a,b", "2"), ({"APGAS_PLACES_PER_NODE": "3"}, "a:3,b:3", "6")],
)
def test_each_node_gets_its_places(environment: dict[str, str], hosts: str, count: str) -> None:
    words = launch_command(request("prog", "-v", **environment), ("a", "b"), LAUNCHER)
    assert words == (*LAUNCHER, hosts, "-n", count, "prog", "-v")
    direct = launch_command(request("run", "{hosts}", "-n{count}", **environment), ("a", "b"), LAUNCHER)
    assert direct == ("run", hosts, f"-n{count}")


@pytest.mark.parametrize(
    ("launch", "command", "settings", "by_mpiexec"),
    [
        ("auto", ("prog",), {}, False),
        ("mpiexec", ("prog",), {}, True),
        ("mpiexec", ("prog", "{hosts}"), {}, True),
        ("direct", ("prog",), {"mpiexec": MPIEXEC}, False),
        ("auto", ("prog",), {"mpiexec": MPIEXEC}, True),
        ("auto", ("prog",), {"reach": "/state/reach"}, False),
        ("mpiexec", ("prog",), {"reach": "/state/reach"}, True),
        ("auto", ("prog", "{hosts}"), {"mpiexec": MPIEXEC}, False),
        ("auto", ("/opt/bin/mpirun", "prog"), {"mpiexec": MPIEXEC}, False),
        ("auto", ("python", "-m", "apgas.launch", "-n2", "prog"), {"mpiexec": MPIEXEC}, False),
    ],
)
def test_mpiexec_starts_what_is_to_be_started_by_it(
    launch: Launch, command: tuple[str, ...], settings: dict[str, Any], by_mpiexec: bool
) -> None:
    asked = msgspec.structs.replace(request(*command), launch=launch)
    config = DaemonConfig(nodes=("a",), state_dir=Path("state"), **settings)
    assert starts_mpiexec(asked, config) is by_mpiexec


@pytest.mark.parametrize("command", [("mpiexec", "prog"), ("python", "-m", "apgas.launch", "prog"), ("p", "{count}")])
def test_a_launcher_does_not_start_another_one(command: tuple[str, ...]) -> None:
    assert not wants_launcher(request(*command))


def test_the_options_of_launchers() -> None:
    here = ("-launcher", "fork", "-hosts")
    assert mpiexec_words(request("prog"), MPIEXEC, EMULATED) == (str(MPIEXEC), *here)
    resilient = mpiexec_words(request("prog", APGAS_RESILIENT="1"), MPIEXEC, EMULATED)
    assert resilient[-6:] == ("apgas.survive", "--mpiexec", str(MPIEXEC), *here)
    elsewhere = mpiexec_words(request("prog"), MPIEXEC, "/state/reach")
    assert elsewhere[1:] == ("-launcher", "ssh", "-launcher-exec", "/state/reach", "-hosts")
    books = ("--books", "/state/books-1", "--by-caller")
    words = own_words(2.5, EMULATED, Path("/state/books-1"))
    assert words[-9:] == ("--launcher", "fork", "--as-is", "--grace", "2.5", *books, "--hosts")
    assert "'/my state/reach'" in own_words(2.5, "/my state/reach", Path("/state/books-1"))


def test_only_the_names_of_emulated_nodes_are_looked_up_in_haste() -> None:
    assert lookup_environment(EMULATED) == {"RES_OPTIONS": "timeout:1 attempts:1"}
    assert lookup_environment("/state/reach") == {}


@pytest.mark.parametrize(("per_node", "cores", "each"), [("1", 8, "8"), ("3", 8, "2"), ("3", 2, "1")])
def test_a_command_gets_the_cores_of_each_place(per_node: str, cores: int, each: str) -> None:
    asked = request("prog", "--workers", "{cores}", APGAS_PLACES_PER_NODE=per_node)
    words = launch_command(asked, ("a", "b"), LAUNCHER, cores=cores)
    assert words[0] == LAUNCHER[0], "it does not say how it is launched"
    assert words[-2:] == ("--workers", each)


def test_a_command_gets_the_ids_of_its_cores() -> None:
    words = launch_command(request("taskset", "-c{core_ids}", "prog"), ("a",), LAUNCHER, cores=2, core_ids="2-3")
    assert words[-3:] == ("taskset", "-c2-3", "prog")


@pytest.mark.parametrize("text", ["0", "many", "-2"])
def test_the_number_of_places_is_checked_at_submission(text: str) -> None:
    with pytest.raises(SubmitError, match="APGAS_PLACES_PER_NODE"):
        check_command(request("true", APGAS_PLACES_PER_NODE=text))


def v1(*command: str) -> JobRequest:
    return msgspec.structs.replace(request(*command), protocol="v1", job_class="malleable")


def test_a_v1_job_stands_behind_a_gate_that_knows_its_nodes_and_their_names() -> None:
    config = DaemonConfig(("a", "b"), state_dir=Path("state"), resize_deadline_s=90.0)
    gate = gate_words(config)
    assert gate[-3:] == ("--deadline", "90", "--emulated")
    words = launch_command(v1("java", "{hosts}", "{count}", "{v1_port}"), ("a", "b"), (), gate=gate)
    job = ("--nodes", "a,b", "--job-class", "malleable", "--", "java", "{hosts}", "2", "{v1_port}")
    assert words == (*gate, *job), "the gate fills in what it chooses itself"


def test_on_other_hosts_a_v1_job_begins_on_its_first_node() -> None:
    gate = gate_words(DaemonConfig(("a", "b"), state_dir=Path("state"), reach="/state/reach"))
    assert "--emulated" not in gate
    words = launch_command(v1("java"), ("a", "b"), LAUNCHER, gate=gate)
    assert words[: len(LAUNCHER) + 3 + len(gate)] == (*LAUNCHER, "a", "-n", "1", *gate)
    assert words[-1] == "java"


@pytest.mark.parametrize("name", ["resize_deadline_s", "grace_s", "cooldown_s"])
def test_a_time_that_is_not_finite_is_refused(tmp_path: Path, name: str) -> None:
    times: dict[str, Any] = {name: math.inf}
    with pytest.raises(DaemonError, match=f"{name} is inf"):
        DaemonConfig(nodes=("a",), state_dir=tmp_path, **times)
