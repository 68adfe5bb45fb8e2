"""A policy from a file of the user's."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import ROOT

from scheduler_bridge import policies, simulate
from scheduler_bridge.cli.app import run
from scheduler_bridge.policies import registry
from scheduler_bridge.workloads import load

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
        ("import sys\nsys.exit(3)\n", "{}:2: SystemExit: 3"),
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


MISTAKEN = """
from scheduler_bridge.policies import Start, register

class Mistaken:
    name = "mistaken"
    def __init__(self, how): self.how = how
    def decide(self, view, now):
        if self.how == "exit": raise SystemExit(3)
        many = [Start(job.job_id, 9, "so") for job in view.queue]
        return {"idle": [], "none": None, "words": ["x"], "many": many}[self.how]
    def why_waiting(self, view, job, reservation): return "so"

@register
def mistaken(how: str = "my mistake"):
    '''It is mistaken.'''
    return Mistaken(how) if how != "made not" else {}[how]
"""


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("my mistake", "policy mistaken ({}:10) raised KeyError: 'my mistake' at 0 s"),
        ("exit", "policy mistaken ({}:8) raised SystemExit: 3 at 0 s"),
        ("none", "policy mistaken decided None at 0 s: that is no list of decisions"),
        ("words", "policy mistaken decided ['x'] at 0 s: that is no list of decisions"),
        ("many", "policy mistaken decided at 0 s what cannot be done: Start("),
        ("made not", "policy mistaken ({}:16) raised KeyError: 'made not' when it was made"),
    ],
)
def test_a_mistake_of_a_policy_is_told_from_ours(
    how: str, said: str, tmp_path: Path, workload: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mine.py"
    path.write_text(MISTAKEN)
    given = ["--workload", workload, "--load", str(path)]
    assert run(["simulate", *given, "--policy", "mistaken", "--set", f"how={how}"]) == 1
    assert said.format(path) in capsys.readouterr().err
    with pytest.raises(policies.PolicyError, match=re.escape(said.format(path))) as caught:
        simulate(load(Path(workload)), lambda: policies.get("mistaken", how=how))
    assert caught.value.__cause__ is not None


def test_jobs_that_never_end_are_warned_of(tmp_path: Path, workload: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mine.py"
    path.write_text(MISTAKEN)
    options = ["--load", str(path), "--policy", "mistaken", "--set", "how=idle"]
    assert run(["simulate", "--workload", workload, *options]) == 0
    assert "\nWARNING: never ended: 4 jobs; " in capsys.readouterr().out


def test_the_function_of_a_policy_makes_one() -> None:
    with pytest.raises(ValueError, match="policy 'needs': give its parameter how a default"):

        @policies.register
        def needs(how: str) -> policies.Policy:
            """It needs something."""
            return policies.get(how)

    @policies.register
    def makes_none() -> policies.Policy:
        """It makes none."""
        return None  # type: ignore[return-value]

    with pytest.raises(policies.PolicyError, match="policy makes-none: its function returned None"):
        policies.get("makes-none")
