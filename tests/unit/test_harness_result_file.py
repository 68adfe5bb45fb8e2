"""The result file is whole at any time and never an older run's."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from benchmarks.harness.errors import BadUsage
from benchmarks.harness.measurement import ResultFile


def test_a_reserved_file_says_that_the_run_did_not_end(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    path.write_text('{"result": 1}')
    ResultFile(path).reserve()
    assert json.loads(path.read_text()) == {"error": "the run did not end"}


def test_a_write_replaces_everything_and_leaves_nothing_beside(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    target = ResultFile(path)
    target.reserve()
    target.write({"result": 2})
    assert json.loads(path.read_text()) == {"result": 2}
    assert list(tmp_path.iterdir()) == [path]


def test_what_cannot_be_written_leaves_the_old_content(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    target = ResultFile(path)
    target.write({"result": 3})
    with pytest.raises(TypeError):
        target.write({"result": object()})
    assert json.loads(path.read_text()) == {"result": 3}
    assert list(tmp_path.iterdir()) == [path]


def test_a_write_that_fails_leaves_nothing_beside(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    target = ResultFile(path)
    path.mkdir()
    with pytest.raises(OSError, match=r"result\.json"):
        target.write({"result": 4})
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_is_followed_and_a_device_is_not_replaced(tmp_path: Path) -> None:
    path, link = tmp_path / "result.json", tmp_path / "link.json"
    link.symlink_to(path)
    ResultFile(link).write({"result": 4})
    assert link.is_symlink()
    assert json.loads(path.read_text()) == {"result": 4}
    target = ResultFile(Path(os.devnull))
    target.reserve()
    target.write({"result": 5})
    assert Path(os.devnull).is_char_device()


def test_a_pipe_gets_the_result_alone() -> None:
    reader, writer = os.pipe()
    target = ResultFile(Path(f"/dev/fd/{writer}"))
    target.reserve()
    target.write({"result": 6})
    os.close(writer)
    with os.fdopen(reader) as stream:
        assert json.load(stream) == {"result": 6}


def test_impossible_files_are_refused_before_anything_runs(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing" / "result.json"):
        with pytest.raises(BadUsage, match="--json"):
            ResultFile(path).reserve()
    ResultFile(None).reserve()


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="needs a folder that even root cannot write")
def test_an_unwritable_folder_is_refused() -> None:
    with pytest.raises(BadUsage, match="cannot write it"):
        ResultFile(Path("/proc/self/result.json")).reserve()
