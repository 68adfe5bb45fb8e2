"""Pi, betweenness and sums give the same bits however their bags are split, merged, sent and submitted."""

from __future__ import annotations

import pickle
from functools import cache
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.bc.bag import BCBag, Centrality
from benchmarks.bc.command import sequential
from benchmarks.bc.graph import Generated
from benchmarks.harness.ranges import RangeBag, Span
from benchmarks.harvest import Numbers, Sums
from benchmarks.pi.bag import Hits, PiBag, count_span

SCALE = 7


@cache
def centrality(seed: int) -> list[int]:
    totals = sequential(Generated(SCALE, seed)).totals
    assert totals is not None
    numbers: list[int] = totals.tolist()
    return numbers


def schedule(bag: RangeBag[Any, Any], result: Any, rng: Random, most: int) -> int:
    """Compute ``bag`` on bags that come and go at random; return the work done."""
    bags, gone = [bag], 0
    if rng.random() < 0.5:
        bag.process(rng.randint(1, most))
        gone = bag.work
        bags = bag.partition(rng.randint(1, 5))
    while not all(each.is_empty() for each in bags):
        each = rng.choice(bags)
        match rng.randrange(5):
            case 0 | 1:
                each.process(rng.randint(1, most))
            case 2:
                if (part := each.split(all=rng.random() < 0.3)) is not None:
                    bags.append(pickle.loads(pickle.dumps(part)))
            case 3 if len(bags) > 1:
                bags.remove(each)  # its place leaves: what it has goes to another one
                gone += each.work
                rng.choice(bags).merge(pickle.loads(pickle.dumps(each)))
            case _:
                partial = type(result)()
                each.submit(partial)
                result.merge(pickle.loads(pickle.dumps(partial)))
    for each in bags:
        each.submit(result)
    return gone + sum(each.work for each in bags)


@settings(max_examples=60, deadline=None)
@given(samples=st.integers(1, 60_000), seed=st.integers(0, 2**64 - 1), order=st.integers(0, 2**32))
def test_pi_does_not_depend_on_the_schedule(samples: int, seed: int, order: int) -> None:
    result = Hits()
    work = schedule(PiBag.whole(samples, seed), result, Random(order), 20_000)
    assert work == samples
    assert (result.hits, result.samples) == (count_span(0, samples, seed), samples)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 5), order=st.integers(0, 2**32))
def test_betweenness_does_not_depend_on_the_schedule(seed: int, order: int) -> None:
    result = Centrality()
    work = schedule(BCBag.whole(1 << SCALE, Generated(SCALE, seed)), result, Random(order), 40)
    assert result.totals is not None
    assert result.totals.tolist() == centrality(seed)
    assert work == 1 << SCALE


@settings(max_examples=60, deadline=None)
@given(count=st.integers(1, 500), order=st.integers(0, 2**32))
def test_sums_do_not_depend_on_the_schedule(count: int, order: int) -> None:
    result = Sums()
    work = schedule(Numbers.whole(count, None), result, Random(order), 50)
    assert work == count
    assert result.found == Sums.of(count)


class Grains(RangeBag[Hits, list[Span]]):
    """Numbers of which some stay together; the problem takes down what is computed."""

    result = Hits

    def _compute(self, first: int, last: int, partial: Hits) -> None:
        self._problem.append((first, last))


@given(
    sizes=st.lists(st.integers(1, 50), max_size=5),
    grain=st.integers(1, 12),
    steps=st.lists(st.tuples(st.sampled_from(["process", "half", "all", "partition"]), st.integers(1, 40)), max_size=8),
)
def test_ranges_lose_nothing_and_cut_at_grains(sizes: list[int], grain: int, steps: list[tuple[str, int]]) -> None:
    spans = [(1000 * grain * number, 1000 * grain * number + size) for number, size in enumerate(sizes)]
    kind = type("OfThisGrain", (Grains,), {"grain": grain})
    done: list[Span] = []
    numbers = kind(list(spans), done)
    for step, amount in steps:
        held, before = len(numbers), numbers.work
        parts: list[Grains] = []
        match step:
            case "process":
                assert numbers.process(amount) is not numbers.is_empty()
            case "half":
                splittable = numbers.is_splittable()
                part = numbers.split(False)
                assert (part is not None) is splittable
                assert bool(numbers) is bool(held)
                parts = [part] if part else []
            case "all":
                part = numbers.split(True)
                assert (part is not None) is bool(held)
                assert not numbers
                parts = [part] if part else []
            case _:
                parts = numbers.partition(min(amount, 6))
                assert not numbers
        assert len(numbers) + sum(map(len, parts)) + numbers.work - before == held
        assert all(first % grain == 0 for part in parts for first, _ in part.spans)
        back = kind([], done)
        for part in parts:
            back.merge(part)
        numbers.merge(back)
    assert all(first % grain == 0 for first, _ in done)
    seen = [n for first, last in (*done, *numbers.spans) for n in range(first, last)]
    assert sorted(seen) == [n for first, last in spans for n in range(first, last)]
