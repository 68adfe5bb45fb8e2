"""Benchmarks on hosts with addresses of their own: exact results whichever places come and go."""

from __future__ import annotations

import json
from pathlib import Path

from support import Leftovers
from support.hosts import need_hosts, start_places

DEPTH_12_NODES = 66_106_929
RATE = 5e6
"""Nodes per second and place: slow enough that all orders fall due before the end."""


def test_uts_is_exact_while_places_come_and_go_on_four_hosts(leftovers: Leftovers, tmp_path: Path) -> None:
    need_hosts()
    file = tmp_path / "result.json"
    options = ["--depth", "12", "--workers", "1", "--rate", str(RATE), "--json", str(file)]
    orders = ["--orders", "0.2:+2,0.8:-2", "--hosts", "host3,host4"]
    with start_places(["host1", "host2"], ["-m", "benchmarks.uts", *options, *orders]) as job:
        done = job.wait()
        leftovers.check(job.mark)
    assert done.rc == 0, done.err
    result = json.loads(file.read_text(encoding="utf-8"))
    assert (result["result"], result["tasks"]) == (DEPTH_12_NODES, DEPTH_12_NODES)
    assert [(resize["kind"], resize["outcome"]) for resize in result["resizes"]] == [
        ("grow", "done"),
        ("shrink", "done"),
    ]
    assert (result["places_start"], result["places_end"]) == (2, 2)
    assert result["provenance"]["hosts"] == ["host1", "host2", "host3", "host4"]
