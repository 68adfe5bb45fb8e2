"""Jobs with several places per node."""

from __future__ import annotations

import json
from pathlib import Path

from support import Leftovers, mpirun

PROGRAMS = Path(__file__).parent / "programs"
TWO = {"APGAS_PLACES_PER_NODE": "2"}
HOSTS = ["-launcher", "fork", "-hosts", "nodeA:2,nodeB:2"]


def test_nodes_come_and_go_with_all_their_places(leftovers: Leftovers, tmp_path: Path) -> None:
    calibration = tmp_path / "calibration.json"
    env = {**TWO, "APGAS_CALIBRATION": str(calibration)}
    job = mpirun(4, [PROGRAMS / "nodes.py", "0:+2,0:-1,0:-2,0:-2", "4", "nodeC,nodeD"], options=HOSTS, env=env)
    assert job.rc == 0, job.err
    result = json.loads(job.out)
    assert result["calls"] == [
        "preGrow 4",
        "postGrow ['4 nodeC', '5 nodeC', '6 nodeD', '7 nodeD']",
        "preShrink 2",
        "shrinkAborted [7]",
        "preShrink 4",
        "postShrink [4, 5, 6, 7]",
    ]
    assert result["records"] == [
        ["grow", 2, "done", "", ["nodeC", "nodeD"], [4, 5, 6, 7]],
        ["shrink", 1, "aborted", "preShrink named [7], but not [6] of the same node", [], []],
        ["shrink", 2, "done", "", ["nodeC", "nodeD"], [4, 5, 6, 7]],
        ["shrink", 2, "refused", "cannot release 2 of 2 nodes: that of place 0 always stays", [], []],
    ]
    assert result["nodes"] == [[0, 1], [2, 3]]
    kept = [(sample["kind"], sample["places"]) for sample in json.loads(calibration.read_text())["samples"]]
    assert kept == [("grow", 4), ("shrink", 4)]
    leftovers.check(job.mark)


def test_mpiexec_has_to_fill_the_nodes(leftovers: Leftovers) -> None:
    job = mpirun(3, [PROGRAMS / "nodes.py", "0:+1", "1", ""], env=TWO)
    assert job.rc != 0
    assert "has 3 places, which do not make nodes of 2: start a multiple of 2 on each host" in job.err
    leftovers.check(job.mark)


def test_the_balancer_releases_whole_nodes(leftovers: Leftovers, tmp_path: Path) -> None:
    file = tmp_path / "result.json"
    work = ["--samples", "6000000", "--workers", "1", "--rate", "400000", "--verify"]
    words = ["-m", "benchmarks.pi", *work, "--orders", "0:+1,0:-2", "--json", str(file)]
    job = mpirun(4, words, options=HOSTS, env=TWO)
    assert job.rc == 0, job.err
    result = json.loads(file.read_text(encoding="utf-8"))
    assert result["verified"] is not False
    assert [(resize["n"], resize["outcome"]) for resize in result["resizes"]] == [(1, "done"), (2, "done")]
    assert (result["places_start"], result["places_end"]) == (4, 2)
    leftovers.check(job.mark)
