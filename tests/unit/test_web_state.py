"""The document that the page gets, and its changes."""

from __future__ import annotations

import itertools
import math
import re
from importlib.resources import files
from typing import Any

from msgspec import json, structs
from support.clusters import Cluster

from scheduler_bridge import policies
from scheduler_bridge.core import Settings
from scheduler_bridge.daemon import ReservationStatus
from scheduler_bridge.record import Advance, Segment
from scheduler_bridge.sim import Behaviour, ReplayOptions, replay
from scheduler_bridge.web.feed import Document, change, document
from scheduler_bridge.workloads import TraceJob, Workload, convert


def page_of(cluster: Cluster, window_s: float = 900.0) -> dict[str, Any]:
    snapshot = cluster.snapshot()
    return sent(document(snapshot, cluster.recent(snapshot.now_s - window_s), window_s))


def sent(page: Document) -> dict[str, Any]:
    """What a browser gets."""
    found: dict[str, Any] = json.decode(json.encode(page))
    return found


def busy() -> Cluster:
    cluster = Cluster(6)
    grower = cluster.submit("grower", 1, 5)
    cluster.now_s = 10.0
    cluster.start(grower, "node1", "node2", "node5")
    cluster.now_s = 19.25
    cluster.grow(grower, "node3", took_s=0.75)
    cluster.submit("waiter", 4, 4, reason="it needs 4 nodes, 2 are free")
    cluster.now_s = 30.0
    return cluster


def test_nodes_are_numbers_and_ranges() -> None:
    job = page_of(busy())["jobs"]["1"]
    assert job["segments"] == [[10.0, 20.0, [[0, 1], [4, 4]]], [20.0, None, [[0, 2], [4, 4]]]]
    (resize,) = job["resizes"]
    assert (resize["kind"], resize["count"], resize["ordered_s"], resize["done_s"]) == ("grow", 1, 19.25, 20.0)
    assert (resize["outcome"], resize["seconds"], resize["took_s"]) == ("done", 0.5, 0.75)
    assert resize["phases"] == {"pre": 0.1, "spawn": 0.4, "outside the job": 0.25}, "what adds up to what it took"


def test_shared_nodes_are_shown_in_parts() -> None:
    cluster = busy()
    snapshot = cluster.snapshot()
    record = cluster.recent(0.0)
    record.jobs[0].segments = [
        Segment(10.0, math.inf, ("node1", "node2", "node3"), 0.75, shares=(0.5, 0.75, 1.0)),
    ]
    record.jobs[1].segments = [Segment(10.0, math.inf, ("node1",), 0.25, is_guest=True)]
    jobs = sent(document(snapshot, record, 900.0))["jobs"]
    assert jobs["1"]["segments"] == [
        [10.0, None, [[0, 0]], 0.5, 0.0],
        [10.0, None, [[1, 1]], 0.75, 0.0],
        [10.0, None, [[2, 2]]],
    ]
    assert jobs["2"]["segments"] == [[10.0, None, [[0, 0]], 0.25, 0.75]]


def test_totals_count_nodes_and_jobs() -> None:
    cluster = busy()
    cluster.fail("node6")
    totals = page_of(cluster)["totals"]
    assert (totals["busy"], totals["idle"], totals["down"]) == (4, 1, 1)
    assert (totals["running"], totals["waiting"], totals["ended"]) == (1, 1, 0)
    assert totals["utilization_now"] == 0.8
    assert totals["utilization"] == round((3 * 10 + 4 * 10) / (6 * 30), 3)
    assert [5, 30.0, None, None] in page_of(cluster)["reserved"]
    assert ["node6", "down"] in page_of(cluster)["nodes"]


def test_what_ended_before_the_window_is_left_out() -> None:
    cluster = busy()
    cluster.end(1)
    cluster.now_s = 100.0
    assert "1" in page_of(cluster, window_s=80.0)["jobs"]
    assert page_of(cluster, window_s=80.0)["jobs"]["1"]["segments"] == [[20.0, 30.0, [[0, 2], [4, 4]]]]
    assert "1" not in page_of(cluster, window_s=60.0)["jobs"]
    assert "2" in page_of(cluster, window_s=60.0)["jobs"], "it waits still"


def test_changes_make_the_new_picture_of_the_old_one() -> None:
    cluster = busy()
    pictures = [page_of(cluster)]
    for act in (
        lambda: cluster.end(1),
        lambda: cluster.start(2, "node1", "node2", "node3", "node4"),
        lambda: cluster.submit("third", 1, 2),
        lambda: cluster.fail("node6"),
    ):
        cluster.now_s += 5.0
        act()
        pictures.append(page_of(cluster, window_s=900.0 if len(pictures) < 3 else 3.0))
    page = pictures[0]
    for before, after in itertools.pairwise(pictures):
        part = change(before, after)
        jobs = {**page["jobs"], **part.get("jobs", {})}
        page = {**page, **part, "jobs": {number: job for number, job in jobs.items() if job is not None}}
        assert page == after
    assert "1" not in page["jobs"]


def test_of_a_very_long_queue_the_first_are_listed_and_the_others_counted() -> None:
    cluster = busy()
    for number in range(1500):
        cluster.now_s = 30.0 + number / 100
        cluster.submit(f"waits-{number}")
    page = page_of(cluster)
    assert page["totals"]["waiting"] == 1501
    waiting = [job["name"] for job in page["jobs"].values() if job["state"] == "waiting"]
    assert (len(waiting), waiting[0], waiting[-1]) == (1000, "waiter", "waits-998")
    assert page["unlisted"] == [[30.0, 1], [40.0, 500]]


def test_what_stays_is_not_sent_again() -> None:
    cluster = busy()
    before = page_of(cluster)
    cluster.now_s = 31.0
    assert set(change(before, page_of(cluster))) == {"now_s", "totals"}


def test_reservations_and_the_nodes_that_were_kept_are_listed() -> None:
    cluster = busy()
    snapshot = structs.replace(
        cluster.snapshot(),
        reservations=(ReservationStatus("visit", 60.0, 90.0, ("node2", "node3", "node6"), ("anna",), (7,)),),
    )
    record = cluster.recent(0.0)
    record.advance = [Advance("gone", 5.0, 15.0, ("node1",)), Advance("visit", 60.0, 90.0, ("node2",))]
    found = sent(document(snapshot, record, 900.0))
    (kept,) = found["advance"]
    assert (kept["name"], kept["nodes"], kept["users"], kept["jobs"]) == ("visit", [[1, 2], [5, 5]], ["anna"], 1)
    assert found["kept"] == [["gone", 5.0, 15.0, [[0, 0]]]], "those to come are no part of the picture"


def test_the_page_finds_the_times_in_the_reasons_of_every_policy() -> None:
    """It words them from now on. What else is in seconds is a duration: the text before it says so."""
    script = files("scheduler_bridge.web").joinpath("static/words.js").read_text(encoding="utf-8")
    times = re.search(r"words\.replace\(/(.+)/g,", script)
    assert times is not None
    jobs = [TraceJob(job, 20.5 * job, 60.25 * (1 + job * 7 % 9), 300.0, 1 + job * 5 % 7) for job in range(60)]
    jobs += [TraceJob(60, 2000.0, 900.0, 100.0, 1)]  # is killed
    workload = convert(Workload("w", 8, tuple(jobs)), 0.5, seed=1)
    options = ReplayOptions(Behaviour(), settings=Settings(cores_per_node=2), remember=frozenset(range(61)))
    found = 0
    for policy in policies.names():
        done = replay(workload, policies.get(policy), options=options)
        for text in {moment.text for job in done.result.explanations.values() for moment in job.moments}:
            rest, count = re.subn(times[1], "", text)
            assert set(re.findall(r"(\S+) [\d.e+]+ s\b", rest)) <= {"of"}, text
            found += count
    assert found > 100
