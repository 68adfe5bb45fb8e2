"""Whatever a connection says: nothing raises, refused messages change nothing, outcomes fit their orders."""

from __future__ import annotations

import copy

from hypothesis import given
from hypothesis import strategies as st

from apgas.malleability import orders as wire
from scheduler_bridge.daemon.config import Limits
from scheduler_bridge.daemon.jobs.session import Attach, Heard, JobLink, OpenOrder, Send, Session, Trespassed

TOKENS = ["t" * 32, "u" * 32]
NODES = ["a", "b", "c", "d"]
names = st.lists(st.sampled_from(NODES), max_size=3).map(tuple)
numbers = st.integers(0, 3)

messages: st.SearchStrategy[wire.Message] = st.one_of(
    st.builds(wire.Hello, version=st.sampled_from([1, 2]), job=st.integers(0, 1), token=st.sampled_from(TOKENS)),
    st.builds(wire.Ready, nodes=names),
    st.just(wire.Disable()),
    st.builds(wire.Progress, done=st.floats(allow_nan=False, allow_infinity=False)),
    st.builds(wire.Deferred, order=numbers),
    st.builds(
        wire.Outcome,
        order=numbers,
        kind=st.sampled_from(["grow", "shrink"]),
        outcome=st.sampled_from(["done", "refused", "aborted"]),
        nodes=names,
    ),
    st.builds(wire.Evolving, request=numbers, delta=st.integers(-3, 3)),
)
lines = st.one_of(messages.map(wire.encode), st.binary(max_size=60), st.sampled_from([b"", b"\n", b"{}\n", b"[]\n"]))
orders = st.builds(
    OpenOrder, order=numbers, kind=st.sampled_from(["grow", "shrink"]), count=st.integers(1, 2), nodes=names
)
steps = st.lists(st.one_of(lines, orders, st.just("reconnect"), st.just("abandon")), max_size=40)


def state(link: JobLink) -> JobLink:
    return copy.deepcopy(link)


@given(steps)
def test_any_conversation_keeps_the_rules(conversation: list[bytes | OpenOrder | str]) -> None:
    link = JobLink(0, TOKENS[0], frozenset({"a", "b"}))
    links = {0: link}
    session = Session(links, Limits(strikes=5), 0.0)
    session.receive(wire.encode(wire.Hello(version=2, job=0, token=TOKENS[0])), 0.0)
    for step in conversation:
        if isinstance(step, OpenOrder):
            link.open = step
        elif step == "reconnect":
            session = Session(links, Limits(strikes=5), 0.0)
        elif step == "abandon":
            if link.open is not None and link.open.kind == "grow":
                link.abandoned.add(link.open.order)
            link.open = None
        else:
            assert isinstance(step, bytes)
            before, was_closed = state(link), session.closed
            actions = session.receive(step, 0.0)
            if was_closed:
                assert actions == []
            if any(isinstance(action, Send) and isinstance(action.message, wire.Refused) for action in actions):
                assert state(link) == before
                assert not any(isinstance(action, Heard | Attach | Trespassed) for action in actions)
            for action in actions:
                check(action, before, link)


def check(action: object, before: JobLink, link: JobLink) -> None:
    if isinstance(action, Attach):
        assert action.job_id == 0
    if isinstance(action, Trespassed):
        assert before.abandoned
    if isinstance(action, Heard) and isinstance(action.message, wire.Outcome):
        assert before.open is not None
        assert link.open is None
        assert action.message.order == before.open.order
        if action.message.outcome == "done":
            gained = set(action.message.nodes)
            assert gained
            assert gained <= (set(before.open.nodes) if before.open.kind == "grow" else before.held)
    if isinstance(action, Heard) and isinstance(action.message, wire.Ready):
        assert before.phase == "silent"


@given(st.binary(max_size=300))
def test_the_decoder_knows_only_two_answers(line: bytes) -> None:
    for decode in (wire.decode_to_job, wire.decode_to_scheduler):
        try:
            message = decode(line)
        except wire.BadMessageError:
            continue  # the other answer
        assert decode(wire.encode(message)) == message
