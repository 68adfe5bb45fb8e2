"""A v1 job under a v2 scheduler, as a machine: every order ends in one outcome, whatever the job says."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apgas.malleability import orders as wire
from apgas.malleability.v1 import lines
from apgas.malleability.v1.communicator import JobSide, Reply
from apgas.malleability.v1.gate import DEADLINE_S, Dial, Times, Translator
from apgas.malleability.v1.lines import BadLineError
from scheduler_bridge.daemon import DaemonConfig

READY = b"APGAS-Ready:127.0.0.1"


def ready(*nodes: str) -> Translator:
    translator = Translator(nodes or ("n1", "n2"))
    assert translator.reported(READY) == [wire.Ready(nodes=nodes or ("n1", "n2"))]
    return translator


def answered(translator: Translator, order: int, *hosts: bytes, at_s: float = 1.0) -> list[wire.Message]:
    return [message for host in hosts for message in translator.named(order, host, at_s)]


def outcome(messages: list[wire.Message] | Dial) -> wire.Outcome:
    assert not isinstance(messages, Dial)
    (message,) = messages
    assert isinstance(message, wire.Outcome)
    return message


@given(st.floats(0.1, 1e5))
def test_every_order_has_an_outcome_before_the_scheduler_gives_it_up(deadline_s: float) -> None:
    times = Times.within(deadline_s)
    assert times.connect_s + max(times.grow_s, times.shrink_s) < deadline_s


def test_the_gate_knows_how_long_schedulers_wait() -> None:
    assert DaemonConfig(("n1",), state_dir=Path("state")).resize_deadline_s == DEADLINE_S


def test_a_grow_is_done_when_its_time_is_reported() -> None:
    translator = ready()
    order = wire.Grow(order=5, count=2, nodes=("n3", "n4"))
    assert translator.ordered(order) == Dial(5, b"grow 2 n3 n4\n", 0)
    assert translator.reported(b"preGrowTimeGLB;2;250000000:127.0.0.1") == []
    assert translator.reported(b"postGrowTimeGLB;2;125000000:127.0.0.1") == []
    done = outcome(translator.reported(b"growTimeAPGAS;2;875000000:127.0.0.1"))
    assert (done.order, done.kind, done.outcome, done.nodes) == (5, "grow", "done", ("n3", "n4"))
    assert done.phases == {"pre": 0.25, "spawn": 0.5, "post": 0.125}, "together what the job has said"
    assert done.seconds == 0.75, "to the commit, as of all jobs"
    assert translator.open is None
    assert translator.reported(b"growTimeAPGAS;2;500000000:127.0.0.1") == [], "of an order that is over"
    assert translator.ordered(wire.Shrink(order=6, count=3)) == Dial(6, b"shrink 3\n", 3), "it has four nodes now"


def test_a_grow_that_is_not_reported_counts_as_done() -> None:
    translator = ready()
    translator.ordered(wire.Grow(order=5, count=1, nodes=("n3",)))
    done = outcome(translator.overdue(5, 45.0))
    assert (done.outcome, done.nodes) == ("done", ("n3",))
    assert "not reported within 45 s" in done.reason
    assert translator.overdue(5, 45.0) == []


def test_the_late_report_of_a_grow_is_not_taken_for_that_of_the_next() -> None:
    translator = ready()
    translator.ordered(wire.Grow(order=5, count=1, nodes=("n3",)))
    translator.overdue(5, 45.0)
    translator.ordered(wire.Grow(order=6, count=1, nodes=("n4",)))
    assert translator.reported(b"postGrowTimeGLB;1;1000000000:127.0.0.1") == []
    assert translator.reported(b"growTimeAPGAS;1;50000000000:127.0.0.1") == []
    done = outcome(translator.reported(b"growTimeAPGAS;1;2000000000:127.0.0.1"))
    assert (done.order, done.seconds, done.phases) == (6, 2.0, {"spawn": 2.0})


def test_a_report_that_never_comes_is_not_waited_for() -> None:
    translator = ready()
    translator.ordered(wire.Grow(order=5, count=1, nodes=("n3",)))
    translator.overdue(5, 45.0)
    translator.ordered(wire.Grow(order=6, count=1, nodes=("n4",)))
    assert translator.reported(b"preGrowTimeGLB;1;500000000:127.0.0.1") == [], "so the one before is over"
    done = outcome(translator.reported(b"growTimeAPGAS;1;2000000000:127.0.0.1"))
    assert (done.order, done.phases) == (6, {"pre": 0.5, "spawn": 1.5})


def test_a_job_that_cannot_be_reached_has_not_changed() -> None:
    translator = ready()
    translator.ordered(wire.Grow(order=5, count=1, nodes=("n3",)))
    failed = outcome(translator.unreachable(5, "connection refused"))
    assert (failed.outcome, failed.nodes) == ("aborted", ())
    assert isinstance(translator.ordered(wire.Shrink(order=6, count=1)), Dial), "it may be asked again"


def test_a_shrink_is_done_when_all_hosts_are_named() -> None:
    translator = ready("n1", "n2", "n3")
    translator.ordered(wire.Shrink(order=1, count=2))
    assert translator.reported(b"preShrinkTimeGLB;2;125000000:127.0.0.1") == []
    done = outcome(answered(translator, 1, b"n3", b"n2 ", at_s=0.25))
    assert (done.outcome, done.nodes, done.seconds) == ("done", ("n3", "n2"), 0.25)
    assert done.phases == {"pre": 0.125, "release": 0.125}
    assert outcome(translator.ordered(wire.Shrink(order=2, count=1))).outcome == "refused", "one node is left"


def test_the_time_of_a_shrink_comes_behind_its_outcome_and_is_not_taken_for_that_of_the_next() -> None:
    translator = ready("n1", "n2", "n3")
    translator.ordered(wire.Shrink(order=1, count=1))
    answered(translator, 1, b"n3")
    translator.ordered(wire.Shrink(order=2, count=1))
    for line in (b"postShrinkTimeGLB;1;1:127.0.0.1", b"shrinkTimeAPGAS;1;9000000000:127.0.0.1"):
        assert translator.reported(line) == []
    assert outcome(answered(translator, 2, b"n2", at_s=0.5)).phases == {"release": 0.5}


# Slow shrinks: the published system names all hosts at the very end ---------------------------------------------------


def slow(*nodes: str, count: int) -> Translator:
    """A job whose shrink is overdue."""
    translator = ready(*nodes)
    translator.ordered(wire.Shrink(order=1, count=count))
    failed = outcome(translator.overdue(1, 50.0))
    assert (failed.outcome, failed.nodes) == ("aborted", ())
    assert failed.reason == f"0 of {count} hosts were named within 50 s; the others may come late"
    return translator


def test_hosts_that_are_named_late_are_free() -> None:
    translator = slow("n1", "n2", "n3", count=2)
    assert answered(translator, 1, b"n3", b"n2", at_s=55.0) == [
        wire.Lost(loss=0, nodes=("n3",), reason="released after the order's deadline"),
        wire.Lost(loss=1, nodes=("n2",), reason="released after the order's deadline"),
    ]
    assert translator.reported(b"shrinkTimeAPGAS;2;56000000000:127.0.0.1") == []
    assert translator.ordered(wire.Grow(order=2, count=1, nodes=("n3",))) == Dial(2, b"grow 1 n3\n", 0)
    assert outcome(translator.reported(b"growTimeAPGAS;1;1000000000:127.0.0.1")).outcome == "done"


def test_a_job_that_still_shrinks_takes_no_other_order() -> None:
    translator = slow("n1", "n2", "n3", count=2)
    answered(translator, 1, b"n3", at_s=55.0)
    refused = outcome(translator.ordered(wire.Shrink(order=2, count=1)))
    assert (refused.outcome, refused.reason) == ("refused", "the job is still to name 1 of the 2 hosts of order 1")


def test_a_shrink_that_never_ends_is_the_last_order() -> None:
    translator = slow("n1", "n2", "n3", count=2)
    assert translator.ended(1, "it took too long to be said") == [wire.Disable()]
    assert outcome(translator.ordered(wire.Shrink(order=2, count=1))).reason == "the job takes no orders"


def test_hosts_that_are_named_in_time_are_free_when_the_others_are_late() -> None:
    translator = ready("n1", "n2", "n3", "n4")
    translator.ordered(wire.Shrink(order=1, count=2))
    assert answered(translator, 1, b"n4") == []
    failed, lost = translator.overdue(1, 50.0)
    assert isinstance(failed, wire.Outcome)
    assert failed.reason.startswith("1 of 2 hosts were named within 50 s")
    assert lost == wire.Lost(loss=0, nodes=("n4",), reason="released in part of a shrink")
    assert isinstance(answered(translator, 1, b"n4")[-1], wire.Disable), "it has been named before"


@pytest.mark.parametrize(
    ("answer", "released", "why"),
    [
        ([], (), "nothing was said"),
        ([b"n3"], ("n3",), "nothing was said"),
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
    failed, *others = [*answered(translator, 1, *answer), *translator.ended(1, "nothing was said")]
    assert isinstance(failed, wire.Outcome)
    assert (failed.outcome, failed.nodes) == ("aborted", ())
    assert why in failed.reason
    lost = [message.nodes for message in others if isinstance(message, wire.Lost)]
    assert lost == ([released] if released else [])
    assert others[-1] == wire.Disable()
    after = translator.ordered(wire.Grow(order=2, count=1, nodes=("n4",)))
    assert outcome(after).reason == "the job takes no orders"


def test_what_v1_cannot_say_is_refused() -> None:
    translator = ready()
    for order in (
        wire.Workers(order=1, count=2),
        wire.Grow(order=2, count=1),
        wire.Shrink(order=3, count=2),
    ):
        assert outcome(translator.ordered(order)).outcome == "refused"


def test_orders_before_it_is_ready_are_refused() -> None:
    messages = Translator(["n1", "n2"]).ordered(wire.Shrink(order=1, count=1))
    assert outcome(messages).reason == "the job takes no orders"


def test_requests_are_passed_on_once_it_is_ready() -> None:
    translator = Translator(["n1", "n2"])
    assert translator.reported(b"Evolving;Request;1:127.0.0.1") == []
    translator.reported(READY)
    assert translator.reported(READY) == []
    assert translator.reported(b"Evolving;Request;2:127.0.0.1") == [wire.Evolving(request=1, delta=2)]
    assert translator.reported(b"Evolving;Release;n2:127.0.0.1") == [wire.Evolving(request=2, delta=-1)]


# Names and times ------------------------------------------------------------------------------------------------------


def test_nodes_that_are_one_machine_are_loopback_addresses_for_the_job() -> None:
    translator = Translator(["n1", "10.0.0.7", "n2"], emulated=True)
    assert translator.hosts == ("127.0.0.1", "10.0.0.7", "127.0.0.3")
    translator.reported(READY)
    order = wire.Grow(order=0, count=2, nodes=("n9", "127.0.0.44"))
    assert translator.ordered(order) == Dial(0, b"grow 2 127.0.0.4 127.0.0.44\n", 0)
    assert outcome(translator.reported(b"growTimeAPGAS;2;5:1")).nodes == ("n9", "127.0.0.44")
    translator.ordered(wire.Shrink(order=1, count=3))
    done = outcome(answered(translator, 1, b"127.0.0.4", b"127.0.0.3", b"127.0.0.44"))
    assert done.nodes == ("n9", "n2", "127.0.0.44")
    again = wire.Grow(order=2, count=1, nodes=("n9",))
    assert translator.ordered(again) == Dial(2, b"grow 1 127.0.0.4\n", 0), "a node keeps its name"


def test_no_two_nodes_have_one_address() -> None:
    nodes = ["n1", "127.0.0.1", "127.0.0.4", *(f"n{number}" for number in range(2, 600))]
    assert len(set(Translator(nodes, emulated=True).hosts)) == len(nodes)


@given(pre=st.integers(0, 10**9), spawn=st.integers(0, 10**9), post=st.integers(0, 10**9), kind=st.booleans())
def test_both_sides_mean_the_same_times(pre: int, spawn: int, post: int, kind: bool) -> None:
    """What a job of ours says of an order is what it was, as the gate understands it."""
    phases = {"pre": pre / 1e9, "spawn": spawn / 1e9, "post": post / 1e9}
    if kind:  # as `apgas.core.order` has it: up to the commit
        said = wire.Outcome(0, "grow", "done", nodes=("n3",), seconds=(pre + spawn) / 1e9, phases=phases)
    else:
        phases["release"] = phases.pop("spawn")
        said = wire.Outcome(0, "shrink", "done", nodes=("n2",), seconds=(pre + spawn) / 1e9, phases=phases)
    reports = [action for action in JobSide().said(said) if isinstance(action, lines.Took)]
    whole = reports[-1]
    assert isinstance(whole, lines.Took)
    assert whole.name in ("growTimeAPGAS", "shrinkTimeAPGAS")
    assert abs(whole.nanoseconds - (pre + spawn + post)) <= 2, "the program's part included, as in the published system"
    if kind:
        translator = ready("n1", "n2")
        translator.ordered(wire.Grow(order=0, count=1, nodes=("n3",)))
        *_, last = [translator.reported(lines.report_line(report, "127.0.0.1")) for report in reports]
        understood = outcome(last)
        assert understood.seconds == pytest.approx(said.seconds, abs=1e-8)
        assert understood.phases == pytest.approx(said.phases, abs=1e-8)
    else:
        assert any(isinstance(action, Reply) for action in JobSide().said(said))


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
steps = st.lists(st.one_of(said, orders, answers, st.sampled_from(["overdue", "ended", "unreachable"])), max_size=30)


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
            messages = answered(translator, number, *step)
        elif step == "overdue":
            messages = translator.overdue(number, 1.0)
        elif step == "ended":
            messages = translator.ended(number, "nothing was said")
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
