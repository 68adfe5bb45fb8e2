"""A user's graph on places that come and go: the scores of networkx, the same bytes for any number of places."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import networkx as nx
import pytest
from support import PATIENCE_S, ROOT, Leftovers, mpirun


def written(folder: Path) -> tuple[Path, nx.Graph]:
    """A graph with gaps in its numbers, a second component and a comment."""
    ring = nx.relabel_nodes(nx.connected_watts_strogatz_graph(800, 4, 0.1, seed=3), lambda vertex: 7 * vertex + 1000)
    model = nx.compose(ring, nx.path_graph(20))
    path = folder / "graph.txt.gz"
    nx.write_edgelist(model, path, data=False)
    return path, model


def test_the_scores_are_the_same_bytes_under_any_resize(leftovers: Leftovers, tmp_path: Path) -> None:
    graph, model = written(tmp_path)
    outputs = []
    runs: list[tuple[int, list[str | Path]]] = [
        (1, ["--verify"]),
        (2, ["--rate", "200", "--orders", "0.1:+2,0.2:-1"]),
        (3, ["--orders", "0:-1"]),
    ]
    for number, (places, options) in enumerate(runs):
        output, result = tmp_path / f"scores{number}.csv", tmp_path / f"result{number}.json"
        command: list[str | Path] = [
            "-m",
            "benchmarks.bc",
            "--graph",
            graph,
            "--workers",
            "1",
            "--output",
            output,
            "--json",
            result,
        ]
        done = mpirun(places, [*command, *options])
        leftovers.check(done.mark)
        assert done.rc == 0, done.err
        written_down = json.loads(result.read_text())
        if options == ["--verify"]:
            assert written_down["verified"] is True
        outputs.append((output.read_bytes(), written_down["result"]))
    assert outputs[1] == outputs[0]
    assert outputs[2] == outputs[0]
    header, *lines = outputs[0][0].decode().splitlines()
    assert header == "vertex,betweenness"
    scores = {int(vertex): float(score) for vertex, score in (line.split(",") for line in lines)}
    assert list(scores) == sorted(model.nodes)
    assert scores == pytest.approx(nx.betweenness_centrality(model, normalized=False), abs=1e-6)


def test_the_how_to_runs_as_printed(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "how-to" / "run-the-benchmarks.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```\n(\$ .*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    commands = [part.partition("\n") for block in blocks for part in block.split("$ ")[1:]]
    assert len(commands) == 3
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for command, _, printed in commands:
        done = subprocess.run(
            shlex.split(command),
            cwd=tmp_path,
            env=os.environ | {"PATH": path, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=True,
            timeout=PATIENCE_S,
        )
        assert done.stdout == printed
