"""A small bag whose result shows every lost and every doubled task; programs of places find it by PYTHONPATH."""

from __future__ import annotations

from collections import Counter


class Total:
    """Which tasks were done, and how often."""

    def __init__(self) -> None:
        self.done: Counter[int] = Counter()

    def merge(self, other: Total) -> None:
        """Add ``other``'s tasks."""
        self.done.update(other.done)


class Numbers:
    """A tree of numbered tasks: task t has the children that ``children(t)`` lists, and the result names every task.

    Args:
        tasks: The first tasks.
        limit: Task t has the children 2t and 2t+1 as far as they are below ``limit``; so ``Numbers([1], limit)`` does
            every number from 1 to ``limit`` - 1 exactly once.
    """

    def __init__(self, tasks: list[int], limit: int = 0) -> None:
        self.work = 0
        self.tasks = tasks
        self.limit = limit
        self.done: Counter[int] = Counter()

    def __len__(self) -> int:
        return len(self.tasks)

    def children(self, task: int) -> list[int]:
        """Return the tasks that ``task`` brings forth."""
        return [child for child in (2 * task, 2 * task + 1) if child < self.limit]

    def process(self, n: int) -> bool:
        """Do up to ``n`` tasks."""
        for _ in range(min(n, len(self.tasks))):
            task = self.tasks.pop()
            self.done[task] += 1
            self.work += 1
            self.tasks += self.children(task)
        return bool(self.tasks)

    def split(self, all: bool) -> Numbers | None:
        """Give the older half away, or everything."""
        count = len(self.tasks) if all else len(self.tasks) // 2
        if not count:
            return None
        given, self.tasks = self.tasks[:count], self.tasks[count:]
        return type(self)(given, self.limit)

    def merge(self, other: Numbers) -> None:
        """Take the tasks and the partial result of ``other``."""
        self.tasks = other.tasks + self.tasks
        self.done.update(other.done)
        other.tasks, other.done = [], Counter()

    def is_empty(self) -> bool:
        """Return whether no task is left."""
        return not self.tasks

    def is_splittable(self) -> bool:
        """Return whether there are two tasks at least."""
        return len(self.tasks) > 1

    def submit(self, result: Total) -> None:
        """Fold the tasks done so far into ``result``."""
        if self.done:
            result.done.update(self.done)
            self.done = Counter()
