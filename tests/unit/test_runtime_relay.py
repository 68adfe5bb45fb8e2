"""The trees of a dense finish and of news: who passes on to whom, and why the home asks whether a report is overdue."""

from __future__ import annotations

import pytest
from support import planted
from support.in_places.validation import validate

from apgas.core import messages as m
from apgas.core.effects import Effect, Ends, FinishFired, PassOn, Send
from apgas.core.finish import FinishTable, Flush, Gathered
from apgas.core.place import PlaceCore
from apgas.core.relay import Relay, Words, children, joined, parent
from apgas.core.resilient import ResilientFinishTable, ResilientPlaceCore
from apgas.errors import ProtocolError


def test_parents_make_a_tree_of_the_degree_around_any_home() -> None:
    for home in (0, 7, 99):
        staying = [place for place in range(100) if place % 9]
        others = [place for place in staying if place != home]
        parents = {place: parent(place, home, staying, 4) for place in others}
        for place in others:
            above, steps = place, 0
            while above != home:
                above, steps = parents[above], steps + 1
                assert above in staying or above == home
            assert steps <= 4, "about log4 of 89 levels"
        children = [sum(above == place for above in parents.values()) for place in (*others, home)]
        assert max(children) == 4
        assert sum(children) == len(others)


def test_a_small_job_reports_to_the_home_itself() -> None:
    assert {parent(place, 3, range(17), 16) for place in range(17) if place != 3} == {3}


@pytest.mark.parametrize("degree", [1, 2, 16])
def test_parents_are_nearer_to_the_home_whoever_is_thought_to_leave(degree: int) -> None:
    """So no report goes round in a circle, though two places may disagree about the members."""
    for home in (0, 5):
        for leaving in range(1, 40, 3):
            staying = [place for place in range(40) if place % leaving or place == 0]
            for place in range(40):
                if place != home:
                    above = parent(place, home, staying, degree)
                    assert (above < home, above) < (place < home, place) or above == home


def overtaken() -> tuple[FinishTable, m.FinishId, list[Gathered], list[Gathered]]:
    """A history in which all that has arrived balances, and an activity is on its way; last: what is still to come."""
    home, v, w = (FinishTable(here) for here in range(3))
    relays = {1: Relay(1), 2: Relay(2)}

    def report(place: int, outcome: Flush | FinishFired | None) -> Gathered:
        assert isinstance(outcome, Flush)
        return relays[place].own(outcome)

    finish = home.open(dense=True)
    home.spawned(finish, 1)
    assert home.ended(finish) is None
    v.arrived(finish, 0)  # it sends two activities to w, of which the second is slow
    v.spawned(finish, 2)
    v.spawned(finish, 2)
    first = report(1, v.ended(finish))
    w.arrived(finish, 1)
    w.spawned(finish, 1)
    from_w = report(2, w.ended(finish))
    v.arrived(finish, 2)
    second = report(1, v.ended(finish))
    w.arrived(finish, 1)  # only now
    late = report(2, w.ended(finish))
    return home, finish, [second], [first, from_w, late]


def test_the_home_waits_for_a_report_that_was_overtaken() -> None:
    home, finish, arrived, rest = overtaken()
    for reports in arrived:
        assert home.gathered(finish, reports) == []
    assert [home.gathered(finish, reports) for reports in rest] == [[], [], [FinishFired(finish, ())]]
    validate(home)


def test_without_numbers_it_would_fire_early(monkeypatch: pytest.MonkeyPatch) -> None:
    planted.take_reports_as_they_come(monkeypatch)
    home, finish, (second,), _ = overtaken()
    assert home.gathered(finish, second) == [FinishFired(finish, ())], "though an activity is on its way"


def test_a_parent_adds_what_comes_and_sends_it_with_its_own_report() -> None:
    members = [m.PlaceInfo(place, "h", 1, "n", 1) for place in range(4)]
    core = PlaceCore(1, members, 0)
    core.degree = 1
    finish = m.FinishId(0, -1)
    core.received(0, m.Spawn(0, finish, 5, to_caller=False), [])
    asked = core.received(2, m.Relayed(0, finish, {1: 1, 2: -1}, {2: (1, 1)}), m.pack_errors((b"a",)))
    assert asked == [PassOn(finish, lives=True)]
    assert core.received(2, m.Relayed(0, finish, {3: -1}, {3: (1, 1)}), []) == []
    reply, relayed = core.answered(0, m.Spawn(0, finish, 5, to_caller=False), [b"value"], ok=True)
    assert isinstance(reply, Send)
    assert isinstance(reply.message, m.Reply)
    heard = {1: (1, 1), 2: (1, 1), 3: (1, 1)}
    assert relayed == Send(0, m.Relayed(0, finish, {2: -1, 3: -1}, heard), m.pack_errors((b"a",)))
    assert core.pass_on(finish) == [], "nothing is sent twice"
    assert core.received(2, m.Relayed(0, finish, {2: -1}, {2: (1, 2)}), []) == [PassOn(finish, lives=False)]
    assert core.pass_on(finish) == [Send(0, m.Relayed(0, finish, {2: -1}, {2: (1, 2)}), [])]


def test_a_leaver_holds_nothing() -> None:
    members = [m.PlaceInfo(place, "h", 1, "n", 1) for place in range(4)]
    core = PlaceCore(2, members, 0)
    core.degree = core.news_degree = 1
    finish = m.FinishId(0, -1)
    core.received(3, m.Relayed(0, finish, {3: -1}, {3: (1, 1)}), [])
    sent = core.received(1, m.Leave(0, 1, (2,)), [])
    assert Send(1, m.Relayed(0, finish, {3: -1}, {3: (1, 1)}), []) in sent
    again = m.Relayed(0, finish, {3: -1}, {3: (1, 2)})
    assert core.received(3, again, []) == [Send(1, again, [])]


@pytest.mark.parametrize("cancels", [False, True])
def test_a_report_does_not_overtake_the_wish_to_cancel(cancels: bool) -> None:
    """The home would not hear it in time to have it forgotten again, and the place would remember it for good."""
    members = [m.PlaceInfo(place, "h", 1, "n", 1) for place in range(4)]
    core = PlaceCore(3, members, 0)
    core.degree = 1
    finish = m.FinishId(0, -1)
    spawn = m.Spawn(0, finish, 5, to_caller=False)
    core.received(1, spawn, [])
    if cancels:
        assert Send(0, m.Cancel(0, finish), []) in core.cancel(finish)
    sent = [effect for effect in core.answered(1, spawn, [], ok=True) if isinstance(effect, Send)]
    assert [send.dst for send in sent if isinstance(send.message, m.Relayed)] == [0 if cancels else 2]


# news ----------------------------------------------------------------------------------------------------------------

INFOS = [m.PlaceInfo(place, "h", 1, "n", 1) for place in range(8)]


@pytest.mark.parametrize("degree", [1, 2, 16])
def test_children_are_those_whose_parent_it_is(degree: int) -> None:
    members = [0, *range(3, 90, 4)]
    below = {place: children(place, 0, members, degree) for place in members}
    assert max(map(len, below.values())) == degree
    assert {child: place for place, of in below.items() for child in of} == {
        place: parent(place, 0, members, degree) for place in members[1:]
    }


def passed_on(here: int, src: int, news: m.News, members: int = 6, kind: type[PlaceCore] = PlaceCore) -> list[int]:
    """To whom place ``here`` of a tree of degree 2 passes news on that ``src`` sends it."""
    core = kind(here, INFOS[:members], 0)
    if kind is PlaceCore:
        core.news_degree = 2
    effects = core.received(src, news, [])
    return [effect.dst for effect in effects if isinstance(effect, Send) and effect.message == news]


def test_news_go_to_all_but_those_that_come_or_go_with_them() -> None:
    assert passed_on(1, 0, m.Leave(0, 7, (4,))) == [3, 4]
    assert passed_on(1, 0, m.Members(1, (INFOS[6],), ())) == [3, 4]
    assert passed_on(2, 0, m.Members(1, (INFOS[6],), ())) == [5], "not the newcomer, which began with them"
    core = PlaceCore(1, INFOS[:6], 0)
    core.news_degree = 2
    core.received(0, m.Leave(0, 7, (4,)), [])
    commit = m.Members(1, (), (4,))
    assert core.received(0, commit, [])[:2] == [Send(3, commit, []), Send(5, commit, [])]


def test_news_come_from_the_parent_alone() -> None:
    for src in (0, 2, 3):
        with pytest.raises(ProtocolError, match=f"place {src} sent place 4 StayOn"):
            passed_on(4, src, m.StayOn(0, 7))
    assert passed_on(4, 1, m.StayOn(0, 7)) == []
    with pytest.raises(ProtocolError, match="place 5 sent place 0 Members"):
        passed_on(0, 5, m.Members(1, (), ()))


def test_any_place_may_be_the_root() -> None:
    for home in (0, 9, 30):
        members = [0, *range(3, 60, 3)]
        below = {place: children(place, home, members, 3) for place in {*members, home}}
        assert {child: place for place, of in below.items() for child in of} == {
            place: parent(place, home, members, 3) for place in members if place != home
        }


def test_a_resilient_job_has_all_news_from_place_0() -> None:
    assert passed_on(0, 0, m.Members(1, (), (), (3,)), kind=ResilientPlaceCore) == [1, 2, 4, 5]
    assert passed_on(1, 0, m.StayOn(0, 7), kind=ResilientPlaceCore) == []


def test_the_end_does_not_wait_for_news_that_do_not_come() -> None:
    core = PlaceCore(4, INFOS[:6], 0)
    assert core.received(0, m.End(1, "place 1 died"), []) == [Ends("place 1 died")]


# words, in resilient jobs --------------------------------------------------------------------------------------------


def word(
    turn: int, number: int, *, sent: dict[int, int], count: int = 1, completed: dict[int, int] | None = None
) -> m.Word:
    """A report, or several."""
    return m.Word(turn, count, number, sent, completed or {}, {})


def test_words_are_added_and_those_of_a_turn_before_dropped() -> None:
    first, second = word(0, 1, sent={4: 1}), word(0, 2, sent={4: 3, 5: 1})
    both = word(0, 2, sent={4: 3, 5: 1}, count=2)
    assert joined(first, second) == joined(second, first) == both
    anew = word(1, 1, sent={4: 3})
    assert joined(both, anew) == joined(anew, both) == anew


def test_a_word_counts_when_all_before_it_have_come() -> None:
    home = ResilientFinishTable(0)
    finish = home.open(dense=True)
    home.spawned(finish, 1)
    assert home.ended(finish) is None
    late = Words({1: word(0, 2, sent={}, completed={2: 1})})
    assert home.words_came(finish, late) == []
    assert home.outstanding(finish) == {1: 1}, "it is not known yet what place 1 did before"
    assert home.words_came(finish, Words({1: word(0, 1, sent={2: 1}, completed={0: 1})})) == []
    assert home.outstanding(finish) == {2: 1}
    assert home.words_came(finish, Words({2: word(0, 1, sent={1: 1}, completed={1: 1})})) == [FinishFired(finish, ())]


def test_words_of_a_settled_place_change_nothing() -> None:
    home = ResilientFinishTable(0)
    finish = home.open(dense=True)
    home.spawned(finish, 1)
    home.spawned(finish, 2)
    home.died(2, {0, 1}, set())
    assert home.loss_reported(0, 2, {}) == home.loss_reported(1, 2, {}) == []
    assert home.words_came(finish, Words({2: word(0, 1, sent={1: 1}, completed={0: 1})})) == []
    assert home.words_came(finish, Words({1: word(0, 1, sent={}, completed={0: 1})})) == []
    assert home.ended(finish) == FinishFired(finish, (), lost=((2, 1),))


def resilient_core(here: int, members: int = 4) -> ResilientPlaceCore:
    """One place of a tree that is a chain."""
    core = ResilientPlaceCore(here, INFOS[:members], 0)
    core.degree = 1
    return core


def said(effects: list[Effect]) -> list[tuple[int, m.Said]]:
    """What is said, and to whom."""
    return [(sent.dst, sent.message) for sent in effects if isinstance(sent, Send) and isinstance(sent.message, m.Said)]


def test_a_place_says_all_again_when_another_one_dies_and_to_the_home_itself_when_it_leaves() -> None:
    core, finish = resilient_core(3), m.FinishId(0, -1)
    spawn = m.Spawn(0, finish, 5, to_caller=False)
    core.received(1, spawn, [])
    report = said(core.answered(1, spawn, [b"value"], ok=True))
    assert report == [(2, m.Said(0, finish, {3: word(0, 1, sent={}, completed={1: 1})}))]
    again = said(core.received(0, m.Members(1, (), (), (2,)), []))
    assert again == [(1, m.Said(1, finish, {3: word(1, 1, sent={}, completed={1: 1})}))]
    again = said(core.received(0, m.Leave(1, 1, (3,)), []))
    assert again == [(0, m.Said(1, finish, {3: word(2, 1, sent={}, completed={1: 1})}))]
    core.received(0, m.Fulfilled(1, finish), [])
    assert said(core.received(0, m.Members(2, (), (), (1,)), [])) == []


def test_what_is_said_of_a_finish_that_has_fired_is_answered() -> None:
    core = resilient_core(0)
    effects = core.received(2, m.Said(0, m.FinishId(0, -1), {3: word(1, 1, sent={}), 2: word(1, 1, sent={})}), [])
    done = m.Fulfilled(0, m.FinishId(0, -1))
    assert effects == [Send(2, done, []), Send(3, done, [])]


def test_a_newcomer_reports_to_no_home_that_died_before_it_came() -> None:
    core = ResilientPlaceCore(3, [INFOS[0], INFOS[2], INFOS[3]], 1)
    spawn = m.Spawn(1, m.FinishId(1, 0), 5, to_caller=False)
    core.received(2, spawn, [])
    assert [sent.dst for sent in core.answered(2, spawn, [], ok=True) if isinstance(sent, Send)] == [2]
