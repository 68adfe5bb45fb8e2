"""Commands that are given a door instead of a folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from scheduler_bridge.cli.app import run


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["report"], "is a door"),
        (["history"], "is a door"),
        (["serve", "--nodes", "1"], "is a door"),
        (["queue"], "no scheduler serves unix:/nowhere/door"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_a_door_is_no_folder(
    words: list[str], says: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MALLEABLE_STATE", "unix:/nowhere/door")
    assert run(words) in (1, 2)
    assert says in capsys.readouterr().err


@pytest.mark.parametrize(
    ("door", "says"),
    [
        ("unix:", ["unix: is not a door", "give unix:PATH"]),
        (
            "tcp:10.0.0.1:7077",
            [
                "tcp:10.0.0.1:7077 is not a door: a scheduler takes no users by TCP",
                "give unix:PATH; from other machines: ssh HOST malleable queue --state unix:PATH",
            ],
        ),
    ],
)
def test_a_door_is_a_unix_socket(
    door: str, says: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("MALLEABLE_STATE", door)
    assert run(["queue"]) == 2
    assert capsys.readouterr().err.splitlines() == says
    assert run(["serve", "--nodes", "1", "--state", str(tmp_path / "state"), "--door", door]) == 2
    assert capsys.readouterr().err.splitlines() == says


@pytest.mark.parametrize("command", [["queue"], ["serve", "--nodes", "1"]])
def test_an_empty_name_is_not_the_current_folder(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run([*command, "--state", ""]) == 2
    assert "it is empty" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
