"""Slips of editors and of people in files of workloads: what is read all the same, and what is said about the rest."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from scheduler_bridge.model.job_file import KEYS
from scheduler_bridge.workloads import TraceError, load

MARK = b"\xef\xbb\xbf"
SWF = b"1 0 -1 60 2 -1 -1 2 90 -1 1 7 1 -1 -1 -1 -1 -1\n"
EAGLE = b"job_id,submit_time,nodes_req,run_time\n1,2019-01-01 00:00:00,2,60\n"
MODEL = {"phases": [{"tasks": [{"type": "cpu", "flops": "6e10"}]}]}
ELASTISIM = {
    "jobs": [{"type": "rigid", "num_nodes": 2, "submit_time": 0, "application_model": "application_model.json"}]
}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("w.swf", SWF),
        ("w.swf.gz", SWF),
        ("w.csv", EAGLE),
        ("w.toml", b"nodes = 2\nruntime_s = 60\n"),
        ("w.json", json.dumps(ELASTISIM).encode()),
    ],
)
def test_a_byte_order_mark_is_no_part_of_a_file(name: str, content: bytes, tmp_path: Path) -> None:
    (tmp_path / "crossbar.xml").write_text('<cluster radical="0-3" speed="1Gf"/>')
    (tmp_path / "application_model.json").write_bytes(MARK + json.dumps(MODEL).encode())
    marked = MARK + content
    (tmp_path / name).write_bytes(gzip.compress(marked) if name.endswith(".gz") else marked)
    (job,) = load(tmp_path / name).jobs
    assert (job.nodes, job.runtime_s) == (2, 60)


def test_the_speed_of_nodes_is_where_it_is_looked_for(tmp_path: Path) -> None:
    (tmp_path / "w.json").write_text(json.dumps(ELASTISIM))
    with pytest.raises(TraceError, match="the speed of a node is not known") as caught:
        load(tmp_path / "w.json")
    assert caught.value.hint == "put ElastiSim's platform beside it, as crossbar.xml"


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("runtime = 60\n", "job 1: unknown key 'runtime'"),
        ("[[job]]\nnodes = 1\n[[job]]\nspeedpu = 'linear'\n", "job 2: unknown key 'speedpu'"),
        ("node = 4\n[[job]]\nnodes = 1\n", "w.toml: unknown key 'node'"),
    ],
)
def test_an_unknown_key_of_a_job_file_is_refused(text: str, what: str, tmp_path: Path) -> None:
    (tmp_path / "w.toml").write_text(text)
    with pytest.raises(TraceError, match=what):
        load(tmp_path / "w.toml")


def test_what_can_be_submitted_can_be_read(tmp_path: Path) -> None:
    numbers = {
        "nodes": "2",
        "min_nodes": "1",
        "max_nodes": "2",
        "walltime_s": "60",
        "rho": "0.1",
        "class": '"malleable"',
    }
    (tmp_path / "w.toml").write_text("".join(f"{key} = {numbers.get(key, '1')}\n" for key in KEYS))
    assert len(load(tmp_path / "w.toml").jobs) == 1
