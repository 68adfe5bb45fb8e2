"""EASY backfilling as a bare loop over an SWF file: what a simulator that does nothing else takes, in plain Python.

``python -m benchmarks.simulator.bare FILE NODES`` prints the mean wait, in seconds. It reads four fields of each record
and checks nothing; jobs are sorted, and ask for as many nodes as there are, or fewer.
"""

from __future__ import annotations

import sys
from bisect import insort
from heapq import heappop, heappush


def read(file: str) -> list[tuple[float, float, int, float]]:
    """When each job is submitted, how long it runs, its nodes and its walltime, which is no shorter than it runs."""
    jobs = []
    with open(file, encoding="utf-8") as lines:  # noqa: PTH123 - pathlib takes as long to load as the loop to run
        for line in lines:
            if line[0] != ";":
                fields = line.split()
                run_s = float(fields[3])
                jobs.append((float(fields[1]), run_s, int(fields[7]), max(float(fields[8]), run_s)))
    return jobs


def easy(jobs: list[tuple[float, float, int, float]], nodes: int) -> list[float]:
    """The time at which each job starts."""
    starts = [0.0] * len(jobs)
    free, following = nodes, 0
    waiting: list[int] = []
    ends: list[tuple[float, int]] = []  # a heap
    expected: list[tuple[float, int]] = []  # by walltime, sorted, with the job

    def start(job: int, now: float) -> None:
        nonlocal free
        _, run_s, size, walltime_s = jobs[job]
        starts[job] = now
        free -= size
        heappush(ends, (now + run_s, job))
        insort(expected, (now + walltime_s, job))

    while following < len(jobs) or ends:
        now = min([entry[0] for entry in ends[:1]] + [job[0] for job in jobs[following : following + 1]])
        while ends and ends[0][0] == now:
            _, job = heappop(ends)
            free += jobs[job][2]
            expected.remove((starts[job] + jobs[job][3], job))
        while following < len(jobs) and jobs[following][0] == now:
            waiting.append(following)
            following += 1
        while waiting and jobs[waiting[0]][2] <= free:
            start(waiting.pop(0), now)
        if not waiting or not free:
            continue
        spare, reserved_s = free - jobs[waiting[0]][2], now
        for end_s, job in expected:
            if spare >= 0 and end_s > reserved_s:
                break
            spare, reserved_s = spare + jobs[job][2], end_s
        left = waiting[:1]
        for job in waiting[1:]:
            _, _, size, walltime_s = jobs[job]
            in_time = now + walltime_s <= reserved_s
            if size <= free and (in_time or size <= spare):
                spare -= 0 if in_time else size
                start(job, now)
            else:
                left.append(job)
        waiting = left
    return starts


if __name__ == "__main__":
    found = read(sys.argv[1])
    waits = [at_s - job[0] for at_s, job in zip(easy(found, int(sys.argv[2])), found, strict=True)]
    print(sum(waits) / len(waits))  # noqa: T201 - its output is compared
