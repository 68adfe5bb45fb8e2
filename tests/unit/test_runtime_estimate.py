"""Estimates of resizes: the model by hand, its history and its file."""

from __future__ import annotations

import json
import logging
import stat
from collections.abc import Sequence
from pathlib import Path

import pytest

import apgas
from apgas.core.resize import MOST, Estimate, ResizeRecord, Sample, estimate, median, newest, samples_of
from apgas.runtime.calibration import Calibration, from_environment
from apgas.testing.handlers import ReleaseNewest
from apgas.testing.pytest_plugin import MakeJob


def grows(*points: tuple[int, float]) -> list[Sample]:
    return [Sample("grow", places, {"spawn": seconds}) for places, seconds in points]


def spawn_s(points: Sequence[tuple[int, float]], places: int) -> float:
    found = estimate("grow", places, places, grows(*points), [])
    assert found is not None
    assert found.seconds == found.phases["spawn"]
    return found.seconds


@pytest.mark.parametrize(
    ("points", "places", "seconds"),
    [
        ([(1, 0.3)], 4, 0.3),  # one size: level
        ([(2, 0.3), (2, 0.5), (2, 9.0)], 4, 0.5),  # at the median
        ([(1, 0.2), (2, 0.3)], 4, 0.5),  # a = 0.1, b = 0.1
        ([(1, 0.1), (2, 0.2), (3, 5.0), (4, 0.4)], 8, 0.8),  # slopes .1 2.45 .1 4.8 .1 -4.6: an outlier does not matter
        ([(1, 0.1), (2, 0.2), (3, 0.0), (4, 0.4)], 8, 0.8),  # likewise below
        ([(1, 0.5), (4, 0.2), (8, 0.1)], 16, 0.2),  # it would fall: level at the median
        ([(4, 0.4), (8, 0.8), (8, 0.8)], 1, 0.1),
    ],
)
def test_the_line_of_a_phase(points: list[tuple[int, float]], places: int, seconds: float) -> None:
    assert spawn_s(points, places) == pytest.approx(seconds)


def test_no_time_is_negative() -> None:
    assert spawn_s([(4, 0.1), (8, 0.9)], 1) == 0.0


def test_all_phases_but_post_make_up_the_time() -> None:
    phases = {"pre": 0.25, "drain": 0.5, "commit": 0.125, "release": 1.0, "post": 8.0}
    found = estimate("shrink", 2, 4, [Sample("shrink", 4, phases), *grows((1, 99.0))], [])
    assert found == Estimate("shrink", 2, 4, 1.875, phases, samples=1, of_this_run=1)


def test_without_a_resize_of_its_kind_there_is_no_estimate() -> None:
    assert estimate("shrink", 1, 1, grows((1, 1.0)), grows((1, 1.0))) is None


def test_earlier_runs_count_until_this_one_has_seen_enough() -> None:
    earlier = grows((1, 5.0), (1, 5.0), (1, 5.0))
    first = estimate("grow", 1, 1, grows((1, 1.0), (1, 1.0)), earlier)
    assert first is not None
    assert (first.seconds, first.samples, first.of_this_run) == (5.0, 5, 2)
    then = estimate("grow", 1, 1, grows((1, 1.0), (1, 1.0), (1, 1.0)), earlier)
    assert then is not None
    assert (then.seconds, then.samples, then.of_this_run) == (1.0, 3, 3)


def test_old_samples_are_forgotten() -> None:
    many = grows(*[(1, 9.0)] * MOST, *[(1, 1.0)] * MOST)
    assert spawn_s([(s.places, s.phases["spawn"]) for s in many], 1) == 1.0
    shrink = Sample("shrink", 1, {})
    kept = newest([shrink, *many])
    assert kept[0] is shrink
    assert len(kept) == 1 + MOST
    assert all(sample.phases == {"spawn": 1.0} for sample in kept[1:])


def test_medians() -> None:
    assert (median([3]), median([4, 1]), median([9, 1, 2])) == (3, 2.5, 2)


def record(outcome: str = "done", places: tuple[int, ...] = (1, 2), spawn: float = 0.5) -> ResizeRecord:
    return ResizeRecord(1, "grow", 1, 0.0, spawn, {"spawn": spawn}, outcome, "", ("a",), places)  # type: ignore[arg-type]  # a parameter


def test_only_what_was_done_teaches() -> None:
    records = [record(), record("aborted"), record("refused", ()), record("not_due", ())]
    assert samples_of(records) == [Sample("grow", 2, {"spawn": 0.5})]


# the file -------------------------------------------------------------------------------------------------------------


def test_a_later_run_knows_what_earlier_ones_have_seen(tmp_path: Path) -> None:
    path = tmp_path / "calibration.json"
    assert Calibration(path).samples == []
    Calibration(path).store([record("aborted")])
    assert not path.exists()
    Calibration(path).store([record(spawn=0.5)])
    Calibration(path).store([record(spawn=0.25)])
    assert Calibration(path).samples == grows((2, 0.5), (2, 0.25))
    assert [file.name for file in tmp_path.iterdir()] == ["calibration.json"]
    assert json.loads(path.read_text())["samples"][0] == {"kind": "grow", "places": 2, "phases": {"spawn": 0.5}}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no JSON",
        "[]",
        '{"version": 2, "samples": []}',
        '{"version": 1, "samples": [{"kind": "grow", "places": 0, "phases": {}}]}',
        '{"version": 1, "samples": [{"kind": "grow", "places": 1, "phases": {"spawn": -1}}]}',
        '{"version": 1, "samples": [{"kind": "grow", "places": 1, "phases": {"spawn": "long"}}]}',
        '{"version": 1, "samples": [{"kind": "melt", "places": 1, "phases": {}}]}',
        " " * (1 << 20) + "{}",
    ],
)
def test_a_file_that_makes_no_sense_is_ignored_and_replaced(
    text: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "calibration.json"
    path.write_text(text)
    with caplog.at_level(logging.WARNING):
        assert Calibration(path).samples == []
    assert "calibration.json is ignored" in caplog.text
    Calibration(path).store([record()])
    assert Calibration(path).samples == grows((2, 0.5))


def test_a_file_that_cannot_be_written_harms_nobody(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    Calibration(tmp_path / "no" / "folder.json").store([record()])
    assert "cannot be written" in caplog.text
    folder = tmp_path / "a-folder"
    folder.mkdir()
    Calibration(folder).store([record()])
    assert stat.S_ISDIR(folder.stat().st_mode)
    assert [file.name for file in tmp_path.iterdir()] == ["a-folder"]


def test_the_variable_names_the_file(tmp_path: Path) -> None:
    assert from_environment({}) is None
    assert from_environment({"APGAS_CALIBRATION": ""}) is None
    named = from_environment({"APGAS_CALIBRATION": str(tmp_path / "file")})
    assert named is not None
    assert named.path == tmp_path / "file"


# the public function --------------------------------------------------------------------------------------------------


def test_a_program_may_ask(apgas_job: MakeJob) -> None:
    def main() -> None:
        assert apgas.estimate(grow=2) is None
        apgas.define_malleable_handler(ReleaseNewest())
        job.grow(1).wait()
        found = apgas.estimate(grow=2)
        assert found is not None
        assert (found.nodes, found.places, found.samples, found.of_this_run) == (2, 4, 1, 1)
        assert list(found.phases) == ["pre", "spawn", "join", "commit", "post"]
        assert found.seconds == pytest.approx(sum(apgas.resizes()[0].phases.values()) - found.phases["post"])
        assert apgas.estimate(shrink=1) is None

    job = apgas_job(main, places=2, places_per_node=2)
    job.run()


@pytest.mark.parametrize(
    "numbers", [{}, {"grow": 0}, {"grow": 1, "shrink": 1}, {"grow": -1}, {"shrink": -1, "grow": 1}]
)
def test_one_number_is_asked_about(numbers: dict[str, int]) -> None:
    with pytest.raises(apgas.UsageError, match="with N of at least 1"):
        apgas.estimate(**numbers)


def test_only_place_0_can_ask(apgas_job: MakeJob) -> None:
    def ask() -> None:
        apgas.estimate(grow=1)

    with pytest.raises(apgas.UsageError, match="this works on place 0"):
        apgas_job(lambda: apgas.at(apgas.place(1), ask)).run()
