"""The gate beside a real program of the published system: what one has said, and what is known of its scheduler."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from apgas.malleability import orders as wire
from apgas.malleability.v1 import gate, lines
from apgas.malleability.v1.gate import Dial, Translator

# UTS on JDK 17, APGAS 72e8967 and lifelineglb 8bd6e03, under the gate on a busy machine: from three nodes to one, and
# on another. Each line is what came or went; the names, with the seconds since the order.
REAL = """
< APGAS-Ready:10.9.0.2
> shrink 2
< preShrinkTimeGLB;2;4686285124:10.9.0.2
= 127.0.0.2 32.6
= 127.0.0.3 32.6
< postShrinkTimeGLB;2;17383:10.9.0.2
< shrinkTimeAPGAS;2;32605807711:10.9.0.2
> grow 1 127.0.0.4
< preGrowTimeGLB;1;23985:10.9.0.2
< postGrowTimeGLB;1;356839272:10.9.0.2
< growTimeAPGAS;1;25534918533:10.9.0.2
"""


def test_a_real_program_shrinks_and_grows() -> None:
    translator = Translator(["node1", "node2", "node3"], emulated=True)
    orders: Iterator[wire.Order] = iter([wire.Shrink(order=1, count=2), wire.Grow(order=2, count=1, nodes=("node4",))])
    heard: list[wire.Message] = []
    for line in REAL.strip().splitlines():
        way, _, text = line.partition(" ")
        match way:
            case "<":
                heard += translator.reported(text.encode())
            case ">":
                due = translator.ordered(next(orders))
                assert isinstance(due, Dial)
                assert due.line == text.encode() + b"\n"
            case _:
                host, seconds = text.split()
                heard += translator.named(1, host.encode(), float(seconds))
    ready, shrink, grow = heard
    assert (ready, translator.ip) == (wire.Ready(nodes=("node1", "node2", "node3")), "10.9.0.2")
    assert isinstance(shrink, wire.Outcome)
    assert (shrink.outcome, shrink.nodes, shrink.seconds) == ("done", ("node2", "node3"), 32.6)
    assert isinstance(grow, wire.Outcome)
    assert (grow.outcome, grow.nodes) == ("done", ("node4",))
    assert sum(grow.phases.values()) == pytest.approx(25.534918533), "no more than the program has said"


def test_a_shrink_as_long_as_real_ones_is_awaited() -> None:
    times = gate.Times.within(gate.DEADLINE_S)
    assert times.shrink_s > 32.6
    assert times.late_s > times.shrink_s


@pytest.fixture
def reference(data_folder: Path) -> str:
    """What was observed of the real programs."""
    page = data_folder / "reference" / "v1-java" / "README.md"
    if not page.is_file():
        pytest.skip(f"there is no {page}")
    return page.read_text(encoding="utf-8")


def test_a_job_finds_all_that_the_published_scheduler_gives_it(reference: str, tmp_path: Path) -> None:
    listed = reference.partition("with these variables before the script:")[2].partition("job scripts begin")[0]
    wanted = set(re.findall(r"`([A-Z_]{2,})`", listed))
    assert {"NODES", "NODE_FILE", "SCRIPT_DIR", "PORT"} <= wanted
    given = gate.Given(("127.8.31.145", 8081), ("", 8081), ("127.0.0.1", "127.0.0.2"), "rigid", tmp_path / "nodes")
    found = gate.variables({wire.ENV_JOB: "7"}, given)
    assert {name: found.get(name) for name in wanted} == {
        "NODES": "2",
        "NODE_FILE": str(tmp_path / "nodes"),
        "SCHEDULER_IP": "127.8.31.145",
        "SCHEDULER_PORT": "8081",
        "SCRIPT_DIR": str(Path.cwd()),
        "LAUNCHER": "apgas.launcher.SshLauncher",
        "WORKERS": "1",
        "ELASTIC": "rigid",
        "JOBNAME": "7",
        "PORT": "5925",
    }


def test_what_was_observed_is_understood(reference: str) -> None:
    ready = re.findall(r"`(APGAS-Ready:[^`]*)`", reference)
    assert ready
    assert all(isinstance(lines.parse_report(each.encode())[0], lines.Ready) for each in ready)
    for name in re.findall(r"`((?:grow|shrink)TimeAPGAS)", reference):
        assert lines.PHASES[name][1] == "", "all of the order"
    slowest_s = max(float(seconds) for seconds in re.findall(r"after (\d+(?:\.\d+)?) s", reference))
    assert gate.Times.within(gate.DEADLINE_S).shrink_s > slowest_s
