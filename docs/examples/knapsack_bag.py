"""The knapsack problem with a bag of its own: `mpiexec -n 4 python docs/examples/knapsack_bag.py`."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import NamedTuple

import apgas
import glb


@dataclass(frozen=True)
class Problem:
    values: tuple[int, ...]  # the most valuable by weight first
    weights: tuple[int, ...]
    capacity: int


def problem(items: int, seed: int) -> Problem:
    rng = Random(seed)
    weights = [rng.randint(1000, 2000) for _ in range(items)]
    pairs = sorted(((weight + rng.randint(90, 110), weight) for weight in weights), key=lambda pair: -pair[0] / pair[1])
    return Problem(tuple(value for value, _ in pairs), tuple(weight for _, weight in pairs), sum(weights) // 2)


class Choice(NamedTuple):
    """A task: the first `decided` items are taken or left, the others are open."""

    decided: int
    value: int
    room: int


class Best:
    def __init__(self) -> None:
        self.value = 0

    def merge(self, other: Best) -> None:
        self.value = max(self.value, other.value)


class Knapsack:
    def __init__(self, problem: Problem, choices: list[Choice], best: int = 0) -> None:
        self.work = 0
        self.problem = problem
        self.choices = choices
        self.best = best  # the partial result, and the bound

    def process(self, n: int) -> bool:
        for _ in range(n):
            if not self.choices:
                return False
            self.branch(self.choices.pop())
            self.work += 1
        return bool(self.choices)

    def branch(self, choice: Choice) -> None:
        self.best = max(self.best, choice.value)
        if self.promise(choice) <= self.best:
            return
        decided, value, room = choice
        self.choices.append(Choice(decided + 1, value, room))
        if self.problem.weights[decided] <= room:
            taken = Choice(decided + 1, value + self.problem.values[decided], room - self.problem.weights[decided])
            self.choices.append(taken)

    def promise(self, choice: Choice) -> int:
        """No completion of `choice` is worth more: fill the room with the best items, and a part of the next."""
        decided, value, room = choice
        values, weights = self.problem.values, self.problem.weights
        for item in range(decided, len(weights)):
            if weights[item] > room:
                return value + values[item] * room // weights[item]
            value += values[item]
            room -= weights[item]
        return value

    def split(self, all: bool) -> Knapsack | None:
        count = len(self.choices) if all else len(self.choices) // 2
        if not count:
            return None
        given, self.choices = self.choices[:count], self.choices[count:]
        return Knapsack(self.problem, given, self.best)

    def merge(self, other: Knapsack) -> None:
        self.choices = other.choices + self.choices
        self.best = max(self.best, other.best)
        other.choices = []

    def is_empty(self) -> bool:
        return not self.choices

    def is_splittable(self) -> bool:
        return len(self.choices) > 1

    def __len__(self) -> int:
        return len(self.choices)

    def submit(self, result: Best) -> None:
        result.value = max(result.value, self.best)


def whole(problem: Problem) -> Knapsack:
    return Knapsack(problem, [Choice(0, 0, problem.capacity)])


def main() -> None:
    task = problem(items=30, seed=3)
    outcome = glb.compute(whole(task), Best, glb.Config(workers=1))
    print("best value:", outcome.result.value, "- places:", len(outcome.places))


if __name__ == "__main__":
    apgas.run(main)
