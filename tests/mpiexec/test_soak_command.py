"""Real jobs that grow and shrink under traffic, watched from outside; and what the watcher must notice."""

from __future__ import annotations

import pytest
from stress import soak

SABOTEUR = f"{soak.FIND}; import subprocess, tempfile; from stress import soak_program as p; order = p.order\n"
"""Breaks something in place 0 before the job starts."""
SILENT = "subprocess.Popen(['sleep', '99'], start_new_session=True"
HOARD = "kept = []; p.order = lambda *a: kept.extend"


@pytest.mark.parametrize("transport", ["tcp", "mpi"], ids="over_{}".format)
def test_every_activity_counts_once_while_places_come_and_go(
    transport: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = soak.main(["--cycles", "8", "--transport", transport])
    said = capsys.readouterr().out
    assert code == 0, said
    assert "8 cycles" in said
    assert "each counted once" in said


@pytest.mark.slow
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("transport", ["tcp", "mpi"], ids="over_{}".format)
def test_two_hundred_cycles(transport: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = soak.main(["--cycles", "200", "--seed", "1", "--transport", transport])
    with capsys.disabled():
        print(said := capsys.readouterr().out)
    assert code == 0, said


@pytest.mark.parametrize(
    ("defect", "words"),
    [
        pytest.param("p.note = lambda *arguments: None", "expected Expected", id="a lost effect"),
        pytest.param("p.Keeper.preGrow = lambda *a: 1 / 0", "preGrow raised ZeroDivisionError", id="an aborted order"),
        pytest.param(f"{SILENT}, stdout=-3, stderr=-3)", "left something behind", id="a process"),
        pytest.param(f"{SILENT})", "has not ended within", id="no end", marks=pytest.mark.slow),
        pytest.param(
            f"{HOARD}(tempfile.TemporaryFile() for _ in range(99)) or order(*a)", "descriptors open", id="open files"
        ),
        pytest.param(f"{HOARD}([b'x' * (80 << 20)]) or order(*a)", "MiB", id="memory", marks=pytest.mark.slow),
    ],
)
def test_the_soak_notices(
    defect: str, words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(soak, "START", f"{SABOTEUR}{defect}\np.main()")
    monkeypatch.setattr(soak, "ENDS_S", 2.0)
    code = soak.main(["--cycles", "3"])
    said = capsys.readouterr().out
    assert code == 1, said
    assert "FAILED" in said
    assert words in said, said
    assert "again: PYTHONPATH=tests python -m stress.soak --cycles 3" in said


@pytest.mark.parametrize("wrong", [["--cycles", "0"], ["--most", "3"], ["--hours", "-1"], ["--transport", "udp"]])
def test_bad_usage_is_refused(wrong: list[str]) -> None:
    with pytest.raises(SystemExit) as refusal:
        soak.main(wrong)
    assert refusal.value.code == 2
