"""A policy from a file of the user's."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import ROOT

from scheduler_bridge.cli.app import run
from scheduler_bridge.policies import registry

EXAMPLE = ROOT / "docs" / "examples" / "shortest_first.py"
JOBS = "nodes = 1\n[[job]]\nruntime_s = 100\ncount = 3\n[[job]]\nsubmit_s = 1\nruntime_s = 10\nwalltime_s = 20\n"


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    before = set(registry._FACTORIES)
    yield
    for name in set(registry._FACTORIES) - before:
        del registry._FACTORIES[name]


@pytest.fixture
def workload(tmp_path: Path) -> str:
    path = tmp_path / "w.toml"
    path.write_text(JOBS)
    return str(path)


def test_a_policy_of_ones_own_is_simulated(workload: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "own").mkdir()
    own = Path(shutil.copy(EXAMPLE, tmp_path / "own"))
    options = ["--policy", "shortest-first", "--set", "patience=0.5", "--json", "-"]
    assert run(["simulate", "--workload", workload, "--load", str(own), *options]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["policy"], found["parameters"]) == ("shortest-first", {"patience": 0.5})
    # on one node: 100 s, then the short one, which came at 1 s, then the others
    assert found["metrics"]["mean_wait_s"] == pytest.approx((0 + 99 + 110 + 210) / 4)
    assert list(own.parent.iterdir()) == [own], "nothing is left beside it"


def test_it_is_described(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["policies", "shortest-first", "--load", str(EXAMPLE)]) == 0
    assert capsys.readouterr().out.startswith("Shortest first: ")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = 1\n", "--load {}: it registers no policy"),
        ("x = 1\ny = (\n", "{}:2: "),
        ("x = 1\nraise KeyError('why')\n", "{}:2: KeyError: 'why'"),
        (EXAMPLE.read_text(encoding="utf-8").replace("shortest_first(", "easy("), "policy 'easy' is registered twice"),
    ],
)
def test_a_file_that_is_no_policy_is_reported(
    text: str, said: str, tmp_path: Path, workload: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mine.py"
    path.write_text(text)
    assert run(["simulate", "--workload", workload, "--load", str(path), "--policy", "easy"]) == 2
    assert said.format(path) in capsys.readouterr().err
    assert run(["policies", "--load", str(tmp_path / "none.py")]) == 1
    assert "none.py: No such file or directory" in capsys.readouterr().err
