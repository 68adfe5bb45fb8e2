"""From a job's request to the command that is executed."""

from __future__ import annotations

from pathlib import Path

import pytest

from scheduler_bridge.daemon.config import EMULATED
from scheduler_bridge.daemon.jobs.template import check_command, launch_command, lookup_environment
from scheduler_bridge.daemon.requests import JobRequest, SubmitError

MPIEXEC = Path("/opt/bin/mpiexec")


def request(*command: str, **environment: str) -> JobRequest:
    return JobRequest(name="job", command=command, nodes=2, environment=environment)


@pytest.mark.parametrize(
    ("environment", "hosts", "count"),
    [({}, "a,b", "2"), ({"APGAS_PLACES_PER_NODE": "1"}, "a,b", "2"), ({"APGAS_PLACES_PER_NODE": "3"}, "a:3,b:3", "6")],
)
def test_each_node_gets_its_places(environment: dict[str, str], hosts: str, count: str) -> None:
    words = launch_command(request("prog", "-v", **environment), ("a", "b"), MPIEXEC)
    assert words == (str(MPIEXEC), "-launcher", "fork", "-hosts", hosts, "-n", count, "prog", "-v")
    own = launch_command(request("run", "{hosts}", "-n{count}", **environment), ("a", "b"), MPIEXEC)
    assert own == ("run", hosts, f"-n{count}")


def test_only_the_names_of_emulated_nodes_are_looked_up_in_haste() -> None:
    assert lookup_environment(EMULATED) == {"RES_OPTIONS": "timeout:1 attempts:1"}
    assert lookup_environment(("-launcher", "ssh")) == {}


@pytest.mark.parametrize(("per_node", "cores", "each"), [("1", 8, "8"), ("3", 8, "2"), ("3", 2, "1")])
def test_a_command_is_told_the_cores_of_each_place(per_node: str, cores: int, each: str) -> None:
    asked = request("prog", "--workers", "{cores}", APGAS_PLACES_PER_NODE=per_node)
    words = launch_command(asked, ("a", "b"), MPIEXEC, cores=cores)
    assert words[0] == str(MPIEXEC), "it does not say how it is launched"
    assert words[-2:] == ("--workers", each)


def test_a_command_is_told_the_ids_of_its_cores() -> None:
    words = launch_command(request("taskset", "-c{core_ids}", "prog"), ("a",), MPIEXEC, cores=2, core_ids="2-3")
    assert words[-3:] == ("taskset", "-c2-3", "prog")


@pytest.mark.parametrize("text", ["0", "many", "-2"])
def test_the_number_of_places_is_checked_at_submission(text: str) -> None:
    with pytest.raises(SubmitError, match="APGAS_PLACES_PER_NODE"):
        check_command(request("true", APGAS_PLACES_PER_NODE=text))
