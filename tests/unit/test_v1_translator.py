"""A v1 job under a v2 scheduler, as a machine: every order ends in one outcome, whatever the job says."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apgas.malleability import orders as wire
from apgas.malleability.v1.gate import GROW_REPORT_S, SHRINK_S, Dial, Translator
from apgas.malleability.v1.lines import CONNECT_S, BadLineError
from scheduler_bridge.daemon import DaemonConfig

READY = b"APGAS-Ready:127.0.0.1"


def ready(*nodes: str) -> Translator:
    translator = Translator(nodes or ("n1", "n2"))
    assert translator.reported(READY) == [wire.Ready(nodes=nodes or ("n1", "n2"))]
    return translator


def outcome(messages: list[wire.Message]) -> wire.Outcome:
    (message,) = messages
    assert isinstance(message, wire.Outcome)
    return message


def test_every_order_has_an_outcome_before_the_scheduler_gives_it_up() -> None:
    assert CONNECT_S + max(GROW_REPORT_S, SHRINK_S) < DaemonConfig(("n1",), state_dir=Path("state")).resize_deadline_s


def test_a_grow_is_done_when_its_time_is_reported() -> None:
    translator = ready()
    order = wire.Grow(order=5, count=2, nodes=("n3", "n4"))
    assert translator.ordered(order) == Dial(5, b"grow 2 n3 n4\n", 0)
    assert translator.reported(b"preGrowTimeGLB;2;250000000:127.0.0.1") == []
    done = outcome(translator.reported(b"growTimeAPGAS;2;500000000:127.0.0.1"))
    assert (done.order, done.kind, done.outcome, done.nodes) == (5, "grow", "done", ("n3", "n4"))
    assert (done.seconds, done.phases) == (0.75, {"pre": 0.25, "spawn": 0.5})
    assert translator.open is None
    assert translator.reported(b"growTimeAPGAS;2;500000000:127.0.0.1") == [], "of an order that is over"
    assert translator.ordered(wire.Shrink(order=6, count=3)) == Dial(6, b"shrink 3\n", 3), "it has four nodes now"


def test_a_grow_that_is_not_reported_counts_as_done() -> None:
    translator = ready()
    translator.ordered(wire.Grow(order=5, count=1, nodes=("n3",)))
    done = outcome(translator.overdue(5))
    assert (done.outcome, done.nodes) == ("done", ("n3",))
    assert "not reported" in done.reason
    assert translator.overdue(5) == []


def test_a_job_that_cannot_be_reached_has_not_changed() -> None:
    translator = ready()
    translator.ordered(wire.Grow(order=5, count=1, nodes=("n3",)))
    failed = outcome(translator.unreachable(5, "connection refused"))
    assert (failed.outcome, failed.nodes) == ("aborted", ())
    assert isinstance(translator.ordered(wire.Shrink(order=6, count=1)), Dial), "it may be asked again"


def test_a_shrink_is_done_when_all_hosts_are_named() -> None:
    translator = ready("n1", "n2", "n3")
    translator.ordered(wire.Shrink(order=1, count=2))
    done = outcome(translator.answered(1, [b"n3", b"n2 "], "", 0.25))
    assert (done.outcome, done.nodes, done.seconds) == ("done", ("n3", "n2"), 0.25)
    refused = translator.ordered(wire.Shrink(order=2, count=1))
    assert not isinstance(refused, Dial)
    assert outcome(refused).outcome == "refused", "one node is left"


@pytest.mark.parametrize(
    ("answer", "released", "why"),
    [
        ([], (), "20 s"),
        ([b"n3"], ("n3",), "20 s"),
        ([b"n3", b"n3"], ("n3",), "n3 is not a node of this job"),
        ([b"n3", b"n9"], ("n3",), "n9 is not a node of this job"),
        ([b"n3", b"../n2"], ("n3",), "is not a host"),
        ([b"\xff", b"n2"], (), "not ASCII"),
    ],
)
def test_a_shrink_in_part_is_aborted_and_what_was_released_is_free(
    answer: list[bytes], released: tuple[str, ...], why: str
) -> None:
    translator = ready("n1", "n2", "n3")
    translator.ordered(wire.Shrink(order=1, count=2))
    failed, *others = translator.answered(1, answer, "no host was named within 20 s", 20.0)
    assert isinstance(failed, wire.Outcome)
    assert (failed.outcome, failed.nodes) == ("aborted", ())
    assert why in failed.reason
    lost = [message.nodes for message in others if isinstance(message, wire.Lost)]
    assert lost == ([released] if released else [])
    assert others[-1] == wire.Disable()
    after = translator.ordered(wire.Grow(order=2, count=1, nodes=("n4",)))
    assert not isinstance(after, Dial)
    assert outcome(after).reason == "the job takes no orders"


def test_what_v1_cannot_say_is_refused() -> None:
    translator = ready()
    for order in (
        wire.Workers(order=1, count=2),
        wire.Grow(order=2, count=1),
        wire.Shrink(order=3, count=2),
    ):
        messages = translator.ordered(order)
        assert not isinstance(messages, Dial)
        assert outcome(messages).outcome == "refused"


def test_orders_before_it_is_ready_are_refused() -> None:
    messages = Translator(["n1", "n2"]).ordered(wire.Shrink(order=1, count=1))
    assert not isinstance(messages, Dial)
    assert outcome(messages).reason == "the job takes no orders"


def test_requests_are_passed_on_once_it_is_ready() -> None:
    translator = Translator(["n1", "n2"])
    assert translator.reported(b"Evolving;Request;1:127.0.0.1") == []
    translator.reported(READY)
    assert translator.reported(READY) == []
    assert translator.reported(b"Evolving;Request;2:127.0.0.1") == [wire.Evolving(request=1, delta=2)]
    assert translator.reported(b"Evolving;Release;n2:127.0.0.1") == [wire.Evolving(request=2, delta=-1)]


NODES = ["n1", "n2", "n3", "n4", "n5"]
said = st.one_of(
    st.sampled_from(
        [READY, b"growTimeAPGAS;1;5:1", b"shrinkTimeAPGAS;1;5:1", b"preGrowTimeGLB;1;5:1", b"Evolving;Request;1:1"]
    ),
    st.binary(max_size=20),
)
orders: st.SearchStrategy[wire.Order] = st.one_of(
    st.builds(
        lambda nodes: wire.Grow(0, len(nodes), nodes), st.lists(st.sampled_from(NODES[2:]), min_size=1).map(tuple)
    ),
    st.builds(wire.Shrink, st.just(0), st.integers(1, 5)),
    st.builds(wire.Workers, st.just(0), st.integers(1, 4)),
)
answers = st.lists(st.sampled_from([*(name.encode() for name in NODES), b"", b"x y", b"\xff"]), max_size=5)
steps = st.lists(st.one_of(said, orders, answers, st.sampled_from(["overdue", "unreachable"])), max_size=30)


@given(steps)
def test_every_order_has_one_outcome(steps: list[bytes | wire.Order | list[bytes] | str]) -> None:
    translator = Translator(["n1", "n2"])
    given_, ended, number = 0, 0, 0
    for step in steps:
        messages: list[wire.Message] = []
        if isinstance(step, bytes):
            try:
                messages = translator.reported(step)
            except BadLineError:
                continue  # refused
        elif isinstance(step, list):
            messages = translator.answered(number, step, "", 1.0)
        elif step == "overdue":
            messages = translator.overdue(number)
        elif step == "unreachable":
            messages = translator.unreachable(number, "no route")
        elif not isinstance(step, str) and translator.open is None:
            number += 1
            given_ += 1

            due = translator.ordered(msgspec.structs.replace(step, order=number))
            messages = [] if isinstance(due, Dial) else due
        for message in messages:
            assert wire.decode_to_scheduler(wire.encode(message)) == message, "it can be said in v2"
            if isinstance(message, wire.Outcome):
                assert message.order == number
                ended += 1
        assert ended == given_ - (translator.open is not None)
