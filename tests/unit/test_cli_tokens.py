"""``malleable tokens``, and commands that are told a door instead of a folder."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scheduler_bridge.cli.app import run


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MALLEABLE_STATE", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path


def test_tokens_are_made_listed_and_made_void(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["tokens", "add", "anna"]) == 0
    name, _, token = capsys.readouterr().out.strip().partition(":")
    assert (name, len(token)) == ("anna", 64)
    assert run(["tokens", "add", "olga", "--operator"]) == 0
    capsys.readouterr()
    assert run(["tokens", "list"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "USER  MAY",
        "anna  what concerns own jobs",
        "olga  everything",
    ]
    assert run(["tokens", "remove", "anna"]) == 0
    assert run(["tokens", "list", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == [{"user": "olga", "operator": True}]
    assert run(["tokens", "remove", "anna"]) == 2
    assert capsys.readouterr().err.splitlines() == [
        "anna has no token",
        "malleable tokens list shows who has",
    ]
    assert [path.name for path in state.iterdir()] == ["tokens.json"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["report"], "is a door"),
        (["history"], "is a door"),
        (["tokens", "list"], "is a door"),
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


def test_a_door_is_written_as_one(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("MALLEABLE_STATE", "tcp:nowhere")
    assert run(["queue"]) == 2
    assert capsys.readouterr().err.splitlines() == ["tcp:nowhere is not a door", "give unix:PATH or tcp:HOST:PORT"]
