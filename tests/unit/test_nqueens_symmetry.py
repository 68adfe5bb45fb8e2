"""The searched image of a solution, against all solutions turned and mirrored one by one."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import pytest

from benchmarks.nqueens.bag import known_solutions
from benchmarks.nqueens.scalar import CORNER, PARTS, TIES_SHIFT, TURN_SHIFT, WEIGHTS, rules, starts


def solutions(size: int, columns: tuple[int, ...] = ()) -> list[tuple[int, ...]]:
    row = len(columns)
    if row == size:
        return [columns]
    return [
        found
        for column in range(size)
        if all(column != other and abs(column - other) != row - above for above, other in enumerate(columns))
        for found in solutions(size, (*columns, column))
    ]


def images(solution: tuple[int, ...]) -> list[tuple[int, ...]]:
    found = []
    for _ in range(4):
        solution = tuple(solution[::-1].index(row) for row in range(len(solution)))  # a quarter turn
        found += [solution, solution[::-1]]
    return found


def is_searched(solution: tuple[int, ...]) -> bool:
    size = len(solution)
    if solution[0] == 0:
        return solution[1] < solution.index(1)
    edges = solution[0], solution[-1], solution.index(0), solution.index(size - 1)
    distances = [min(edge, size - 1 - edge) for edge in edges]
    return solution[0] == min(distances) > 0


@pytest.mark.parametrize("size", [4, 5, 6, 7, 8, 9])
def test_the_searched_images_of_a_solution_count_as_many_as_it_has(size: int) -> None:
    everything = solutions(size)
    assert len(everything) == known_solutions(size)
    for solution in everything:
        orbit = set(images(solution))
        assert len(images(solution)) == 8
        total = Fraction(0)
        for image in orbit:
            if is_searched(image):
                alike = 1 if image[0] == 0 else sum(is_searched(other) for other in images(image))
                total += Fraction(WEIGHTS[alike - 1], PARTS)
        assert total == len(orbit)


@pytest.mark.parametrize("size", [4, 5, 8, 13, 25])
def test_the_search_begins_in_the_left_half_and_in_the_corner(size: int) -> None:
    roots = starts(size)
    first = [placement for rows, placement in roots if rows == size - 1]
    corner = [placement for rows, placement in roots if rows == size - 2]
    assert len(first) + len(corner) == len(roots)
    assert Counter(word >> TURN_SHIFT for word, *_ in first) <= Counter(range(1, size // 2))
    assert Counter(word >> TURN_SHIFT for word, *_ in corner) <= Counter(range(2, size))
    assert {(word >> TIES_SHIFT) & 3 for word, *_ in first} <= {0}
    assert {(word >> TIES_SHIFT) & 3 for word, *_ in corner} <= {CORNER}
    assert all(0 < free < 1 << size and not free & word for _, (word, _, _, free) in roots)


def test_rules_fit_the_words_of_placements() -> None:
    assert rules(25)[1:, 3].max() < 1 << 24 << 1
    assert rules(8).shape == (9, 8)


def test_more_ties_count_less() -> None:
    assert [Fraction(weight, PARTS) for weight in WEIGHTS] == [Fraction(8, images) for images in (1, 2, 3, 4)]
