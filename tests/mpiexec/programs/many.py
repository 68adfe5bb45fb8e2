"""``many.py START MORE LESS``: grow from one place to START and by MORE, shrink by LESS, and compute all the time.

Prints what a place has of sockets and memory; "exact" if no task was lost or done twice, and if all places heard of the
last change of the members, by a tree.
"""

from __future__ import annotations

import sys
import threading
from collections import Counter
from functools import partial
from pathlib import Path

from numbered import Numbers, Total

import apgas
import glb
from apgas.core.effects import Effect, Send
from apgas.core.messages import Members, News
from apgas.core.place import PlaceCore
from apgas.core.relay import DEGREE
from apgas.runtime.driver import required_driver

LIMIT = 20_000
PATIENT = apgas.Deadlines(spawn_s=600, drain_s=600, release_s=600)


def count_news() -> None:
    """(every place) Count by epoch to how many others this place passes the news of it on."""
    original = PlaceCore._hear

    def hear(self: PlaceCore, src: int, news: News) -> list[Effect]:
        effects = original(self, src, news)
        if isinstance(news, Members):
            sends = [effect for effect in effects if isinstance(effect, Send) and effect.message is news]
            vars(self).setdefault("passed_on", {})[news.epoch] = len(sends)
        return effects

    PlaceCore._hear = hear  # type: ignore[method-assign]


def passed_on() -> dict[int, int]:
    """What this place has counted; it is kept where it is not pickled with the program's functions."""
    counts: dict[int, int] = vars(required_driver().core)["passed_on"]
    return counts


def sockets() -> tuple[int, int]:
    """How many sockets this place has, and its own memory in KiB."""
    links = [str(link.readlink()) for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    own_kib = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("RssAnon"))
    return sum(link.startswith("socket:") for link in links), own_kib


def compute(until: threading.Event) -> None:
    """Compute until then, and once more with the places that there are in the end."""
    while not until.is_set():
        compute_once()
    compute_once()


def compute_once() -> None:
    """Look at every number once."""
    outcome = glb.compute(Numbers([1], LIMIT), Total, glb.Config(workers=1, granularity=10, rate=2000))
    assert outcome.result.done == Counter(range(1, LIMIT))


def main() -> None:
    """Grow, shrink, say what it took."""
    start, more, less = map(int, sys.argv[1:])
    over = threading.Event()
    # glb registers its handler with the usual deadlines, within which a small machine does not start hundreds
    apgas.define_malleable_handler = partial(apgas.define_malleable_handler, deadlines=PATIENT)
    compute_once()  # it registers the handler
    apgas.schedule_orders(f"0:+{start - 1},0:+{more},0:-{less}")

    def look() -> None:
        while len(apgas.resizes()) < 3:
            over.wait(0.1)
        over.set()

    threading.Thread(target=look, daemon=True).start()
    compute(over)
    assert [record.outcome for record in apgas.resizes()] == ["done"] * 3, apgas.resizes()
    assert len(apgas.places()) == start + more - less
    places = apgas.places()
    counted = apgas.gather(passed_on)
    last = [counts[max(passed_on())] for counts in counted.values()]
    assert sum(last) == len(places) - 1 > DEGREE == last[0] == max(last), last
    with apgas.finish():
        found = {place: apgas.async_at(place, sockets) for place in places[1:]}
    counts = [future.result() for future in found.values()]
    most = max(count for count, _ in counts)
    mean_mib = sum(kib for _, kib in counts) / len(counts) / 1024
    print(f"{len(places)} places: at most {most} sockets and on average {mean_mib:.0f} MiB each; exact")


if __name__ == "__main__":
    apgas.run(main, setup=count_news)
