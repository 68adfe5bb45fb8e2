"""Where a job's output goes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scheduler_bridge.daemon.jobs.template import check_outputs, output_files
from scheduler_bridge.daemon.requests import JobRequest, SubmitError, array_job
from scheduler_bridge.daemon.storage.state import StateFolder
from scheduler_bridge.jobrunner import run


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[StateFolder]:
    kept = StateFolder(tmp_path / "state")
    yield kept
    kept.close()


def request(cwd: Path, **wishes: Any) -> JobRequest:
    return JobRequest(name="job", command=("true",), cwd=str(cwd), **wishes)


def test_the_scheduler_keeps_it_unless_asked_otherwise(folder: StateFolder, tmp_path: Path) -> None:
    assert output_files(request(tmp_path), 7, folder) == (folder.output(7), folder.errors(7))


def test_errors_go_where_the_output_goes(folder: StateFolder, tmp_path: Path) -> None:
    both = output_files(request(tmp_path, output="a/{job}.txt"), 7, folder)
    assert both == (tmp_path / "a/7.txt", tmp_path / "a/7.txt")
    assert output_files(request(tmp_path, errors="e"), 7, folder) == (folder.output(7), tmp_path / "e")
    assert output_files(request(tmp_path, output="/o", errors="e"), 7, folder) == (Path("/o"), tmp_path / "e")


def test_a_job_of_an_array_has_its_number_in_the_name(folder: StateFolder, tmp_path: Path) -> None:
    jobs = [array_job(request(tmp_path, output="{index}-{job}"), number) for number in (4, 9)]
    assert [output_files(job, 10 + at, folder)[0].name for at, job in enumerate(jobs)] == ["4-10", "9-11"]
    for job in jobs:
        check_outputs(job)


def test_jobs_of_an_array_do_not_write_one_file(tmp_path: Path) -> None:
    with pytest.raises(SubmitError, match="by every job of the array") as caught:
        check_outputs(array_job(request(tmp_path, output="all"), 4))
    assert caught.value.field == "output"


@pytest.mark.parametrize(
    ("field", "name", "why"),
    [
        ("output", "missing/x", "is not a folder"),
        ("errors", ".", "is a folder"),
        ("output", "a/b", "a is not a folder"),
    ],
)
def test_what_cannot_be_written_is_refused_at_submission(tmp_path: Path, field: str, name: str, why: str) -> None:
    (tmp_path / "a").touch()
    with pytest.raises(SubmitError, match=why) as caught:
        check_outputs(request(tmp_path, **{field: name}))
    assert caught.value.field == field


@pytest.mark.parametrize("field", ["output", "errors"])
def test_what_is_no_file_is_refused(tmp_path: Path, field: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name in (str(tmp_path / "pipe"), "/dev/tty", "/dev/zero"):
        with pytest.raises(SubmitError, match="is no regular file") as caught:
            check_outputs(request(tmp_path, **{field: name}))
        assert caught.value.field == field
    check_outputs(request(tmp_path, **{field: "/dev/null"}))


def test_an_output_is_opened_without_waiting(tmp_path: Path) -> None:
    """What it was when the job was submitted need not be what it is when the job starts."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="No such device or address"):
        run._open(str(tmp_path / "pipe"), appends=False)
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    for path in (tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(OSError, match="it is no regular file"):
            run._open(str(path), appends=False)
    os.close(reader)
    (tmp_path / "file").write_text("of before")
    with run._open(str(tmp_path / "file"), appends=False) as file:
        assert os.get_blocking(file.fileno())
    assert (tmp_path / "file").read_text() == ""
    for said in (b"first life ", b"second life"):
        with run._open(str(tmp_path / "file"), appends=True) as file:
            file.write(said)
    assert (tmp_path / "file").read_text() == "first life second life"
    run._open("/dev/null", appends=False).close()
