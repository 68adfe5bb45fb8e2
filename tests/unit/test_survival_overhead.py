"""What is said of pairs of CPU times: the mean and the median, with intervals."""

from __future__ import annotations

import math
import statistics
import sys

import pytest

from benchmarks.survival.__main__ import main
from benchmarks.survival.overhead import beside_others, outside_median


@pytest.mark.parametrize("count", [6, 7, 20, 21, 100])
def test_the_median_is_between_the_others_in_95_of_100_samples_and_hardly_more(count: int) -> None:
    def held(left_out: int) -> float:
        """The probability that no more than that number of values are on one side of it."""
        return 1 - 2 * sum(math.comb(count, below) for below in range(left_out + 1)) / (1 << count)

    assert held(outside_median(count)) >= 0.95 > held(outside_median(count) + 1)


def test_pairs_are_compared_one_by_one() -> None:
    more = [1.0, 2.0, 3.0, 3.0, 5.0, 6.0]
    pairs = [((100 + percent) * scale, 100 * scale) for percent, scale in zip(more, (1, 2, 4, 8, 16, 32), strict=True)]
    reach = 2.5706 * statistics.stdev(more) / math.sqrt(6)  # Student's t with 5 degrees of freedom
    assert beside_others(pairs) == f"+3.33 % ± {reach:.2f}, +3.00 (+1.00 to +6.00)"


def test_without_matplotlib_the_command_says_so_before_it_measures(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith(("matplotlib", "scheduler_bridge"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(SystemExit, match=r"the package matplotlib[.\w]* is missing"):
        main(["--overhead", "6"])
