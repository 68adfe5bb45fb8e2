"""Slips of editors and of people in files of workloads: what is read all the same, and what is said about the rest."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import os
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from scheduler_bridge.model.job import JOB_FILE_KEYS
from scheduler_bridge.workloads import TraceError, load, read_swf
from scheduler_bridge.workloads.elastisim import read_elastisim

MARK = b"\xef\xbb\xbf"
SWF = b"; MaxNodes: 4\n1 0 -1 60 2 -1 -1 2 90 -1 1 7 1 -1 -1 -1 -1 -1\n"
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


FORMS = [
    ("swf", SWF),
    ("csv", EAGLE),
    ("toml", b"# a job\nnodes = 2\nruntime_s = 60\n"),
    ("json", json.dumps(ELASTISIM).encode()),
]


@pytest.mark.parametrize(("form", "content"), FORMS)
@pytest.mark.parametrize("pack", [bytes, gzip.compress, lzma.compress, bz2.compress])
@pytest.mark.parametrize("name", ["w.{}", "w.{}.gz", "w.txt", "W.SWF", "w", "w.csv.xz", "-"])
def test_the_form_of_a_file_follows_from_what_is_in_it(
    form: str,
    content: bytes,
    pack: Callable[[bytes], bytes],
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if form == "toml" and name in ("W.SWF", "w.csv.xz"):
        return  # any text may be a bad line of these: there the name decides
    monkeypatch.chdir(tmp_path)
    Path("crossbar.xml").write_text('<cluster radical="0-3" speed="1Gf"/>')
    Path("application_model.json").write_text(json.dumps(MODEL))
    if name == "-":
        monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(pack(content))))
    else:
        Path(name.format(form)).write_bytes(pack(content))
    workload = load(name.format(form))
    assert [(job.nodes, job.runtime_s) for job in workload.jobs] == [(2, 60)]
    assert workload.name.lower() == ("standard input" if name == "-" else "w")


@pytest.mark.parametrize(("form", "content"), [FORMS[0], FORMS[-1]])
def test_a_pipe_is_read_once(form: str, content: bytes, tmp_path: Path) -> None:
    (tmp_path / "crossbar.xml").write_text('<cluster radical="0-3" speed="1Gf"/>')
    (tmp_path / "application_model.json").write_text(json.dumps(MODEL))
    for read in (load, read_swf if form == "swf" else read_elastisim):
        os.mkfifo(path := tmp_path / f"{read.__name__}.{form}")
        writer = threading.Thread(target=path.write_bytes, args=(gzip.compress(content),), daemon=True)
        writer.start()
        assert len(read(path)) == 1
        writer.join()


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress, bz2.compress])
@pytest.mark.parametrize(("form", "content"), FORMS)
def test_a_packed_file_that_is_cut_off_is_refused(
    form: str, content: bytes, pack: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    path = tmp_path / f"w.{form}"
    path.write_bytes(pack(content)[:-12])
    with pytest.raises(TraceError, match="the compressed file ends early or is damaged"):
        load(path)


def test_what_is_of_no_known_form_is_said(tmp_path: Path) -> None:
    (tmp_path / "w.txt").write_text("Dear all,\n")
    with pytest.raises(TraceError, match="unknown form") as caught:
        load(tmp_path / "w.txt")
    assert "it begins with 'Dear all,\\n'" in caught.value.why
    (tmp_path / "w.swf").write_bytes(b"\x28\xb5\x2f\xfd" + bytes(20))
    with pytest.raises(TraceError, match=r"zstd|damaged"):
        load(tmp_path / "w.swf")


def test_workloads_of_several_jobs_say_how_many_nodes_there_are(tmp_path: Path) -> None:
    (tmp_path / "w.toml").write_text("[[job]]\nnodes = 4\n[[job]]\nnodes = 1\n")
    with pytest.raises(TraceError, match="how many nodes the machine has is not known") as caught:
        load(tmp_path / "w.toml")
    assert "the largest job has 4" in caught.value.why
    assert load(tmp_path / "w.toml", nodes=8).nodes == 8
    (tmp_path / "w.toml").write_text("[[job]]\nnodes = 4\n")
    assert load(tmp_path / "w.toml").nodes == 4


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


@pytest.mark.parametrize("text", ["nodes = 4\n[[jobs]]\nnodes = 1\n", "[jobs]\nnodes = 1\n", "jobs = [{nodes = 1}]\n"])
def test_jobs_of_another_key_are_said_to_be_given_as_job(text: str, tmp_path: Path) -> None:
    (tmp_path / "w.toml").write_text(text)
    with pytest.raises(TraceError, match=r"w\.toml: unknown key 'jobs'") as caught:
        load(tmp_path / "w.toml")
    assert caught.value.why == "the jobs of a workload are given as [[job]]"


def test_what_can_be_submitted_can_be_read(tmp_path: Path) -> None:
    numbers = {
        "nodes": "2",
        "min_nodes": "1",
        "max_nodes": "2",
        "walltime_s": "60",
        "rho": "0.1",
        "class": '"malleable"',
    }
    (tmp_path / "w.toml").write_text("".join(f"{key} = {numbers.get(key, '1')}\n" for key in JOB_FILE_KEYS))
    assert len(load(tmp_path / "w.toml").jobs) == 1
