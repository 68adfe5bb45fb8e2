"""The examples of the documentation work as printed."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support import PATIENCE_S, ROOT, Leftovers, mpirun, start_job

from benchmarks.harness.jit import has_numba

pytestmark = pytest.mark.essential

EXAMPLES = ROOT / "docs" / "examples"
EXECUTOR = "docs/tutorials/executor.md"
TUTORIALS = ["docs/tutorials/first-program.md", "docs/tutorials/malleable-program.md"]
GUIDES = [
    "docs/how-to/control-activities.md",
    "docs/how-to/survive-the-loss-of-a-place.md",
    "docs/how-to/write-a-policy.md",
    "docs/how-to/write-your-own-bag.md",
]
TRANSPORTS = "docs/how-to/choose-launcher-and-mpi.md"
PROTOCOL = "docs/reference/protocol.md"
DOCUMENTS = ["README.md", EXECUTOR, *TUTORIALS, *GUIDES, TRANSPORTS, PROTOCOL]


def blocks(document: str, language: str) -> list[str]:
    """The fenced blocks of a document that are marked with a language ("" for none)."""
    text = (ROOT / document).read_text(encoding="utf-8")
    fenced = re.findall(r"^```(\w*)\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    return [body for mark, body in fenced if mark == language]


@pytest.mark.parametrize("document", DOCUMENTS)
def test_the_code_in_the_documents_is_that_of_the_examples(document: str) -> None:
    examples = [path.read_text(encoding="utf-8") for path in sorted(EXAMPLES.glob("*.py"))]
    found = blocks(document, "python")
    assert found
    for block in found:
        assert any(block in example for example in examples), block


def shown(example: str) -> tuple[int, list[str]]:
    """The number of places and the output that a tutorial shows for an example."""
    for block in (block for tutorial in (*TUTORIALS, *GUIDES) for block in blocks(tutorial, "")):
        match = re.match(rf"\$ mpiexec -n (\d+) python docs/examples/{example}\n(.*)", block, flags=re.DOTALL)
        if match:
            return int(match[1]), match[2].splitlines()
    raise AssertionError(f"{example} is not shown")


@pytest.mark.parametrize(
    "example",
    [
        "activities.py",
        "estimate.py",
        "elastic.py",
        "stencil.py",
        "jacobi.py",
        "jacobi_rigid.py",
        "knapsack.py",
        "knapsack_bag.py",
        pytest.param("uts_bag.py", marks=pytest.mark.skipif(not has_numba(), reason="numba is not installed")),
    ],
)
def test_the_tutorial_shows_what_is_printed(example: str, leftovers: Leftovers, tmp_path: Path) -> None:
    places, lines = shown(example)
    done = mpirun(places, [EXAMPLES / example], cwd=tmp_path)
    leftovers.check(done.mark)
    assert done.rc == 0, done.err
    assert done.out.splitlines() == lines
    assert done.err == ""


def test_the_executor_shows_what_is_printed(leftovers: Leftovers) -> None:
    commands = [block for block in blocks(EXECUTOR, "") if "malleable" not in block]
    assert len(commands) == 3
    for block in commands:
        command, *lines = block.splitlines()
        with start_job(command.split()[1:], cwd=ROOT) as job:
            done = job.wait()
        leftovers.check(done.mark)
        assert (done.rc, done.out.splitlines(), done.err) == (0, lines, "")


def test_the_picture_of_the_executor_is_drawn(leftovers: Leftovers, tmp_path: Path) -> None:
    with start_job([sys.executable, EXAMPLES / "coming_and_going.py", "picture.png", "50"], cwd=tmp_path) as job:
        done = job.wait()
    leftovers.check(done.mark)
    assert (done.rc, done.out, done.err) == (0, "", "")
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")


def test_the_policy_shows_what_is_printed() -> None:
    command, *lines = blocks("docs/how-to/write-a-policy.md", "")[0].splitlines()
    assert command == "$ python docs/examples/check_shortest_first.py"
    program = [sys.executable, str(EXAMPLES / "check_shortest_first.py")]
    done = subprocess.run(program, check=False, capture_output=True, text=True, timeout=PATIENCE_S)
    assert (done.returncode, done.stdout.splitlines(), done.stderr) == (0, lines, "")


def test_the_policy_is_kept_by_what_is_printed(tmp_path: Path) -> None:
    copy = tmp_path / "scheduler_bridge"
    shutil.copytree(ROOT / "scheduler_bridge", copy, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    shutil.copy(EXAMPLES / "shortest_first.py", copy / "policies")
    known = copy / "policies" / "__init__.py"
    (line,) = blocks("docs/how-to/write-a-policy.md", "text")[0].splitlines()
    before, behind = known.read_text(encoding="utf-8").split("    sd_policy,\n")
    known.write_text(f"{before}    sd_policy,\n{line}\n{behind}", encoding="utf-8")
    command = [sys.executable, "-m", "scheduler_bridge.cli", "policies", "shortest-first"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=PATIENCE_S, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Shortest first: ")


def test_the_mpi_loop_shows_what_is_printed(leftovers: Leftovers) -> None:
    command, *lines = next(block for block in blocks(TRANSPORTS, "") if "regression.py" in block).splitlines()
    assert command == "$ APGAS_TRANSPORT=mpi mpiexec -n 2 python docs/examples/regression.py"
    done = mpirun(2, [EXAMPLES / "regression.py"], env={"APGAS_TRANSPORT": "mpi"})
    leftovers.check(done.mark)
    assert (done.rc, done.out.splitlines(), done.err) == (0, lines, "")


def texts(notebook: dict[str, Any]) -> list[list[str]]:
    """What each cell of a notebook prints and gives; of pictures, only that there is one."""
    return [
        ["a picture" if "image/png" in (data := output.get("data", {})) else data.get("text/plain", output.get("text"))]
        for cell in notebook["cells"]
        for output in cell.get("outputs", ())
    ]


@pytest.mark.parametrize("name", sorted(path.name for path in (ROOT / "docs" / "tutorials").glob("*.ipynb")))
def test_a_notebook_gives_what_it_shows(name: str, leftovers: Leftovers, tmp_path: Path) -> None:
    shown = json.loads((ROOT / "docs" / "tutorials" / name).read_text(encoding="utf-8"))
    bare = {**shown, "cells": [{**cell, "outputs": []} if "outputs" in cell else cell for cell in shown["cells"]]}
    (tmp_path / name).write_text(json.dumps(bare))
    command = [sys.executable, "-c", "from nbclient.cli import main; main()", "--inplace", str(tmp_path / name)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run(command, check=True, timeout=PATIENCE_S, capture_output=True, env=environment)
    found = texts(json.loads((tmp_path / name).read_text(encoding="utf-8")))
    assert found == texts(shown)
    assert ["a picture"] in found
