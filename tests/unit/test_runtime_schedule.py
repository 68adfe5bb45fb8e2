from __future__ import annotations

import pytest

from apgas.errors import UsageError
from apgas.runtime.resizing import ScheduledOrder, parse_orders


def test_workers_are_scheduled_like_nodes() -> None:
    assert parse_orders("2:workers=4,1:+1") == [ScheduledOrder(1.0, "grow", 1), ScheduledOrder(2.0, "workers", 4)]


def test_orders_are_read_and_sorted() -> None:
    assert parse_orders("3:-1, 1.5:+2") == [ScheduledOrder(1.5, "grow", 2), ScheduledOrder(3.0, "shrink", 1)]


def test_newcomers_go_round_the_hosts() -> None:
    orders = parse_orders("1:+2,2:-1,3:+2", ("a", "b", "c"))
    assert [order.nodes for order in orders] == [("a", "b"), (), ("c", "a")]


@pytest.mark.parametrize(
    "text",
    ["", ",", "x", "1", "1:", "1:2", "1:+0", "-1:+1", "nan:+1", "inf:+1", "1:+1;2:-1", "1:+1000001", "1:-99999999"],
)
def test_bad_orders_name_the_culprit(text: str) -> None:
    with pytest.raises(UsageError, match=r"order"):
        parse_orders(text)
