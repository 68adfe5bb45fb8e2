"""The generator's published vectors, and three implementations that agree to the bit."""

from __future__ import annotations

import math

import pytest

from benchmarks.harness.ranges import RangeBag, Span
from benchmarks.pi import reference
from benchmarks.pi.bag import Hits, PiBag, count_span, load_kernel
from benchmarks.pi.command import KNOWN_HITS, build
from glb.testing import check_bag

ONES = 0xFFFFFFFF


@pytest.mark.parametrize(
    ("counter", "key", "words"),
    [  # Random123, kat_vectors
        ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        ((ONES,) * 4, (ONES, ONES), (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ],
)
def test_philox_gives_the_published_words(
    counter: tuple[int, int, int, int], key: tuple[int, int], words: tuple[int, int, int, int]
) -> None:
    assert reference.philox(counter, key) == words


@pytest.mark.parametrize("seed", [0, 1, 2**32 + 7, 2**64 - 1])
@pytest.mark.parametrize("first", [0, 2**32 - 300, 2**40 + 1])
def test_kernel_numpy_and_python_agree(first: int, seed: int) -> None:
    last = first + 700
    plain = sum(reference.is_hit(sample, seed) for sample in range(2 * first, 2 * last))
    assert reference.count_hits(first, last, seed) == plain
    assert load_kernel()(first, last, seed) == plain


def test_an_odd_number_of_samples_is_counted_to_the_last() -> None:
    for samples in range(20):
        assert count_span(0, samples, 3) == sum(reference.is_hit(sample, 3) for sample in range(samples))


@pytest.mark.parametrize(("samples", "seed"), [case for case in KNOWN_HITS if case[0] <= 10**7])
def test_recorded_hits(samples: int, seed: int) -> None:
    assert reference.count_hits(0, samples // 2, seed) == KNOWN_HITS[samples, seed]


@pytest.mark.parametrize(("samples", "seed"), KNOWN_HITS)
def test_recorded_hits_are_near_pi(samples: int, seed: int) -> None:
    deviation = math.sqrt(math.pi / 4 * (1 - math.pi / 4) / samples)
    assert abs(KNOWN_HITS[samples, seed] / samples - math.pi / 4) < 4 * deviation


def test_the_bag_keeps_the_protocol() -> None:
    samples = 20 * PiBag.grain + 1
    check_bag(
        lambda: PiBag.whole(samples, 5),
        Hits,
        lambda result: (result.hits, result.samples),
        expected=(count_span(0, samples, 5), samples),
        granularity=PiBag.grain,
    )


def test_the_benchmark_knows_and_computes_the_same() -> None:
    benchmark = build(1_000_000, 2)
    assert benchmark.known() == benchmark.expected() == 4 * 784_720 / 1_000_000
    assert build(1_000_001, 2).known() is None


class Tens(RangeBag[Hits, list[Span]]):
    """Numbers that stay together by tens; the problem takes down what is computed."""

    result = Hits
    grain = 10

    def _compute(self, first: int, last: int, partial: Hits) -> None:
        self._problem.append((first, last))


def test_ranges_are_cut_at_grains_only() -> None:
    done: list[Span] = []
    numbers = Tens([(0, 1003)], done)
    assert numbers.process(1)
    assert done == [(0, 10)]
    half = numbers.split(all=False)
    assert half is not None
    assert len(half) == 500
    assert len(numbers) == 493
    parts = numbers.partition(4)
    assert [len(part) for part in parts] == [120, 130, 120, 123]
    assert all(first % 10 == 0 for part in parts for first, _ in part.spans)
    assert not numbers
    assert not numbers.process(5)
    assert len(done) == 1
    assert Tens([(0, 100), (200, 203)], done).process(13)
    assert done[1:] == [(200, 203), (0, 10)]
    assert not Tens([(0, 10)], done).is_splittable()
    assert Tens([(0, 11)], done).is_splittable()
    assert Tens.whole(0, done).is_empty()
