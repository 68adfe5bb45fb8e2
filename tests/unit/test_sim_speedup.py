"""Speedup and cost models against hand calculation, and how their texts are read."""

from __future__ import annotations

import pytest

from scheduler_bridge.sim import UnknownModelError, parse_cost, parse_speedup


@pytest.mark.parametrize(
    ("text", "nodes", "expected"),
    [
        ("linear", 7, 7.0),
        ("amdahl:0.9", 1, 1.0),
        ("amdahl:0.9", 9, 5.0),  # 1 / (0.1 + 0.9 / 9)
        ("amdahl:1", 64, 64.0),
        ("power:0.5", 16, 4.0),
        ("power:0", 16, 16.0),
        ("downey:8:0", 4, 4.0),  # sigma 0: linear up to A
        ("downey:8:0", 100, 8.0),
        ("downey:8:1", 4, 32 / 9.5),  # A n / (A + sigma (n - 1) / 2)
        ("downey:8:1", 12, 96 / 13.5),  # A n / (sigma (A - 1/2) + n (1 - sigma / 2)), up to 2 A - 1
        ("downey:8:1", 15, 8.0),
        ("downey:8:2", 4, 4 * 8 * 3 / 30),  # n A (sigma + 1) / (sigma (n + A - 1) + A), up to A + A sigma - sigma
        ("downey:8:2", 22, 8.0),
        ("downey:8:2", 100, 8.0),
        ("table:2=60,4=40,8=20", 2, 1 / 60),
        ("table:2=60,4=40,8=20", 3, (1 / 60 + 1 / 40) / 2),
        ("table:2=60,4=40,8=20", 6, (1 / 40 + 1 / 20) / 2),
        ("table:2=60,4=40,8=20", 1, 1 / 120),  # below the table: as the nodes
        ("table:2=60,4=40,8=20", 99, 1 / 20),  # beyond it: no faster
    ],
)
def test_a_speedup_model_gives_what_its_formula_gives(text: str, nodes: int, expected: float) -> None:
    assert parse_speedup(text)(nodes) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("text", ["amdahl:0.97", "power:0.2", "downey:20:0.5", "downey:20:3"])
def test_more_nodes_are_never_slower(text: str) -> None:
    speedup = parse_speedup(text)
    values = [speedup(nodes) for nodes in range(1, 200)]
    assert values[0] == pytest.approx(1.0)
    assert values == sorted(values)


@pytest.mark.parametrize(
    ("text", "before", "after", "seconds", "stops"),
    [
        ("constant:4.5", 2, 9, 4.5, True),
        ("mebf", 5, 10, 10 * ((0.0275 + 0.0275) * 5 + 0.0275 / 15), True),
        ("mebf:2", 10, 5, 2 * ((0.0275 + 0.0275) * 5 + 0.0275 / 15), True),
        ("mebf:2:0.5:0.75", 10, 5, 2 * ((0.5 + 0.0275) * 5 + 0.75 / 15), True),
    ],
)
def test_a_cost_model_gives_what_its_formula_gives(
    text: str, before: int, after: int, seconds: float, stops: bool
) -> None:
    cost = parse_cost(text)
    assert cost is not None
    assert cost(before, after) == pytest.approx(seconds)
    assert cost.stops is stops


def test_the_cost_of_mebf_is_the_jobs_own_unless_one_for_all_is_given() -> None:
    own, same = parse_cost("mebf"), parse_cost("mebf:10:0.0275:0.0275")
    assert own is not None
    assert same is not None
    assert own(5, 10, (0.5, 0.75)) == pytest.approx(10 * ((0.5 + 0.0275) * 5 + 0.75 / 15))
    assert same(5, 10, (0.5, 0.75)) == own(5, 10)


def test_measured_costs_grow_with_the_nodes_that_move_and_let_the_job_go_on() -> None:
    cost = parse_cost("measured:2")
    plain = parse_cost("measured")
    assert cost is not None
    assert plain is not None
    assert not cost.stops
    assert cost(4, 8) == pytest.approx(2 * plain(4, 8))
    assert plain(4, 12) > plain(4, 8) > plain(8, 4) > 0


def test_no_cost_is_no_model() -> None:
    assert parse_cost("none") is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "square",
        "amdahl",
        "amdahl:2",
        "amdahl:x",
        "amdahl:nan",
        "power:-1",
        "power:nan",
        "downey:8",
        "downey:0:1",
        "downey:inf:1",
        "downey:8:inf",
        "downey:8:nan",
        "table:",
        "table:4=2,2=4",
        "table:1=nan",
        "table:1=2,2=inf",
    ],
)
def test_a_wrong_speedup_names_what_there_is(text: str) -> None:
    with pytest.raises(UnknownModelError, match=r"amdahl|power|downey|table"):
        parse_speedup(text)


@pytest.mark.parametrize(
    "text",
    ["", "free", "constant", "constant:x", "constant:-1", "constant:1e308", "mebf:x", "mebf:1:2", "measured:x"],
)
def test_a_wrong_cost_names_what_there_is(text: str) -> None:
    with pytest.raises(UnknownModelError, match="constant"):
        parse_cost(text)
