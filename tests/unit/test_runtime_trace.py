"""The timeline: clocks, spans, files."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import pytest

import apgas
from apgas.core.identity import Place
from apgas.core.relay import branches
from apgas.core.resize import ResizeRecord
from apgas.runtime import trace
from apgas.testing.pytest_plugin import MakeJob


@pytest.fixture(autouse=True)
def off(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(trace, "on", False)
    monkeypatch.setattr(trace, "_events_of", WeakKeyDictionary())
    return iter(())


def _events(timeline: trace.Timeline) -> list[dict[str, Any]]:
    events = timeline.as_json()["traceEvents"]
    assert isinstance(events, list)
    return events


def test_nothing_is_kept_while_it_is_off() -> None:
    with trace.span("work", "glb"):
        trace.instant("steal", "glb")
    assert trace.take() == []


def test_spans_and_instants_are_handed_over_once() -> None:
    trace.enable()
    with trace.span("work", "glb", slot=1):
        trace.instant("steal", "glb", victim=3)
    steal, work = trace.take()
    assert (steal.name, steal.ended_ns, steal.arguments) == ("steal", 0, {"victim": 3})
    assert work.began_ns <= steal.began_ns <= work.ended_ns
    assert trace.take() == []


def test_a_span_is_noted_even_if_its_block_raises() -> None:
    trace.enable()
    with pytest.raises(KeyError), trace.span("work", "glb"):
        raise KeyError
    assert [event.name for event in trace.take()] == ["work"]


def test_places_elsewhere_are_put_on_the_clock_of_place_0() -> None:
    timeline = trace.Timeline(Path(), lambda *_: None)
    timeline.meet(Place(0, "a"), 500, 400, 600)
    timeline.meet(Place(1, "b"), 1_000_500, 400, 600)
    timeline.add(0, [trace.Event("here", "x", "t", 2_000, 3_000, {})])
    timeline.add(1, [trace.Event("there", "x", "t", 1_002_000, 1_004_000, {})])
    spans = [event for event in _events(timeline) if event["ph"] == "X"]
    assert [(event["name"], event["ts"], event["dur"]) for event in spans] == [("here", 0.0, 1.0), ("there", 0.0, 2.0)]


def test_the_phases_of_an_order_follow_one_another() -> None:
    record = ResizeRecord(7, "grow", 2, 1.0, 0.5, {"pre": 0.1, "spawn": 0.4}, "done", "", ("c",))
    timeline = trace.Timeline(Path(), lambda *_: None)
    timeline.add_resizes([(record, 0)])
    found = [(event["name"], event["ts"], event["dur"]) for event in _events(timeline) if event["ph"] == "X"]
    assert found == [("grow 2: done", 0.0, 500_000.0), ("pre", 0.0, 100_000.0), ("spawn", 100_000.0, 400_000.0)]


def test_the_file_names_places_and_threads(tmp_path: Path) -> None:
    timeline = trace.Timeline(tmp_path / "trace.json", lambda *_: None)
    timeline.meet(Place(4, "node4"), 1, 0, 2)
    timeline.add(4, [trace.Event("work", "glb", "apgas-4-1", 10, 20, {})])
    timeline.write()
    names = [
        e["args"]["name"] for e in json.loads((tmp_path / "trace.json").read_text())["traceEvents"] if e["ph"] == "M"
    ]
    assert names == ["place 4 (node4)", "apgas-4-1"]
    assert [path.name for path in tmp_path.iterdir()] == ["trace.json"]


def test_events_of_all_places_come_by_a_tree(
    apgas_job: MakeJob, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(trace, "DEGREE", 2)
    asked: list[tuple[int, int]] = []

    def noted(below: Sequence[Place], fan: int) -> list[Sequence[Place]]:
        asked.append((apgas.here().id, len(below)))
        return branches(below, fan)

    monkeypatch.setattr(trace, "branches", noted)

    def main() -> None:
        apgas.trace(tmp_path / "timeline.json")
        apgas.gather(apgas.trace_instant, "seen", "test")

    apgas_job(main, places=7).run()
    events = json.loads((tmp_path / "timeline.json").read_text())["traceEvents"]
    assert sorted(event["pid"] for event in events if event["name"] == "seen") == list(range(7))
    assert sorted(asked) == [(0, 6), (1, 2), (2, 0), (3, 0), (4, 2), (5, 0), (6, 0)]


def test_a_place_that_dies_as_it_is_asked_for_its_events_takes_no_result_along(
    apgas_job: MakeJob, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def main() -> str:
        apgas.trace(tmp_path / "timeline.json")
        apgas.gather(apgas.trace_instant, "seen", "test")
        return "the result"

    job = apgas_job(main, places=4, resilient=True)
    add = trace.Timeline.add

    def kill_the_next(timeline: trace.Timeline, place: int, events: Iterable[trace.Event]) -> None:
        add(timeline, place, events)
        if place == 1:
            job.kill(2)

    monkeypatch.setattr(trace.Timeline, "add", kill_the_next)
    assert job.run() == "the result"
    events = json.loads((tmp_path / "timeline.json").read_text())["traceEvents"]
    assert sorted(event["pid"] for event in events if event["name"] == "seen") == [0, 1, 3]
