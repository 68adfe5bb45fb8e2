"""Counts primes in parts, on places that come and go: plain `python sweep.py`, with mpiexec, or as a job."""

from apgas.futures import MalleableExecutor


def primes(start: int) -> int:
    return sum(all(number % d for d in range(2, int(number**0.5) + 1)) for number in range(max(2, start), start + 500))


if __name__ == "__main__":
    with MalleableExecutor(places=2) as executor:
        print(sum(executor.map(primes, range(0, 100_000, 500))), "primes below 100,000")
