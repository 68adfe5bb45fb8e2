"""Counting a tree in pieces: exact wherever it is interrupted, and only with the right file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.uts import checkpoint
from benchmarks.uts.checkpoint import CheckpointError
from benchmarks.uts.count import advance, main, progress_line, spoken_time
from benchmarks.uts.samples import SAMPLES
from benchmarks.uts.tree import Tree

TREE = Tree(9)
NODES = 1031269


def after(calls: int) -> Callable[[], bool]:
    """A stop that comes when it is asked for the ``calls``-th time."""
    asked = iter(range(1, 1000))
    return lambda: next(asked) >= calls


def some(path: Path, stop: Callable[[], bool], piece: int = 100_000) -> bool:
    """Go on from the file, if there is one, until ``stop``."""
    count = checkpoint.load(path, TREE) if path.exists() else checkpoint.begin(TREE)
    return advance(TREE, count, path, stopped=stop, show=lambda _: None, piece=piece)


def test_a_count_that_is_interrupted_all_the_time_is_exact(tmp_path: Path) -> None:
    path, runs = tmp_path / "count", 1
    while not some(path, after(2)):
        runs += 1
    count = checkpoint.load(path, TREE)
    assert (count.bag.count, count.runs) == (NODES, runs)
    assert runs >= 10


def test_a_binomial_tree_too(tmp_path: Path) -> None:
    tree, path = SAMPLES["T3"], tmp_path / "count"
    advance(tree, checkpoint.begin(tree), path, stopped=after(3), show=lambda _: None, piece=700_000)
    count = checkpoint.load(path, tree)
    assert 1_400_000 <= count.bag.count < 1_500_000
    assert advance(tree, count, path, stopped=lambda: False, show=lambda _: None)
    assert count.bag.count == 4112897


def test_it_is_saved_now_and_then(tmp_path: Path) -> None:
    seen = []

    def look(_: checkpoint.Count) -> None:
        seen.append(checkpoint.load(path, TREE).bag.count if path.exists() else 0)

    path = tmp_path / "count"
    advance(TREE, checkpoint.begin(TREE), path, stopped=lambda: False, show=look, every_s=1e-9, piece=100_000)
    assert seen == sorted(set(seen))
    assert len(seen) >= 10


def test_what_is_counted_is_not_counted_again(tmp_path: Path) -> None:
    path = tmp_path / "count"
    assert some(path, lambda: False)
    before = path.read_text()
    assert some(path, lambda: False)
    assert path.read_text() == before


def changed(path: Path, **fields: object) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (lambda path: path.write_text(path.read_text()[:-40]), "was cut"),
        (lambda path: path.write_text("[]"), "not a checkpoint"),
        (lambda path: path.write_text("{}"), "not a checkpoint"),
        (lambda path: path.write_bytes(b"\xff\xfe"), "was cut"),
        (lambda path: changed(path, nodes=7), "checksum"),
        (lambda path: changed(path, tree={"kind": "Tree", "depth": 8, "seed": 19, "branching": 4}), "checksum"),
    ],
)
def test_a_damaged_file_is_refused(damage: Callable[[Path], None], why: str, tmp_path: Path) -> None:
    path = tmp_path / "count"
    some(path, after(3))
    damage(path)
    with pytest.raises(CheckpointError, match=why):
        checkpoint.load(path, TREE)


@pytest.mark.parametrize("other", [Tree(8), Tree(9, 20), SAMPLES["T3"]])
def test_the_file_of_another_tree_is_refused(other: Tree, tmp_path: Path) -> None:
    path = tmp_path / "count"
    some(path, after(3))
    with pytest.raises(CheckpointError, match="another tree: depth 9, seed 19, branching 4"):
        checkpoint.load(path, other)


def test_the_command_counts_and_refuses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "count")
    assert main(["--depth", "9", "--checkpoint", path]) == 0
    assert "1,031,269 nodes (as recorded)" in capsys.readouterr().out
    assert main(["--depth", "8", "--checkpoint", path]) == 2
    assert "another tree" in capsys.readouterr().err
    assert main(["--depth", "8", "--checkpoint", path, "--every", "0"]) == 2
    assert main(["--depth", "8", "--checkpoint", str(tmp_path / "no" / "count")]) == 2
    assert main(["--depth", "8"]) == 2
    assert main(["--sample", "T9", "--checkpoint", path]) == 2
    assert main(["--seed", "3", "--depth", "6", "--checkpoint", str(tmp_path / "other")]) == 0
    assert "no count is recorded" in capsys.readouterr().out


def test_a_wrong_count_is_an_error(tmp_path: Path) -> None:
    count = checkpoint.begin(TREE)
    count.bag.count += 1
    checkpoint.save(tmp_path / "count", TREE, count)
    assert main(["--depth", "9", "--checkpoint", str(tmp_path / "count")]) == 1


def test_progress_tells_rate_and_time_left() -> None:
    count = checkpoint.begin(Tree(15))
    assert progress_line("UTS", count) == "UTS · 1 nodes · 0 nodes per CPU-second"
    count.bag.process(10_000_000)
    count.seconds = 0.1
    assert " M nodes per CPU-second · about " in progress_line("UTS", count)
    assert [spoken_time(s) for s in (5, 600, 12_000)] == ["5 s", "10 min", "3 h 20 min"]
