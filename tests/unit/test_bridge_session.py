from __future__ import annotations

from apgas.malleability import orders as wire
from scheduler_bridge.daemon.config import Limits
from scheduler_bridge.daemon.jobs.session import (
    Action,
    Attach,
    Close,
    Heard,
    JobLink,
    OpenOrder,
    Send,
    Session,
    Trespassed,
)

TOKEN = "t" * 32
DEFAULTS = Limits()


def make(link: JobLink | None = None, limits: Limits = DEFAULTS) -> tuple[Session, JobLink]:
    link = link or JobLink(7, TOKEN, frozenset({"a", "b", "c"}))
    return Session({link.job_id: link}, limits, 0.0), link


def say(session: Session, message: wire.Message, now: float = 0.0) -> list[Action]:
    return session.receive(wire.encode(message), now)


def hello(session: Session, job: int = 7, token: str = TOKEN, version: int = wire.PROTOCOL_VERSION) -> list[Action]:
    return say(session, wire.Hello(version=version, job=job, token=token))


def attached(link: JobLink | None = None, limits: Limits = DEFAULTS) -> tuple[Session, JobLink]:
    session, link = make(link, limits)
    assert Attach(7) in hello(session)
    return session, link


def refusal(actions: list[Action]) -> str:
    match actions:
        case [Send(wire.Refused(reason=reason))]:
            return reason
        case _:
            raise AssertionError(f"not a refusal: {actions}")


def closing(session: Session, actions: list[Action]) -> str:
    match actions:
        case [Send(wire.Refused()), Close(reason=reason)]:
            assert session.closed
            return reason
        case _:
            raise AssertionError(f"not a closing refusal: {actions}")


def outcome(order: int, kind: str, nodes: tuple[str, ...], result: str = "done") -> wire.Outcome:
    return wire.decode_to_scheduler(  # type: ignore[return-value]  # it is an outcome
        wire.encode(wire.Outcome(order=order, kind=kind, outcome=result, nodes=nodes))  # type: ignore[arg-type]  # parameters
    )


def test_welcomes_a_job_that_proves_itself() -> None:
    session, _ = make()
    assert hello(session) == [Send(wire.Welcome(version=2)), Attach(7)]
    assert not session.closed


def test_refuses_strangers_alike() -> None:
    reasons = set()
    for job, token in ((7, "x" * 32), (7, TOKEN + "t"), (8, TOKEN)):
        session, _ = make()
        reasons.add(closing(session, hello(session, job, token)))
    assert len(reasons) == 1


def test_refuses_another_version_and_anything_before_hello() -> None:
    session, _ = make()
    assert "version 1" in closing(session, hello(session, version=1))
    session, link = make()
    assert "hello" in closing(session, say(session, wire.Ready(nodes=("a",))))
    assert link.phase == "silent"
    session, _ = make()
    closing(session, session.receive(b"{nonsense\n", 0.0))


def test_handler_is_registered_and_given_up_once() -> None:
    session, link = attached()
    ready = wire.Ready(nodes=("a", "b"))
    assert say(session, ready) == [Heard(7, ready)]
    assert "once" in refusal(say(session, ready))
    assert say(session, wire.Disable()) == [Heard(7, wire.Disable())]
    assert link.phase == "disabled"
    refusal(say(session, wire.Disable()))
    refusal(say(session, ready))
    assert link.phase == "disabled"


def test_ready_is_repeated_silently_on_a_new_connection_only() -> None:
    session, link = attached()
    ready = wire.Ready(nodes=("a", "b"))
    say(session, ready)
    again, _ = attached(link)
    assert say(again, ready) == []
    refusal(say(again, ready))


def test_ready_names_only_the_jobs_own_nodes() -> None:
    session, link = attached()
    assert "elsewhere" in refusal(say(session, wire.Ready(nodes=("a", "elsewhere"))))
    assert link.phase == "silent"


def test_outcomes_fit_the_open_order() -> None:
    session, link = attached()
    link.phase = "ready"
    link.open = OpenOrder(5, "grow", 2, ("d", "e"))
    assert "not open" in refusal(say(session, outcome(4, "grow", ("d", "e"))))
    assert "is a grow" in refusal(say(session, outcome(5, "shrink", ("a", "b"))))
    assert "twice" in refusal(say(session, outcome(5, "grow", ("d", "d"))))
    assert "names 3" in refusal(say(session, outcome(5, "grow", ("d", "e", "a"))))
    assert "names 0" in refusal(say(session, outcome(5, "grow", ())))
    assert "elsewhere" in refusal(say(session, outcome(5, "grow", ("d", "elsewhere"))))
    before: OpenOrder | None = link.open
    assert before == OpenOrder(5, "grow", 2, ("d", "e"))
    fitting = outcome(5, "grow", ("d",))
    assert say(session, fitting) == [Heard(7, fitting)]
    assert "not open" in refusal(say(session, fitting))


def test_what_an_earlier_connection_said_of_an_order_may_be_said_again_once() -> None:
    session, link = attached()
    link.phase, link.open = "ready", OpenOrder(5, "grow", 1, ("d",))
    grown = outcome(5, "grow", ("d",))
    assert say(session, grown) == [Heard(7, grown)]
    link.held |= {"d"}
    for _ in range(2):  # jobs say several again on each connection
        again, _ = attached(link)
        assert say(again, grown) == []
        assert "not open" in refusal(say(again, grown))
    again, _ = attached(link)
    assert "order 4 is not open" in refusal(say(again, outcome(4, "grow", ("d",))))
    assert "order 5 is not open" in refusal(say(again, outcome(5, "grow", (), "aborted"))), "it was done"
    link.open = OpenOrder(6, "shrink", 1, ("d",))
    shrunk = outcome(6, "shrink", ("d",))
    assert say(again, shrunk) == [Heard(7, shrunk)]
    assert "not open" in refusal(say(again, shrunk))


def test_shrinks_release_the_ordered_number_of_own_nodes() -> None:
    session, link = attached()
    link.open = OpenOrder(6, "shrink", 2, ("c", "b"))
    assert "names 1" in refusal(say(session, outcome(6, "shrink", ("b",))))
    assert "elsewhere" in refusal(say(session, outcome(6, "shrink", ("b", "elsewhere"))))
    free_choice = outcome(6, "shrink", ("b", "a"))
    assert say(session, free_choice) == [Heard(7, free_choice)]
    assert link.held == {"c"}
    link.open = OpenOrder(8, "shrink", 1, ())
    assert "at least one" in refusal(say(session, outcome(8, "shrink", ("c",))))


def test_refused_orders_need_no_nodes() -> None:
    session, link = attached()
    link.open = OpenOrder(6, "shrink", 2, ())
    refused = outcome(6, "shrink", (), "refused")
    assert say(session, refused) == [Heard(7, refused)]
    assert link.open is None


def test_an_open_order_is_repeated_on_a_new_connection() -> None:
    link = JobLink(7, TOKEN, frozenset({"a"}), open=OpenOrder(5, "grow", 1, ("d",), withdrawn=True))
    session, _ = make(link)
    sent = [action.message for action in hello(session) if isinstance(action, Send)]
    assert sent[1:] == [wire.Grow(order=5, count=1, nodes=("d",)), wire.Withdraw(order=5)]


def test_growing_too_late_is_trespassing() -> None:
    session, link = attached()
    link.abandoned.add(5)
    assert "not open" in refusal(say(session, outcome(5, "grow", (), "aborted")))
    match say(session, outcome(5, "grow", ("d",))):
        case [Trespassed(job_id=7, reason=reason)]:
            assert "d" in reason
        case actions:
            raise AssertionError(actions)


def test_requests_need_a_handler_and_deferrals_an_order() -> None:
    session, link = attached()
    refusal(say(session, wire.Evolving(request=1, delta=2)))
    refusal(say(session, wire.Deferred(order=3)))
    link.phase, link.open = "ready", OpenOrder(3, "shrink", 1, ())
    assert say(session, wire.Evolving(request=1, delta=2)) == [Heard(7, wire.Evolving(request=1, delta=2))]
    assert say(session, wire.Deferred(order=3)) == [Heard(7, wire.Deferred(order=3))]
    assert link.open is not None


def test_too_many_refusals_close_the_connection() -> None:
    session, _ = attached(limits=Limits(strikes=2))
    for _ in range(2):
        refusal(session.receive(b"{}\n", 0.0))
    closing(session, session.receive(b"{}\n", 0.0))
    assert session.receive(wire.encode(wire.Disable()), 0.0) == []


def test_a_flood_closes_the_connection_and_patience_pays() -> None:
    limits = Limits(burst_messages=3, messages_per_s=1.0)
    progress = wire.Progress(done=1.0)
    session, _ = attached(limits=limits)
    assert say(session, progress) != []
    say(session, progress)
    closing(session, say(session, progress))
    session, _ = attached(limits=limits)
    for second in range(20):
        assert say(session, progress, now=float(second)) == [Heard(7, progress)]


def test_a_job_that_ended_is_not_listened_to() -> None:
    link = JobLink(7, TOKEN, frozenset({"a"}))
    links = {7: link}
    session = Session(links, Limits(), 0.0)
    hello(session)
    del links[7]
    assert "ended" in closing(session, say(session, wire.Progress(done=1.0)))


def test_a_job_that_asks_for_the_ids_of_cores_gets_them() -> None:
    session, link = make()
    say(session, wire.Hello(version=2, job=7, token=TOKEN, core_ids=True))
    link.open = OpenOrder(3, "workers", 2, ("a", "b", "c"), ("2-3", {}))
    assert link.open.message(core_ids=link.core_ids) == wire.Workers(order=3, count=2, core_ids="2-3")
    again, _ = make(link)
    said = say(again, wire.Hello(version=2, job=7, token=TOKEN, core_ids=True))
    assert Send(wire.Workers(order=3, count=2, core_ids="2-3")) in said


def test_a_job_that_does_not_know_them_is_not() -> None:
    session, link = make()
    link.open = OpenOrder(3, "workers", 2, ("a", "b", "c"), ("", {"a": "0-1", "b": "2-3", "c": "2-3"}))
    (*_, order) = hello(session)
    assert order == Send(wire.Workers(order=3, count=2))
    assert wire.encode(wire.Workers(order=3, count=2)) == b'{"type":"workers","order":3,"count":2}\n'
    assert wire.encode(wire.Hello(version=2, job=7, token=TOKEN)) == (
        b'{"type":"hello","version":2,"job":7,"token":"' + TOKEN.encode() + b'"}\n'
    )
