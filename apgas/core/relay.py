"""The tree by which reports of a *dense* finish reach its home, and the one by which news of place 0 reach all places.

Reports
-------
Every quiet period of every place is a message to the home of a finish. Where thousands of places run dry again and
again (a load balancer), the home does nothing but read. The reports of a finish that was opened ``dense`` go up a tree:
a place sends its report to its parent, which adds what comes from its children and passes the sum on.

    any place       quiet under a dense finish: its report, and all that it holds of others   Relayed ---> parent
    a parent        takes a Relayed: adds it to what it holds of that finish; the first asks for ``pass_on``
    the driver      pass_on, a little later: what is held of that finish                      Relayed ---> parent
    a leaver        holds nothing: it passes on at once what it holds when it is to leave, and what comes after that
    the home        takes the sums: ``FinishTable.gathered``

*The tree.* Of the members that stay, take those with ids above the home's, then those below, each by id: the home has
rank 0, and the parent of rank r is rank (r - 1) // degree. So it is a function of the home and of the members as one
place knows them: nothing is agreed, it follows every resize, and in a job of up to degree + 1 places the parent is the
home. Places may have different views for a while. Yet whatever the views are, a parent is nearer to the home in that
order of ids than its child, so no report goes round in a circle.

*Nothing is lost.* A place uses only parents that stay, as far as it knows, and a leaver drains only when every member
has said that it sends nothing more (``Final``). Connections keep the order of messages, so all that a leaver was to
pass on is there before, and was passed on when it came. A place that is said to leave and then stays is an ordinary
parent again, also for those that have heard so sooner. The home of a finish that is open does not drain. A message
waits at a place that is in an earlier epoch than its sender, so every parent knows the home.

*Nothing waits for ever.* What a place holds it passes on when its driver says so, whatever else happens, or sooner. The
driver waits a little when it has just passed something on, so that in a burst many reports become one message. It may
wait longer while an activity of that finish lives at this place, and loses nothing: the finish cannot fire before that
activity has ended and this place has reported, and with that report goes all that it holds.

*Order.* Why the home fires only when it is right, though reports overtake each other where a route changes: see
``core.finish``. Its answers to the home, and its wish to cancel, a place sends on the direct connection, and they have
to arrive before the finish fires. So a place reports directly about a quiet period in which it has sent such a message.

News
----
What place 0 decides about the members (``Members``, ``Leave``, ``StayOn``) is news for all places. It goes down the
tree of place 0, which so sends it to ``degree`` places and not to all.

    place 0         decides: passes the news on, then takes it itself        Members, Leave, StayOn ---> its children
    any place       gets news from its parent: passes it on, then takes it   Members, Leave, StayOn ---> its children

*The tree.* It is that of the *hearers*: the members of the epoch in which the news is taken, leavers too, but not those
that the news removes. Newcomers do not hear the news that adds them: they begin in the epoch that it begins. Claim: all
places take the same news in the same order, each once, newcomers from their epoch on. So who takes it knows the
members that its parent knew when it passed it on, hence the same tree, and in that every hearer has one parent.

*Every hearer hears it.* By induction over the order of the news, and over the levels of the tree of each. A parent has
taken all news before, and passes this one on when it takes it; connections lose nothing. And it is still there: a
leaver goes when it has been released, after the ``Final`` of every member, hence after every member has taken the
``Leave``, and of the commit, which comes next, it is no hearer.

*In order.* Let news B follow on news A. Then no place takes B before A:

- B removes leavers. Then A is their ``Leave``; they have drained, so every member has taken A.
- B does not. Then the hearers of B are those of A, with those that A adds behind them, for ids ascend in time. So who
  hears both has the same parent in both trees, which passes on A first, and connections keep the order of messages.

*Not too early.* All else that a place sends after it has taken the news of an epoch is of that epoch, and waits where
the news is still under way. What has waited is taken in the order in which it came.

*The end* waits for no epoch: if a place dies that had to pass news on, place 0 ends the job in an epoch of which those
below that place do not hear.

Where places may die
--------------------
In a resilient job a place may die with what it held of others. Reports go up the same tree all the same, as *words*
that may be said twice; ``core.resilient`` has the argument.

News comes from place 0 itself there. A place that misses news does not know so, and must not act in the epoch that it
knew before; so place 0 would have to keep all news until every place had acknowledged it, and to repeat it below each
dead place, in order. That saves place 0 one message for each place and resize, and costs each loss and each resize as
many acknowledgements. Place 0 has to reach every place for a loss in any case. ``benchmarks.scaling`` says what it
costs.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Final, Generic, TypeVar

import msgspec

from apgas.core.finish import Flush, Gathered, add_balance
from apgas.core.messages import FinishId, Word

T = TypeVar("T")

DEGREE: Final = 16
"""Children of a place in the tree."""


def parent(here: int, home: int, staying: Sequence[int], degree: int) -> int:
    """The parent of place ``here`` in the tree of ``home``, which is another one; both may be leaving.

    ``staying``: the ids of the members that stay, ascending.
    """
    first = bisect_right(staying, home)
    # how many stand between the home and this place, in the order of the tree
    between = bisect_left(staying, here) - first
    if here < home:
        between += len(staying)
    up = between // degree
    return home if up == 0 else staying[(first + up - 1) % len(staying)]


def children(here: int, home: int, members: Sequence[int], degree: int) -> list[int]:
    """The children of place ``here`` in the tree of ``home``: those ``members``, ascending, whose ``parent`` it is."""
    after = bisect_right(members, home)
    is_member = after > 0 and members[after - 1] == home
    rank = 0 if here == home else (bisect_left(members, here) - after) % len(members) + 1
    most = min((rank + 1) * degree, len(members) - is_member)
    return [members[(after + child) % len(members)] for child in range(rank * degree, most)]


def branches(places: Sequence[T], fan: int) -> list[Sequence[T]]:
    """Cut ``places`` into at most ``fan`` parts of about the same length, none of them empty.

    Who asks all of them for something asks the first of each part, and that one the rest.
    """
    count = min(fan, len(places))
    return [places[len(places) * part // count : len(places) * (part + 1) // count] for part in range(count)]


class Words(msgspec.Struct):
    """What places of a resilient job say of one dense finish."""

    by_place: dict[int, Word] = msgspec.field(default_factory=dict)

    def add(self, other: Words) -> None:
        """Add what ``other`` says."""
        for place, word in other.by_place.items():
            self.by_place[place] = joined(self.by_place.get(place), word)


def joined(one: Word | None, other: Word) -> Word:
    """Add two words of a place: who begins anew says all, and of two totals the higher one is the later one."""
    if one is None or other.turn > one.turn:
        return other
    if other.turn < one.turn:
        return one
    sent, completed = _higher(one.sent, other.sent), _higher(one.completed, other.completed)
    errors = one.errors | other.errors if one.errors else other.errors
    return Word(one.turn, one.count + other.count, max(one.highest, other.highest), sent, completed, errors)


def _higher(mine: dict[int, int], theirs: dict[int, int]) -> dict[int, int]:
    """Of each total the higher one; neither is changed."""
    if not mine:
        return theirs
    totals = dict(mine)
    for place, total in theirs.items():
        totals[place] = max(total, totals.get(place, 0))
    return totals


R = TypeVar("R", Gathered, Words)


class Relay(Generic[R]):
    """What one place holds of others (words, in a resilient job), and how many reports of its own it has numbered.

    A place numbers its reports per home, not per finish: it would have to remember every finish that it was ever in.
    """

    def __init__(self, here: int) -> None:
        self.here = here
        self.held: dict[FinishId, R] = {}
        self._numbers: dict[int, int] = {}

    def own(self: Relay[Gathered], flush: Flush) -> Gathered:
        """Make a report of this place, which is quiet, of ``flush``, and add to it what is held."""
        finish = flush.finish
        number = self._numbers[finish.home] = self._numbers.get(finish.home, 0) + 1
        report = Gathered(flush.spawned, {self.here: (1, number)}, flush.errors)
        add_balance(report.open, self.here, -flush.completed)
        held = self.held.pop(finish, None)
        if held is not None:
            report.add(held)
        return report

    def hold(self, finish: FinishId, reports: R) -> bool:
        """Hold reports of others; returns whether nothing of that finish was held before."""
        held = self.held.setdefault(finish, reports)
        if held is reports:
            return True
        held.add(reports)
        return False

    def forget_home(self, home: int) -> None:
        """Place ``home`` has left, so that no finish of it is open."""
        self._numbers.pop(home, None)
