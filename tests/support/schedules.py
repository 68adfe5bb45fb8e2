"""Whatever may befall a bag that counts: it is processed, split, merged and shipped in any order."""

from __future__ import annotations

import pickle
from typing import Any, Final, TypeAlias

from hypothesis import strategies as st

from benchmarks.levelbag import Count, LevelBag

Step: TypeAlias = tuple[str, int, int]
STEPS: Final = st.lists(
    st.tuples(
        st.sampled_from(["process", "split", "split all", "merge", "ship"]), st.integers(0, 50), st.integers(1, 3000)
    ),
    max_size=60,
)


def counted(first: LevelBag[Any], steps: list[Step]) -> Count:
    """Carries the steps out, processes what is left, and folds the results of all bags."""
    bags = [first]
    for action, index, amount in steps:
        place = index % len(bags)
        bag = bags[place]
        match action:
            case "process":
                assert bag.process(amount) is not bag.is_empty()
            case "split" | "split all":
                held = len(bag)
                part = bag.split(action == "split all")
                if part is not None:
                    assert len(bag) + len(part) == held
                    bags.append(part)
            case "merge" if len(bags) > 1:
                bags.pop(place)
                bags[amount % len(bags)].merge(bag)
            case "ship":
                bags[place] = pickle.loads(pickle.dumps(bag, protocol=5))
            case _:
                assert action == "merge"
    result = Count()
    for bag in bags:
        while bag.process(5000):
            pass
        bag.submit(result)
    return result
