"""The daemon's web server over real sockets: pages, events, metrics, limits, and callers that mean no good."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families
from support import PATIENCE_S
from support.clusters import Cluster
from support.pages import Events, Served
from support.strangers import converse

from scheduler_bridge.daemon import DaemonError
from scheduler_bridge.web import WebConfig, WebServer, feed

CONFIG = WebConfig(port=0, interval_s=0.01, heartbeat_s=0.2, request_s=2.0, idle_s=1.0, connections=16, watchers=2)


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster()
    cluster.now_s = 1.0
    cluster.start(cluster.submit("first", 1, 3), "node1")
    cluster.submit("second", 4, 4, reason="it needs 4 nodes")
    cluster.now_s = 5.0
    return cluster


@pytest.fixture
def served(cluster: Cluster) -> Iterator[Served]:
    with Served(cluster, CONFIG) as made:
        yield made


def test_the_page_and_all_that_it_names_are_served(served: Served) -> None:
    status, headers, body = served.get("/")
    assert (status, headers["content-type"]) == (200, "text/html; charset=utf-8")
    named = set(re.findall(rb'(?:href|src)="([^"#]+)"', body))
    scripts = {b"page.js"}
    while True:
        texts = [served.get("/" + script.decode())[2] for script in scripts]
        found = {name for text in texts for name in re.findall(rb'from "\./([^"]+)"', text)}
        if found <= scripts:
            break
        scripts |= found
    for name in named | scripts:
        status, _, content = served.get("/" + name.decode())
        assert status == 200, name
        assert content
        assert b"http://" not in content.replace(b"http://www.w3.org/2000/svg", b""), "nothing comes from elsewhere"


def test_nothing_may_be_run_framed_or_fetched_from_elsewhere(served: Served) -> None:
    _, headers, body = served.get("/")
    assert "default-src 'none'" in headers["content-security-policy"]
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert "unsafe" not in headers["content-security-policy"]
    assert b"style=" not in body
    assert b"onclick" not in body
    assert "access-control-allow-origin" not in headers


def test_watchers_hear_everything_and_then_what_changes(served: Served, cluster: Cluster) -> None:
    events = Events(served)
    kind, state = events.next()
    assert kind == "full"
    assert state["jobs"]["2"]["reason"] == "it needs 4 nodes"
    served.do(lambda: cluster.grow(1, "node2"))
    while True:
        kind, part = events.next()
        assert kind == "change"
        if "jobs" in part:
            break
    assert list(part["jobs"]) == ["1"]
    assert part["totals"]["busy"] == 2
    assert [resize["why"] for resize in part["jobs"]["1"]["resizes"]] == ["idle nodes, job 1 is the smallest"]
    events.close()


def test_a_silent_cluster_is_heard_of(served: Served, cluster: Cluster) -> None:
    events = Events(served)
    events.next()
    served.do(lambda: setattr(cluster, "now_s", 9.0))
    while "now_s" not in (part := events.next()[1]):
        pass
    assert part["now_s"] == 9.0
    events.close()


def test_a_second_watcher_and_one_too_many(served: Served) -> None:
    watchers = [Events(served), Events(served)]
    assert [watcher.next()[0] for watcher in watchers] == ["full", "full"]
    assert served.get("/events")[0] == 503
    assert served.get("/")[0] == 200
    for watcher in watchers:
        watcher.close()


def test_a_slow_watcher_gets_all_that_has_changed_at_once(cluster: Any) -> None:
    async def watched() -> dict[str, Any]:
        made = feed.Feed(cluster, CONFIG, "1")
        slow, quick = made.events(), made.events()
        await anext(slow)
        await anext(quick)
        for node in ("node2", "node3"):
            cluster.grow(1, node)
            while b'"jobs":' not in await anext(quick):
                pass
        event = await anext(slow)
        await made.stop()
        await slow.aclose()
        await quick.aclose()
        assert made.watchers == 0
        part: dict[str, Any] = json.loads(event.partition(b"data: ")[2])
        return part

    assert asyncio.run(watched())["jobs"]["1"]["held"] == 3


def test_no_pictures_are_made_when_nobody_watches(served: Served, cluster: Cluster) -> None:
    events = Events(served)
    events.next()
    events.close()
    asked = 0

    def count() -> object:
        nonlocal asked
        asked += 1
        return Cluster.snapshot(cluster)

    # The server notices at its next words that the connection is closed; from then on nothing is asked.
    while b"malleable_web_watchers 0.0" not in served.get("/metrics")[2]:
        pass
    served.do(lambda: setattr(cluster, "snapshot", count))
    for _ in range(3):
        served.do(lambda: cluster.grow(1, "node3"))
    assert asked <= 1


@pytest.mark.parametrize("path", ["/state.json", "/metrics"])
def test_readers_do_not_take_the_daemons_time(
    served: Served, cluster: Cluster, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed, "_BURST_S", 0.0)  # As if it had taken too long already.
    before = served.get(path)[2]
    served.do(lambda: cluster.grow(1, "node3"))
    assert served.get(path)[2] == before
    monkeypatch.setattr(feed, "_BURST_S", 1000.0)
    assert served.get(path)[2] != before


def test_watchers_are_sent_home_when_the_server_stops(cluster: Cluster) -> None:
    with Served(cluster, CONFIG) as served:
        events = Events(served)
        events.next()
    while events.next_or_end() is not None:
        pass
    events.close()


def test_a_watcher_is_sent_home_by_a_stop_before_anything_could_be_published(cluster: Any) -> None:
    async def watched() -> list[bytes]:
        made = feed.Feed(cluster, CONFIG, "1")

        async def follow() -> list[bytes]:
            return [event async for event in made.events()]

        following = asyncio.create_task(follow())
        await asyncio.sleep(0)  # it waits, and what publishes has not begun
        await made.stop()
        return await asyncio.wait_for(following, PATIENCE_S)

    assert len(asyncio.run(watched())) == 1


def test_the_state_is_there_as_json(served: Served) -> None:
    status, headers, body = served.get("/state.json")
    assert (status, headers["content-type"]) == (200, "application/json")
    assert json.loads(body)["totals"]["waiting"] == 1


def test_a_log_that_cannot_be_written_is_seen(served: Served, cluster: Cluster) -> None:
    cluster.log_behind = "disk full"
    assert b"\nmalleable_log_behind 1.0\n" in served.get("/metrics")[2]
    notes = json.loads(served.get("/state.json")[2])["notes"]
    assert notes[0] == "The log cannot be written: disk full. No jobs are taken."


def test_metrics_can_be_read_by_prometheus(served: Served, cluster: Cluster) -> None:
    served.do(lambda: cluster.grow(1, "node2", "node3"))
    status, headers, body = served.get("/metrics")
    assert status == 200
    assert headers["content-type"].startswith("text/plain; version=0.0.4")
    values = {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(body.decode())
        for sample in family.samples
    }
    assert values["malleable_log_behind",] == 0
    assert values["malleable_nodes", "busy"] == 3
    assert values["malleable_nodes", "idle"] == 1
    assert values["malleable_jobs", "waiting"] == 1
    assert values["malleable_jobs_ended_total", "failed"] == 0
    assert values["malleable_orders_total", "grow", "done"] == 1
    assert values["malleable_resize_seconds_sum", "grow"] == 0.5
    assert values["malleable_longest_wait_seconds",] == 4.0
    assert values["malleable_policy_info", "malleable"] == 1


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "SHUTDOWN"])
def test_it_is_read_only(served: Served, method: str) -> None:
    status, headers, _ = served.get("/", method=method)
    assert (status, headers["allow"]) == (405, "GET, HEAD")


def test_a_body_is_not_wanted(served: Served) -> None:
    assert served.get("/", "Content-Length: 5")[0] == 405
    assert served.get("/", "Transfer-Encoding: chunked")[0] == 405


def test_a_head_has_no_body(served: Served) -> None:
    status, headers, body = served.get("/", method="HEAD")
    assert (status, body) == (200, b"")
    assert int(headers["content-length"]) > 1000


@pytest.mark.parametrize("path", ["/nothing", "/../server.py", "/..%2fserver.py", "//etc/passwd", "/icon.svg/", "/%00"])
def test_there_is_nothing_else(served: Served, path: str) -> None:
    assert served.get(path)[0] == 404


@pytest.mark.parametrize(
    ("host", "status"),
    [
        *[(host, 200) for host in ("localhost", "LOCALHOST:80", "127.0.0.1:1", "[::1]:80", "10.1.2.3")],
        *[(host, 421) for host in ("evil.example", "evil.example:80", "localhost.evil.example", "")],
    ],
)
def test_pages_elsewhere_cannot_borrow_a_visitors_eyes(served: Served, host: str, status: int) -> None:
    assert served.get("/state.json", f"Host: {host}")[0] == status


def test_connections_are_kept_for_further_requests(served: Served) -> None:
    with served.call() as caller, caller.makefile("rb") as lines:
        for _ in range(3):
            caller.sendall(b"GET /icon.svg HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert lines.readline() == b"HTTP/1.1 200 \r\n"
            length = 0
            while (line := lines.readline()) != b"\r\n":
                if line.lower().startswith(b"content-length:"):
                    length = int(line.split(b":")[1])
            assert len(lines.read(length)) == length


def answered(served: Served, words: bytes) -> bytes:
    return converse(served.call(), words)


def test_a_head_without_end_is_cut_off(served: Served) -> None:
    answer = answered(served, b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 1_000_000)
    assert answer == b"" or answer.startswith(b"HTTP/1.1 431 ")
    assert served.get("/")[0] == 200


def test_silence_is_cut_off(cluster: Cluster) -> None:
    with Served(cluster, WebConfig(port=0, request_s=0.1)) as served, served.call() as silent, served.call() as slow:
        slow.sendall(b"GET / HT")
        assert silent.recv(1) == b""
        assert slow.recv(1) == b""


def test_too_many_connections_keep_nobody_in(served: Served) -> None:
    silent = [served.call() for _ in range(CONFIG.connections)]
    assert answered(served, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n") == b""
    for caller in silent:
        caller.close()
    while not answered(served, b"GET /icon.svg HTTP/1.1\r\nHost: localhost\r\n\r\n"):
        pass  # Those before have not been missed yet.


pieces = st.sampled_from(
    b"GET |/|/events |HTTP/1.1|\r\n|\n|Host: localhost|Content-Length: |-1|99999999999|Transfer-Encoding: chunked|\0| |"
    b"POST |HTTP/9.9|Expect: 100-continue|Upgrade: h2c|:".split(b"|")
)
requests = st.lists(pieces | st.binary(max_size=20), max_size=14).map(b"".join)


@pytest.fixture(scope="module")
def quiet() -> Iterator[Served]:
    with Served(Cluster(), WebConfig(port=0, request_s=0.5, idle_s=0.1)) as made:
        yield made


@settings(max_examples=80)
@given(words=requests)
def test_whatever_is_asked_is_answered_or_cut_off(quiet: Served, words: bytes) -> None:
    if b"/events" not in words:  # An answer that never ends.
        answer = answered(quiet, words)
        assert answer == b"" or re.match(rb"HTTP/1\.1 \d{3} ", answer)
    assert quiet.get("/state.json")[0] == 200


def test_a_port_that_is_taken_is_reported(served: Served, cluster: Cluster) -> None:
    with pytest.raises(DaemonError, match=f"cannot serve the page on port {served.port}") as refused:
        Served(cluster, WebConfig(port=served.port)).__enter__()
    assert "--web" in refused.value.hint


@pytest.mark.parametrize("host", ["nonsense.invalid", "192.0.2.1"])
def test_a_host_that_is_none_of_this_machine_is_reported(cluster: Cluster, host: str) -> None:
    with pytest.raises(DaemonError, match=f"cannot serve the page at {host}: no address of this") as refused:
        Served(cluster, WebConfig(host=host, port=0)).__enter__()
    assert "--web-host" in refused.value.hint


def test_the_url_of_an_ipv6_address(cluster: Any) -> None:
    assert WebServer(cluster, WebConfig(port=80, host="::1")).url == "http://[::1]:80/"
