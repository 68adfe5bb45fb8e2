from __future__ import annotations

from pathlib import Path

import pytest

from scheduler_bridge.cli.common import CliError
from scheduler_bridge.cli.jobs import JobFile

GOOD = """\
# A job
name = "uts"
class = "malleable"
command = ["sh", "-c", "true"]
walltime_s = 60
min_nodes = 4
max_nodes = 8
env = { DEPTH = "3" }
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def failure(text: str) -> CliError:
    Path("job.toml").write_text(text)
    with pytest.raises(CliError) as caught:
        JobFile.read(Path("job.toml")).request(user="me", cwd=str(Path.cwd()))
    assert caught.value.code == 2
    return caught.value


def test_a_job_file_says_it_all(folder: Path) -> None:
    Path("job.toml").write_text(GOOD)
    request = JobFile.read(Path("job.toml")).request(user="me", cwd=str(folder))
    assert request.bounds() == (4, 4, 8)
    assert (request.name, request.job_class, request.walltime_s) == ("uts", "malleable", 60.0)
    assert Path(request.command[0]).is_absolute()
    assert request.command[1:] == ("-c", "true")
    assert request.environment == {"DEPTH": "3"}
    assert request.cwd == str(folder)


def test_defaults_follow_from_the_file(folder: Path) -> None:
    Path("hello.toml").write_text('command = ["sh"]\nmax_nodes = 3\n')
    request = JobFile.read(Path("hello.toml")).request(user="", cwd=str(folder))
    assert (request.name, request.job_class, request.bounds()) == ("hello", "malleable", (1, 1, 3))


def test_an_error_has_the_published_form(folder: Path) -> None:
    error = failure(GOOD.replace("max_nodes = 8", "max_nodes = 2"))
    assert error.what == "job.toml:7: max_nodes (2) is below min_nodes (4)"
    assert error.why == "a malleable job needs min_nodes <= max_nodes"
    assert error.hint == "set max_nodes to at least 4"


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ("max_nodes = 8", 'max_nodes = "many"', "job.toml:7: max_nodes: expected int | null, got str"),
        ("max_nodes = 8", "max_nodes = = 8", "job.toml:7: "),
        ("walltime_s = 60", "walltime_s = 0", "job.toml:5: walltime_s: "),
        ("walltime_s = 60", "wall_time = 60", "job.toml:5: unknown key 'wall_time'"),
        ('class = "malleable"', 'class = "elastic"', "job.toml:3: class: 'elastic' is not one of rigid, malleable"),
        ('class = "malleable"', 'class = "rigid"', "job.toml:6: a rigid job has one size"),
        ('"sh", "-c"', '"no-such-program-at-all", "-c"', "job.toml:4: no-such-program-at-all is not a program"),
        ('"sh", "-c"', '"./job.toml", "-c"', "job.toml:4: "),
        ('command = ["sh", "-c", "true"]', "", "job.toml:1: command is missing"),
        ('command = ["sh", "-c", "true"]', 'command = "true"', "job.toml:4: command: "),
    ],
)
def test_errors_name_the_line(folder: Path, old: str, new: str, what: str) -> None:
    assert failure(GOOD.replace(old, new)).what.startswith(what)


def test_a_file_that_cannot_be_read_is_named(folder: Path) -> None:
    with pytest.raises(CliError, match=r"nothing\.toml: No such file"):
        JobFile.read(Path("nothing.toml"))
    with pytest.raises(CliError, match="/dev/zero: more than 1,048,576 bytes"):
        JobFile.read(Path("/dev/zero"))


def test_an_array_is_named_in_the_file(folder: Path) -> None:
    Path("job.toml").write_text('command = ["sh"]\narray = "0-2,9"\n')
    assert JobFile.read(Path("job.toml")).array() == (0, 1, 2, 9)
    Path("job.toml").write_text('command = ["sh"]\n')
    assert JobFile.read(Path("job.toml")).array() is None


@pytest.mark.parametrize(
    ("value", "what"),
    [("3", "job.toml:2: array: numbers are given as text"), ('"0-x"', "job.toml:2: array 0-x"),
     ('"0-99999999999999999999"', "job.toml:2: array 0-9999")],
)  # fmt: skip
def test_a_wrong_array_is_reported_with_its_line(folder: Path, value: str, what: str) -> None:
    Path("job.toml").write_text(f'command = ["sh"]\narray = {value}\n')
    with pytest.raises(CliError) as caught:
        JobFile.read(Path("job.toml")).array()
    assert caught.value.what.startswith(what)
