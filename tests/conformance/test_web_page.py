"""The live page in a real browser: what it shows, wide and narrow, with a thousand jobs, and over a restart."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest
from support import PATIENCE_S
from support.clusters import Cluster
from support.pages import Served

from scheduler_bridge.report.looks import JOB_COLORS
from scheduler_bridge.report.page import write_page
from scheduler_bridge.web import WebConfig

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

REQUIRED = os.environ.get("MALLEABLE_REQUIRE_BROWSER") == "1"
_NAME = "playwright.sync_api"
playwright = import_module(_NAME) if REQUIRED else pytest.importorskip(_NAME, reason="playwright is not installed")

DASH = "\N{EN DASH}"
CONFIG = WebConfig(port=0, interval_s=0.05, heartbeat_s=0.2)
WIDTHS = pytest.mark.parametrize("width", [1280, 400])


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        if REQUIRED:
            pytest.fail("there is no chromium, and MALLEABLE_REQUIRE_BROWSER is set")
        pytest.skip("there is no chromium")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox"] if os.getuid() == 0 else [])
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Browser, width: int) -> Iterator[Page]:
    page = browser.new_page(viewport={"width": width, "height": 900})
    page.set_default_timeout(PATIENCE_S * 1000)
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda message: complaints.append(message.text) if "Content Security" in message.text else None)
    yield page
    page.close()
    assert complaints == []


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster()
    cluster.now_s = 30.0
    cluster.start(cluster.submit("tree", 1, 3), "node1")
    cluster.submit(
        "<b>wide</b>", 4, 4, reason="it needs 4 nodes, 3 are free; 4 nodes are reserved for job 2 at 536.6 s"
    )
    cluster.now_s = 60.0
    return cluster


def has(page: Page, selector: str, *words: str) -> None:
    """Wait until an element has these words."""
    page.wait_for_function(
        "([selector, words]) => words.every(word => document.querySelector(selector)?.innerText.includes(word))",
        arg=[selector, list(words)],
    )


def fits(page: Page) -> None:
    """Nothing sticks out to the right, and the picture is not blank."""
    assert page.evaluate("document.documentElement.scrollWidth") <= page.evaluate("window.innerWidth")
    colours = """() => {
        const canvas = document.getElementById("gantt");
        const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
        const found = new Set();
        for (let at = 0; at < pixels.length; at += 4) found.add(pixels.slice(at, at + 4).join());
        return found.size;
    }"""
    assert page.evaluate(colours) > 5


@WIDTHS
def test_it_shows_the_cluster_and_what_changes(page: Page, cluster: Cluster, tmp_path: Path) -> None:
    with Served(cluster, CONFIG) as served:
        page.goto(served.url)
        has(page, "#running", "tree", f"1 {DASH} 1 {DASH} 3")
        has(page, "#queue", "<b>wide</b>", "4 nodes", "it needs 4 nodes, 3 are free")
        has(page, "#totals", "25 %")
        has(page, "#connection", "live")
        served.do(lambda: cluster.grow(1, "node2", "node3", took_s=0.75))
        has(page, "#running", f"1 {DASH} 3 {DASH} 3", "grew by 2 in 0.75 s")
        has(page, "#resizes", "grew by 2", "idle nodes, job 1 is the smallest", "0.75 s")
        has(page, "#resizes", "pre 0.10 s + spawn 0.40 s + outside the job 0.25 s")
        assert page.title() == f"3/4 busy, 1 waiting {DASH} malleable"
        assert "1 busy, 3 idle" in (page.get_attribute("#gantt", "aria-label") or "")
        served.do(lambda: cluster.end(1))
        has(page, "#ended", "tree", "completed")
        served.do(lambda: cluster.fail("node4"))
        page.wait_for_selector("#totals .alarm")
        page.wait_for_selector('[data-window="300"][aria-pressed="true"]')
        page.click('[data-window="60"]')
        served.do(lambda: cluster.submit("late"))
        has(page, "#queue", "late")
        page.wait_for_selector('[data-window="60"][aria-pressed="true"]')
        fits(page)


@pytest.mark.parametrize("width", [1280])
def test_an_order_that_is_not_carried_out_changes_its_look(page: Page, cluster: Cluster) -> None:
    with Served(cluster, CONFIG) as served:
        page.goto(served.url)
        order = served.do(lambda: cluster.order(1, "node2"))
        has(page, "#resizes", "is to grow by 1", "under way")
        assert page.locator("#resizes td.bad").count() == 0
        served.do(lambda: cluster.abort(1, order, "it ends soon"))
        has(page, "#resizes .bad", "did not grow by 1: aborted")
        has(page, "#resizes", "it ends soon")


@WIDTHS
def test_times_are_shown_from_now_on_and_by_the_clock_in_tooltips(page: Page, cluster: Cluster) -> None:
    with Served(cluster, CONFIG) as served:
        page.goto(served.url)
        has(page, "#queue", "reserved for job 2 in 47")
        cell = page.locator("#queue tbody td").last
        shown, tooltip = cell.inner_text(), cell.get_attribute("title") or ""
        assert "536.6" not in shown
        assert re.search(r"reserved for job 2 at \d\d:\d\d:\d\d$", tooltip)
        said = page.evaluate(
            "import('./words.js').then(({ timesIn, away }) => ['at', 'before', 'until'].flatMap(word => [90, 110].map("
            "at => timesIn(`it ends ${word} ${at}.25 s; no outcome within 60 s`, (word, at) => away(word, at - 100)))))"
        )
        assert [words.removesuffix("; no outcome within 60 s") for words in said] == [
            "it ends 9.8 s ago",
            "it ends in 10 s",
            "it ends before 9.8 s ago",
            "it ends within 10 s",
            "it ends until 9.8 s ago",
            "it ends for 10 s more",
        ]


@pytest.mark.parametrize("width", [1280])
def test_jobs_have_the_colours_of_the_report_and_hatches_mean_reserved(page: Page, cluster: Cluster) -> None:
    with Served(cluster, CONFIG) as served:
        page.goto(served.url)
        shown = page.evaluate(
            "import('./looks.js').then(({ color }) => [...Array(29).keys()].map(at => color(at + 1)))"
        )
        assert shown == [*JOB_COLORS, JOB_COLORS[0]]
        filled = page.evaluate(
            "import('./looks.js').then(looks => Object.keys(looks).filter(name => /hatch|fill/.test(name)))"
        )
        assert filled == [], "a job is filled with a colour"


@WIDTHS
def test_a_user_is_named_only_where_there_are_several(page: Page, cluster: Cluster) -> None:
    with Served(cluster, CONFIG) as served:
        page.goto(served.url)
        has(page, "#running", "1 · malleable")
        assert "me" not in page.inner_text("#running .sub").split()
        served.do(lambda: cluster.submit("other", user="you"))
        has(page, "#running", "1 · malleable · me")
        has(page, "#queue", "· you")


@pytest.mark.parametrize("width", [1280])
@pytest.mark.parametrize("policies", [("malleable",), ("easy", "malleable")])
def test_the_report_shows_every_column(page: Page, policies: tuple[str, ...], tmp_path: Path) -> None:
    records = []
    for policy in policies:
        cluster = Cluster(8)
        job = cluster.submit("nqueens17-10", 4, 16)
        cluster.start(job, "node1", "node2")
        cluster.now_s = 1234.0
        cluster.grow(job, "node3", took_s=1.0)
        cluster.end(job)
        record = msgspec.structs.replace(cluster.recent(0.0), policy=policy)
        record.jobs[0].result, record.jobs[0].verified = {"result": 8_420_648_601}, True
        records.append(record)
    write_page(records, tmp_path / "report.html")
    page.goto((tmp_path / "report.html").as_uri())
    for table in ("#job-table", "#resize-table"):
        wide = page.evaluate(
            f"(box => [box.scrollWidth, box.clientWidth])(document.querySelector('{table}').parentElement)"
        )
        assert wide[0] <= wide[1], (table, wide)
    assert "8,420,648,601" in page.inner_text("#job-table")


@WIDTHS
def test_a_thousand_jobs(page: Page, width: int) -> None:
    cluster = Cluster(500)
    for number in range(1000):
        job_id = cluster.submit(f"job-{number}", 1, 2 if number % 2 else 1)
        if number < 400:
            cluster.now_s += 0.5
            cluster.start(job_id, f"node{number + 1}")
    with Served(cluster, CONFIG) as served:
        page.goto(served.url)
        has(page, "#running-count", "400")
        has(page, "#queue-count", "600")
        assert page.locator("#queue tbody tr").count() == (50 if width > 560 else 15), "it is still to be read"
        page.click("#queue-more button")
        assert page.locator("#queue tbody tr").count() == 600
        served.do(lambda: cluster.start(1000, "node500"))
        has(page, "#queue-count", "599")
        fits(page)


@pytest.mark.parametrize("width", [1280])
def test_it_survives_a_restart(page: Page, cluster: Cluster) -> None:
    with Served(cluster, CONFIG) as served:
        port = served.port
        page.goto(served.url)
        has(page, "#running", "tree")
    has(page, "#connection", "no scheduler since")
    again = Cluster(2)
    again.submit("after", 1, 1)
    with Served(again, WebConfig(port=port, interval_s=0.05, heartbeat_s=0.2)):
        has(page, "#connection", "live")
        has(page, "#queue", "after")
        assert "tree" not in page.inner_text("main")
