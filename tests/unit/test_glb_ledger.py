"""Place 0's books find what was lost or doubled."""

from __future__ import annotations

import pytest

from glb.core.ledger import Ledger
from glb.errors import LedgerError
from glb.statistics import Statistics


def ledger(places: int = 2) -> Ledger:
    found = Ledger()
    found.joined(range(places))
    found.dealt(5)
    return found


def test_books_that_agree() -> None:
    books = ledger()
    books.wave({0: Statistics(received=1, tasks_received=5), 1: Statistics()})
    books.wave({0: Statistics(received=1, tasks_received=5, sent=1, tasks_sent=2), 1: Statistics()})
    books.reported([1], Statistics(received=1, tasks_received=2))
    books.reported([0], Statistics(received=1, tasks_received=5, sent=1, tasks_sent=2))
    books.close()


def test_a_bag_that_arrived_twice_is_found_at_the_next_resize() -> None:
    books = ledger()
    books.wave({0: Statistics(received=1, tasks_received=5), 1: Statistics(received=1, tasks_received=5)})
    with pytest.raises(LedgerError, match="2 bags were received from other places, but only 1 were sent"):
        books.wave({0: Statistics(received=1, tasks_received=5), 1: Statistics(received=1, tasks_received=5)})


def test_tasks_that_multiplied_on_the_way_are_found_at_the_next_resize() -> None:
    books = ledger()
    counts = {0: Statistics(received=1, tasks_received=6), 1: Statistics()}
    books.wave(counts)
    with pytest.raises(LedgerError, match="6 tasks were received from other places, but only 5 were sent"):
        books.wave(counts)


def test_what_was_counted_a_little_later_is_no_error() -> None:
    books = ledger()
    books.wave({0: Statistics(), 1: Statistics(received=2, tasks_received=7)})
    books.wave({0: Statistics(sent=1, tasks_sent=2), 1: Statistics(received=2, tasks_received=7)})


def test_a_wave_asks_all_but_those_who_have_joined_since() -> None:
    books = ledger()
    books.wave({0: Statistics(), 1: Statistics(received=2)})
    with pytest.raises(ValueError, match=r"a wave asks all places, \[0\] too"):
        books.wave({1: Statistics(received=2)})
    books.joined([2])
    books.wave({0: Statistics(sent=1), 1: Statistics(received=2)})
    books.wave({0: Statistics(sent=1), 1: Statistics(received=2), 2: Statistics(sent=1)})
    with pytest.raises(ValueError, match=r"\[2\] too"):
        books.wave({0: Statistics(sent=1), 1: Statistics(received=2)})


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        (Statistics(tasks_received=5), "1 bags were sent"),
        (Statistics(received=1, tasks_received=4), "5 tasks were sent"),
    ],
)
def test_what_is_lost_is_found_at_the_end(counts: Statistics, words: str) -> None:
    books = ledger(1)
    books.reported([0], counts)
    with pytest.raises(LedgerError, match=words):
        books.close()


def test_a_result_comes_once_per_stay() -> None:
    books = ledger()
    books.reported([1], Statistics())
    with pytest.raises(LedgerError, match="place 1 hands in a result, but it takes no part"):
        books.reported([1], Statistics())
    books.joined([1])
    with pytest.raises(LedgerError, match="place 1 joins, but its last result"):
        books.joined([1])
    books.reported([1], Statistics())
    with pytest.raises(LedgerError, match=r"results of places \[0\] are missing"):
        books.close()


def test_results_that_come_together_are_of_different_places() -> None:
    with pytest.raises(LedgerError, match="place 2 hands in a result"):
        ledger(3).reported([0, 2, 1, 2], Statistics())
    with pytest.raises(LedgerError, match="place 4 hands in a result"):
        ledger(3).reported([0, 1, 4], Statistics())
    books = ledger(3)
    books.reported([0, 2], Statistics(received=1, tasks_received=5))
    with pytest.raises(LedgerError, match=r"results of places \[1\] are missing"):
        books.close()
    books.reported([1], Statistics())
    books.close()


def test_what_a_lost_place_takes_along_is_reported() -> None:
    books = ledger(3)
    books.wave({0: Statistics(), 1: Statistics(), 2: Statistics(received=4, sent=3)})
    books.reported([1], Statistics())
    text = books.missing([2, 1], {2: 70})
    assert "place 1 had handed in its result" in text
    assert "place 2 had not handed in its result of at least 70 tasks" in text
    assert "received 4 and sent 3" in text
