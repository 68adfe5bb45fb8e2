"""A timeline of a real run that grows and shrinks."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

from support import Leftovers, mpirun

PROGRAM = Path(__file__).parent / "programs" / "glb_program.py"


def test_the_timeline_holds_every_place_and_every_order(leftovers: Leftovers, tmp_path: Path) -> None:
    timeline = tmp_path / "trace.json"
    job = mpirun(2, [PROGRAM, "traced", timeline])
    assert job.rc == 0, job.err
    assert json.loads(job.out)["right"] is True
    leftovers.check(job.mark)
    events = json.loads(timeline.read_text(encoding="utf-8"))["traceEvents"]
    assert {event["args"]["name"].split(" (")[0] for event in events if event["name"] == "process_name"} == {
        f"place {place}" for place in range(4)
    }
    assert {event["pid"] for event in events if event["name"] == "work"} == set(range(4))
    orders = [event for event in events if event.get("cat") == "order"]
    assert [order["name"] for order in orders] == ["grow 2: done", "shrink 2: done"]
    for order in orders:
        inside = [event for event in events if event.get("cat") == "phase" and event["ts"] >= order["ts"]]
        assert inside[0]["name"] == "pre"
        assert abs(inside[0]["ts"] - order["ts"]) < 1
    # they are in order, although each was scheduled, and is timed, on its own
    assert orders[0]["ts"] + orders[0]["dur"] <= orders[1]["ts"]
    # newcomers work after they were ordered, not before: all places are on one clock
    ordered_us = orders[0]["ts"]
    assert all(event["ts"] > ordered_us for event in events if event["name"] == "work" and event["pid"] >= 2)


def test_the_timeline_shows_each_worker_busy_stealing_and_starving(leftovers: Leftovers, tmp_path: Path) -> None:
    timeline = tmp_path / "trace.json"
    words = ["-m", "benchmarks.uts", "--depth", "12", "--workers", "2", "--rate", "1e7", "--quiet"]
    job = mpirun(2, [*words, "--trace", timeline])
    assert job.rc == 0, job.err
    leftovers.check(job.mark)
    events = json.loads(timeline.read_text(encoding="utf-8"))["traceEvents"]
    rows = {(event["pid"], event["tid"]): event["args"]["name"] for event in events if event["name"] == "thread_name"}
    by_worker: dict[tuple[int, str], list[dict[str, Any]]] = {}
    for event in events:
        row = rows.get((event["pid"], event["tid"]), "")
        if row.startswith("worker ") and event["ph"] != "M":
            assert event["ph"] == "X"
            by_worker.setdefault((event["pid"], row), []).append(event)
    assert set(by_worker) == {(place, f"worker {slot}") for place in range(2) for slot in range(2)}
    kinds = {event["name"] for spans in by_worker.values() for event in spans}
    assert kinds == {"busy", "stealing", "starving"}
    for spans in by_worker.values():
        spans.sort(key=lambda event: float(event["ts"]))
        for one, other in pairwise(spans):
            # a worker does one thing at a time (us; the times are rounded)
            assert one["ts"] + one["dur"] <= other["ts"] + 0.01


def test_a_timeline_that_cannot_be_written_is_refused_at_once(leftovers: Leftovers, tmp_path: Path) -> None:
    job = mpirun(1, ["-m", "benchmarks.pi", "--samples", "1e6", "--trace", tmp_path / "missing" / "trace.json"])
    assert job.rc == 2
    assert "--trace" in job.err
    leftovers.check(job.mark)
