"""Lists of core ids: what is written is read again, and nothing else is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apgas.malleability import core_ids as words
from apgas.malleability import orders as wire
from scheduler_bridge.daemon.jobs.session import MOST_CHARACTERS, NO_LISTS, core_lists

sets = st.integers(1, (1 << 70) - 1)


def ids(bits: int) -> tuple[int, ...]:
    return tuple(core for core in range(bits.bit_length()) if bits >> core & 1)


@given(st.sets(st.integers(0, 99_999), max_size=60))
def test_a_list_says_what_was_written(cores: set[int]) -> None:
    text = words.listed(sorted(cores))
    assert words.parsed(text) == tuple(sorted(cores))


@given(st.text(alphabet="0123456789-, \n", max_size=12))
def test_what_is_read_ascends(text: str) -> None:
    try:
        found = words.parsed(text)
    except ValueError:
        return
    assert list(found) == sorted(set(found))
    assert words.parsed(words.listed(found)) == found


@pytest.mark.parametrize("text", ["-", "1-", "3-1", "1,1", "2,1", "0x1", " 1", "1\n", "1,,2", "1,"])
def test_what_is_no_list_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"no list|ascend"):
        words.parsed(text)


@given(st.lists(sets, min_size=1, max_size=5))
def test_each_node_has_as_many_cores_as_threads_and_only_those_that_are_the_jobs(cores: list[int]) -> None:
    nodes = [f"n{number}" for number in range(len(cores))]
    everywhere, by_node = core_lists(nodes, cores)
    fewest = min(bits.bit_count() for bits in cores)
    message = wire.Workers(order=1, count=fewest, core_ids=everywhere, core_ids_of=by_node)
    read = wire.decode_to_job(wire.encode(message))
    assert isinstance(read, wire.Workers)
    found = words.read(read.core_ids, read.core_ids_of, bind=False)
    assert found is not None
    assert words.from_environment({words.ENV_CORE_IDS: words.text(everywhere, by_node)}) == found
    for node, bits in zip(nodes, cores, strict=True):
        assert len(found.on(node)) >= fewest
        assert set(found.on(node)) <= set(ids(bits))


def test_a_message_is_never_too_long() -> None:
    nodes = [f"a-node-of-many-{number}" for number in range(5000)]
    uneven = [(1 << 64) // 3 << number % 2 for number in range(5000)]
    assert core_lists(nodes, uneven) == NO_LISTS
    some = core_lists(nodes[:200], uneven[:200])
    assert sorted(some[1]) == sorted(nodes[:200])
    assert len(wire.encode(wire.Workers(1, 32, *some))) < MOST_CHARACTERS + 200
    assert core_lists(nodes, [6] * 5000) == ("1-2", {})
