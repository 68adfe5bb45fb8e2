"""The lines of protocol v1: transcripts as published, and whatever else comes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apgas.malleability import orders as wire
from apgas.malleability.v1 import lines

ORDERS = {
    b"grow 1 node3": wire.Grow(4, 1, ("node3",)),
    b"grow 3 node1 10.0.0.7 rack-1.node_02": wire.Grow(4, 3, ("node1", "10.0.0.7", "rack-1.node_02")),
    b"grow 2 a b ": wire.Grow(4, 2, ("a", "b")),
    b"shrink 1": wire.Shrink(4, 1),
    b"shrink 12\r": wire.Shrink(4, 12),
}
REPORTS = {
    b"APGAS-Ready:10.0.0.5": (lines.Ready(), "10.0.0.5"),
    b"growTimeAPGAS;2;1234567890:10.0.0.5": (lines.Took("growTimeAPGAS", 2, 1234567890), "10.0.0.5"),
    b"shrinkTimeAPGAS;1;5:10.0.0.5": (lines.Took("shrinkTimeAPGAS", 1, 5), "10.0.0.5"),
    b"preGrowTimeGLB;2;0:10.0.0.5": (lines.Took("preGrowTimeGLB", 2, 0), "10.0.0.5"),
    b"postGrowTimeGLB;2;7:10.0.0.5": (lines.Took("postGrowTimeGLB", 2, 7), "10.0.0.5"),
    b"preShrinkTimeGLB;1;7:10.0.0.5": (lines.Took("preShrinkTimeGLB", 1, 7), "10.0.0.5"),
    b"postShrinkTimeGLB;1;7:10.0.0.5": (lines.Took("postShrinkTimeGLB", 1, 7), "10.0.0.5"),
    b"Evolving;Request;1:10.0.0.5": (lines.Request(1), "10.0.0.5"),
    b"Evolving;Release;node3:10.0.0.5": (lines.Release("node3"), "10.0.0.5"),
    b"APGAS-Ready:::1": (lines.Ready(), "::1"),
}


@pytest.mark.parametrize(("line", "order"), ORDERS.items())
def test_orders_are_read_and_written(line: bytes, order: lines.Order) -> None:
    assert lines.parse_order(line, 4) == order
    assert lines.parse_order(lines.order_line(order), 4) == order


@pytest.mark.parametrize(("line", "report"), REPORTS.items())
def test_reports_are_read_and_written(line: bytes, report: tuple[lines.Report, str]) -> None:
    assert lines.parse_report(line) == report
    assert lines.report_line(*report).rstrip(b"\n") == line


@pytest.mark.parametrize(
    "line",
    b"|grow|grow 1|grow 2 a|grow 1 a b|grow 0|grow -1 a|grow x a|grow 2 a a|grow 1 a;b|grow 1 a/b|shrink|shrink 0|"
    b"shrink -1|shrink 1.5|shrink 1 a|shrink 99999999|shrink 1000001|shrink \xc2\xb2|SHRINK 1|stop|\xff\xfe|"
    b'{"type":"shrink","order":1,"count":1}|GET / HTTP/1.1'.split(b"|"),
)
def test_no_orders(line: bytes) -> None:
    with pytest.raises(lines.BadLineError):
        lines.parse_order(line, 4)


@pytest.mark.parametrize(
    "line",
    b"|APGAS-Ready|apgas-ready:1|growTimeAPGAS:1|growTimeAPGAS;2:1|growTimeAPGAS;2;x:1|growTimeAPGAS;2;-1:1|"
    b"growTimeAPGAS;0;5:1|growTimeAPGAS;2;1e3:1|stopTimeAPGAS;2;5:1|Evolving;Request:1|Evolving;Request;0:1|"
    b"Evolving;Request;x:1|Evolving;Release;:1|Evolving;Release;a/b:1|Evolving;Steal;1:1|growTimeAPGAS;2;5;6:1|"
    b"growTimeAPGAS;2;9999999999999999999:1|/jobs/uts.sh|Add Node a,b|shutdown|\xff:1".split(b"|"),
)
def test_no_reports(line: bytes) -> None:
    with pytest.raises(lines.BadLineError):
        lines.parse_report(line)


@given(st.binary(max_size=200))
def test_whatever_comes_is_read_or_refused(line: bytes) -> None:
    try:
        order = lines.parse_order(line, 4)
    except lines.BadLineError:
        pass  # refused
    else:
        assert lines.parse_order(lines.order_line(order), 4) == order
    try:
        report, ip = lines.parse_report(line)
    except lines.BadLineError:
        pass  # refused
    else:
        assert lines.parse_report(lines.report_line(report, ip)) == (report, ip)
