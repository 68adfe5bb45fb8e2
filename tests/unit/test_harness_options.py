"""The common options refuse what cannot work, and say what would."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from benchmarks.harness.cli import CommonOptions, parse
from benchmarks.harness.errors import BadUsage
from benchmarks.harness.options import check_orders, parse_count, parse_hosts, parse_slow_resizes

if TYPE_CHECKING:
    from pathlib import Path

PI = "benchmarks.pi.command"


def test_defaults_of_the_command_line_are_those_of_the_options() -> None:
    benchmark, options = parse(PI, [])
    assert options == CommonOptions()
    assert benchmark.parameters == {"samples": 10**9, "seed": 1}


def test_the_environment_may_choose_the_transport(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("APGAS_TRANSPORT", "mpi")
    assert parse(PI, [])[1].transport == "mpi"
    assert parse(PI, ["--transport", "tcp"])[1].transport == "tcp"


def test_every_option_arrives(tmp_path: Path) -> None:
    target = tmp_path / "result.json"
    text = (
        f"--samples 1e4 --workers 3 --granularity 5 --orders 1.5:+2,3:-1 --hosts a,b --transport mpi --json {target} "
        "--verify --repeat 4 --rate 2.5 --quiet --on-scheduler-loss reconnect:30 --debug"
    )
    benchmark, options = parse(PI, text.split())
    assert benchmark.parameters["samples"] == 10_000
    assert options == CommonOptions(
        workers=3,
        granularity=5,
        orders="1.5:+2,3:-1",
        hosts="a,b",
        transport="mpi",
        json=target,
        verify=True,
        repeat=4,
        rate=2.5,
        quiet=True,
        on_scheduler_loss="reconnect:30",
        debug=True,
    )
    assert options.places_go_to == ("a", "b")


@pytest.mark.parametrize(
    ("arguments", "culprit"),
    [
        ("--frobnicate", "--frobnicate"),
        ("--samples 0", "--samples 0"),
        ("--samples -1", "--samples -1"),
        ("--samples 1.5", "--samples 1.5"),
        ("--samples many", "--samples many"),
        ("--samples 1e30", "--samples 1e30"),
        ("--seed -1", "--seed -1"),
        ("--seed x", "--seed"),
        ("--workers 0", "--workers 0"),
        ("--workers two", "--workers"),
        ("--granularity 0", "--granularity 0"),
        ("--repeat 0", "--repeat 0"),
        ("--rate 0", "--rate 0"),
        ("--rate -3", "--rate -3"),
        ("--rate nan", "--rate nan"),
        ("--rate inf", "--rate inf"),
        ("--orders x", '--orders "x"'),
        ("--orders 1:+0", '--orders "1:+0"'),
        ("--orders -1:+2", '--orders "-1:+2"'),
        ("--orders nan:+2", '--orders "nan:+2"'),
        ("--orders inf:+2", '--orders "inf:+2"'),
        ("--orders 1:2", '--orders "1:2"'),
        ("--orders 1:+2,", '--orders "1:+2,"'),
        ("--orders 1:+1.5", '--orders "1:+1.5"'),
        ("--transport carrier-pigeon", "--transport carrier-pigeon"),
        ("--on-scheduler-loss shrug", "--on-scheduler-loss shrug"),
        ("--on-scheduler-loss reconnect:", "--on-scheduler-loss reconnect:"),
        ("--on-scheduler-loss reconnect:-5", "--on-scheduler-loss reconnect:-5"),
        ("--hosts a,,b", '--hosts "a,,b"'),
        ("--hostfile /nowhere/hosts", "--hostfile /nowhere/hosts"),
        ("--hosts a --hostfile b", "--hosts a --hostfile b"),
        ("surplus", "surplus"),
    ],
)
def test_bad_usage_names_the_culprit(arguments: str, culprit: str) -> None:
    with pytest.raises(BadUsage) as caught:
        parse(PI, arguments.split())
    assert culprit in caught.value.culprit
    assert caught.value.why
    assert caught.value.remedy


@pytest.mark.parametrize("scale", [0, -1, 27])
def test_scale_of_the_graph_is_bounded(scale: int) -> None:
    with pytest.raises(BadUsage, match=f"--scale {scale}"):
        parse("benchmarks.bc.command", ["--scale", str(scale)])


def test_orders_are_seconds_and_nodes() -> None:
    for text in ("", "1.5:+2, 3:-1,0:+10", "2:workers=4"):
        check_orders(text)
    for text in ("2:workers=0", "2:workers=-1", "1:+2,,3:-1", "1:+", ":+1"):
        with pytest.raises(BadUsage, match="--orders"):
            check_orders(text)


def test_resizes_are_slowed_down_by_two_numbers_of_seconds() -> None:
    assert parse_slow_resizes("") is None
    assert parse_slow_resizes("0.5, 1.2") == (0.5, 1.2)
    for text in ("1", "1,2,3", "1,-2", "1,nan", "a,b"):
        with pytest.raises(BadUsage, match="--slow-resizes"):
            parse_slow_resizes(text)


@pytest.mark.parametrize(("text", "count"), [("7", 7), ("1e9", 10**9), ("1_000", 1000), ("2.5e3", 2500)])
def test_counts_may_be_written_with_an_exponent(text: str, count: int) -> None:
    assert parse_count("--samples", text) == count


def test_a_hostfile_lists_hosts_and_their_places(tmp_path: Path) -> None:
    hostfile = tmp_path / "hosts"
    hostfile.write_text("# two machines\nnode1:2\n\nnode2  # the small one\n")
    assert parse_hosts(None, hostfile) == ("node1", "node1", "node2")
    assert parse_hosts("a, b", None) == ("a", "b")
    assert parse_hosts(None, None) == ()


@pytest.mark.parametrize("content", ["", "# nothing\n", "node1 node2\n", "node1:many\n", ":3\n"])
def test_a_hostfile_that_makes_no_sense_is_refused(tmp_path: Path, content: str) -> None:
    hostfile = tmp_path / "hosts"
    hostfile.write_text(content)
    with pytest.raises(BadUsage, match="hosts"):
        parse_hosts(None, hostfile)
