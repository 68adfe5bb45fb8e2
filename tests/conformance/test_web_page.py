"""The live page in a real browser: what it shows, wide and narrow, with a thousand jobs, and over a restart."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support import PATIENCE_S
from support.clusters import Cluster
from support.pages import Served

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
    cluster.submit("<b>wide</b>", 4, 4, reason="it needs 4 nodes, 3 are free")
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
        has(page, "#queue-clock", "times in reasons are seconds since ")
        has(page, "#totals", "25 %")
        has(page, "#connection", "live")
        served.do(lambda: cluster.grow(1, "node2", "node3"))
        has(page, "#running", f"1 {DASH} 3 {DASH} 3", "grew by 2 in 0.5 s")
        has(page, "#resizes", "grew by 2", "idle nodes, job 1 is the smallest", "pre 0.10 s, spawn 0.40 s")
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
