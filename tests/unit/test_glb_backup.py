"""Place 0's books of backups: what is done again when a place dies, and what they refuse."""

from __future__ import annotations

import pickle

import pytest
from numbered import Numbers, Total

from glb.core.backup import Backup, Frozen, Gift, Keeper, Saver
from glb.errors import LedgerError

BAG = Frozen((b"bag",), 3)
REST = Frozen((b"rest",), 2)


def keeper(*places: int) -> Keeper[Total]:
    found: Keeper[Total] = Keeper()
    for place in (0, *places):
        found.join(place)
    return found


def backup(
    place: int,
    number: int,
    *bags: Frozen,
    result: Total | None = None,
    taken: tuple[tuple[int, int], ...] = (),
    gifts: tuple[Gift, ...] = (),
) -> Backup[Total]:
    return Backup(place, number, bags, result, 0, taken, gifts)


def bags(gifts: list[Gift]) -> list[Frozen]:
    return [gift.bag for gift in gifts]


def test_a_bag_is_under_way_until_a_backup_has_it() -> None:
    books = keeper(1)
    books.deal(1, BAG)
    (lost,) = books.recover([1])
    assert (lost.bag, books.open) == (BAG, (BAG,))
    books.join(2)
    gift = books.deal_again(lost, 2)
    books.take(backup(2, 1, REST, taken=((gift.ident, 3),)))
    assert (books.open, books.size_bytes) == ((REST,), len(b"rest"))
    (lost,) = books.recover([2])
    assert (lost.bag, books.open) == (REST, (REST,))
    books.take(backup(0, 1, taken=((books.deal_again(lost, 0).ident, 2),)))
    assert books.open == ()
    books.close()


def test_a_gift_is_sent_when_the_backup_without_it_counts() -> None:
    books, total = keeper(1, 2), Total()
    books.deal(1, BAG)
    late = backup(1, 2, result=total, gifts=(Gift(2, 7, REST),))
    assert books.take(late) == ([], [])
    assert books.early == [late]
    results, (sent,) = books.take(backup(1, 1, REST, taken=((1, 3),)))
    assert (results, sent.to, sent.nonce, sent.bag) == ([total], 2, 7, REST)
    assert bags(books.recover([1])) == []
    assert bags(books.recover([2])) == [REST]


def test_what_comes_behind_a_gap_dies_with_its_place() -> None:
    books = keeper(1, 2)
    books.take(backup(1, 1, BAG))
    books.take(backup(1, 3, gifts=(Gift(2, None, REST),)))
    assert bags(books.recover([1])) == [BAG]
    assert books.take(backup(1, 2)) == ([], [])
    assert books.open == (BAG,)


def test_what_is_wrong_is_named() -> None:
    books = keeper(1, 2)
    gift = books.deal(1, BAG)
    with pytest.raises(LedgerError, match="is for place 1"):
        books.take(backup(2, 1, taken=((gift.ident, 3),)))
    books = keeper(1)
    gift = books.deal(1, BAG)
    with pytest.raises(LedgerError, match="left with 3 tasks and reached place 1 with 4"):
        books.take(backup(1, 1, taken=((gift.ident, 4),)))
    with pytest.raises(LedgerError, match="backup 1 of place 1 has come twice"):
        books.take(backup(1, 1))
    with pytest.raises(LedgerError, match="it would count twice"):
        books.take(backup(1, 2, taken=((gift.ident, 3),)))
    with pytest.raises(LedgerError, match="it has arrived before"):
        books.redirect(gift.ident, 0)


def test_an_end_with_something_open_is_none() -> None:
    books = keeper(1)
    books.deal(1, BAG)
    with pytest.raises(LedgerError, match=r"1 bags were sent to places \[1\] and did not arrive"):
        books.close()
    books = keeper(1)
    books.take(backup(1, 1, BAG))
    with pytest.raises(LedgerError, match="place 1 ends with 3 tasks in its backup"):
        books.close()
    books = keeper(1)
    books.take(backup(1, 2))
    with pytest.raises(LedgerError, match="backup 1 of place 1 is missing"):
        books.close()


def test_a_backup_has_the_bags_as_they_were_when_their_workers_looked() -> None:
    saver: Saver[Total] = Saver(1, lambda bag: (pickle.dumps(bag),), holds=True)
    bag = Numbers([5, 6])
    saver.hold(0, bag, new=True)
    bag.process(1)
    saver.want([])
    early = saver.ready
    (held,) = saver.back_up([], None).bags
    assert pickle.loads(held.data[0]).tasks == [5, 6]
    bag.submit(Total())
    saver.hold(0, bag)
    assert (early, saver.ready) == (False, True)
    last = saver.back_up([], None)
    assert (last.number, last.tasks, last.bags[0].tasks) == (2, 1, 1)
    assert not saver.wanted
