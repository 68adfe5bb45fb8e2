"""Every place throws darts at a quarter circle; place 0 adds up. `mpiexec -n 4 python estimate.py`."""

import random

import apgas


def hits(samples: int, seed: int) -> int:
    """Counts the darts that fall within the circle; runs on each place."""
    rng = random.Random(seed)
    return sum(rng.random() ** 2 + rng.random() ** 2 < 1 for _ in range(samples))


def main() -> None:
    """Asks every place for a value and waits for all of them."""
    samples = 200_000
    answers = [apgas.async_at(place, hits, samples, place.id) for place in apgas.places()]
    total = sum(answer.result() for answer in answers)
    print(f"pi is about {4 * total / (samples * len(answers)):.2f}, from {len(answers)} places", flush=True)


if __name__ == "__main__":
    apgas.run(main)
