"""When to ask for nodes that can be taken back, and what is said of them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from scheduler_bridge.backends.slurm import Harvest, JobInfo, harvester
from scheduler_bridge.backends.slurm.harvest import Loan, Regrowth, summary
from scheduler_bridge.backends.slurm.harvester import UNUSED_S, Harvester

HARVEST = Harvest("spare", every_s=1.0)


def test_looks_in_vain_become_rare_and_nodes_make_them_frequent_again() -> None:
    regrowth, now_s, pauses = Regrowth(HARVEST, 100.0), 100.0, []
    assert regrowth.due_s == 100.0
    for _ in range(8):
        regrowth.in_vain(now_s)
        pauses.append(regrowth.due_s - now_s)
        now_s = regrowth.due_s
    assert pauses == [2, 4, 8, 16, 32, 60, 60, 60]
    for _ in range(7):
        regrowth.came(now_s)
        pauses.append(regrowth.due_s - now_s)
        now_s = regrowth.due_s
    assert pauses[8:] == [30, 15, 7.5, 3.75, 1.875, 1, 1]


def test_nodes_that_are_taken_back_together_count_once() -> None:
    regrowth = Regrowth(HARVEST, 0.0)
    regrowth.came(0.0)
    for now_s in (10.0, 10.1, 10.2):
        regrowth.taken_back(now_s)
    assert (regrowth.pause_s, regrowth.due_s) == (2.0, 12.2)
    regrowth.came(12.2)
    assert regrowth.pause_s == 1.0
    regrowth.taken_back(13.0)
    assert regrowth.due_s == 15.0


def test_nodes_that_are_taken_back_each_time_are_left_to_others_for_longer() -> None:
    """They come at the end of a pause, half of which is forgiven then; a look in vain is not forgiven."""
    regrowth, now_s = Regrowth(HARVEST, 0.0), 0.0
    for _ in range(20):
        regrowth.taken_back(now_s)
        regrowth.in_vain(regrowth.due_s)
        now_s = regrowth.due_s
        regrowth.came(now_s)
    assert regrowth.pause_s == 30.0


@pytest.mark.parametrize(
    ("harvest", "partition", "qos", "said"),
    [
        (Harvest("spare"), "spare", "high", "spare"),
        (Harvest(qos="scavenger"), "gpu", "scavenger", "QOS scavenger"),
        (Harvest("spare", "low"), "spare", "low", "spare and QOS low"),
    ],
)
def test_companions_are_as_the_job_but_for_where_they_are_preempted(
    harvest: Harvest, partition: str, qos: str, said: str
) -> None:
    info = JobInfo(7, "RUNNING", ("a",), partition="gpu", account="physics", qos="high", comment="thesis")
    like = harvest.applied(info)
    assert (like.partition, like.qos, like.account, like.comment, like.job) == (partition, qos, "physics", "thesis", 7)
    assert str(harvest) == said


def test_the_books_in_words() -> None:
    kept, back = Loan(2, "a", 0.0), Loan(3, "b", 0.0, 1800.0, left_s=1800.0)
    assert summary((kept, back), 3600.0) == "2 loans so far, 1 of them now, 1.50 node-hours"
    left, late = Loan(4, "c", 0.0, 100.0, 99.0, 99.4), Loan(5, "d", 0.0, 100.0, 90.0)
    lost = Loan(6, "e", 0.0, 100.0)
    assert summary((kept, back, left, late, lost), 3600.0) == (
        "5 loans so far, 1 of them now, 1.58 node-hours; taken back 3 nodes, 1 of them left within 0.4 s, 2 lost"
    )
    assert [loan.lost for loan in (kept, back, left, late, lost)] == [False, False, False, True, True]


class Lent:
    """A scheduler, and the allocation that lends it a node, whose jobs use none."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.nodes: list[str] = []
        self.recalled = 0
        self.room_for_lent = 0
        self._change = asyncio.Event()

    @property
    def idle_lent(self) -> list[str]:
        return self.nodes

    @property
    def holdings(self) -> Lent:
        return self

    @property
    def companions(self) -> list[str]:
        return self.nodes

    def monotonic(self) -> float:
        return self.now_s

    def listen(self, *_: object) -> None:
        pass

    def leave(self, node: str) -> None:
        pass

    def lend(self, names: tuple[str, ...], words: str) -> None:
        self.nodes = [*names]
        self.stir()

    def recall(self, node: str, words: str) -> None:
        self.recalled += 1
        self.nodes = []
        self.stir()

    async def changed(self) -> None:
        await self._change.wait()

    def stir(self) -> None:
        self._change.set()
        self._change = asyncio.Event()


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def test_a_node_that_comes_back_is_as_new(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was given back because it was not used; it is not given back for that again as soon as it comes."""
    lent: Any = Lent()
    monkeypatch.setattr(harvester, "time", lent)

    async def play() -> None:
        task = asyncio.create_task(Harvester(lent, lent, Harvest("spare")).run())
        lent.lend(("a",), "")
        await settle()
        lent.now_s = UNUSED_S
        lent.stir()
        await settle()
        assert lent.recalled == 1
        lent.lend(("a",), "")
        await settle()
        assert lent.recalled == 1
        lent.now_s *= 2
        lent.stir()
        await settle()
        assert lent.recalled == 2
        task.cancel()

    asyncio.run(play())


def test_a_node_that_is_taken_back_while_another_is_given_back_is_not_used() -> None:
    """Both have just come, for a job of two nodes. The second one was lent all the same, and not given back later."""
    lent: Any = Lent()
    given_back: list[str] = []

    async def play() -> None:
        class Allocation:
            holdings = type("Holdings", (), {"companions": ("a", "b")})

            def leave(self, node: str) -> None:
                given_back.append(node)
                if node == "a":
                    taker._recall("b", "Slurm takes it back")

        allocation: Any = Allocation()
        taker = Harvester(lent, allocation, Harvest("spare"))
        taker._recall("a", "Slurm takes it back")
        assert await taker.kept(("a", "b")) == ()

    asyncio.run(play())
    assert given_back == ["a", "b"]
