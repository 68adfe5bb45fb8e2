"""Heat flows over a plate whose rows are spread over places that come and go. `mpiexec -n 2 python stencil.py`."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

import apgas
from apgas import Place, PlaceLocal, async_at, at, finish, places

Rows = NDArray[np.float64]
Part = tuple[Place, int, int]  # a place, its first row, and the row after its last
HEIGHT, WIDTH, STEPS = 60, 80, 200


class Slab:
    """What one place holds: some rows of the plate, and its neighbours' rows beside them."""

    def __init__(self) -> None:
        self.first = 0
        self.rows: Rows = np.zeros((0, WIDTH))
        self.above: Rows = np.zeros(WIDTH)
        self.below: Rows = np.zeros(WIDTH)
        self.arrived: list[tuple[int, Rows]] = []


def relaxed(above: Rows, rows: Rows, below: Rows) -> Rows:
    """One Jacobi step: every inner cell becomes the mean of its four neighbours."""
    padded = np.vstack([above, rows, below])
    new = rows.copy()
    new[:, 1:-1] = (padded[:-2, 1:-1] + padded[2:, 1:-1] + rows[:, :-2] + rows[:, 2:]) / 4
    return new


# on the places that hold the plate -----------------------------------------------------------------------------------


def show_borders(slab: PlaceLocal[Slab], upper: Place | None, lower: Place | None) -> None:
    rows = slab.get().rows
    if upper is not None:
        async_at(upper, take_border, slab, "below", rows[0])
    if lower is not None:
        async_at(lower, take_border, slab, "above", rows[-1])


def take_border(slab: PlaceLocal[Slab], side: str, row: Rows) -> None:
    setattr(slab.get(), side, row)


def relax(slab: PlaceLocal[Slab], top: bool, bottom: bool) -> None:
    mine = slab.get()
    hot, cold = np.ones(WIDTH), np.zeros(WIDTH)
    mine.rows = relaxed(hot if top else mine.above, mine.rows, cold if bottom else mine.below)


def hand_out(slab: PlaceLocal[Slab], parts: list[Part]) -> None:
    """Send every new owner those of our rows that it gets."""
    mine = slab.get()
    last = mine.first + len(mine.rows)
    for place, first, end in parts:
        low, high = max(first, mine.first), min(end, last)
        if low < high:
            async_at(place, take_rows, slab, low, mine.rows[low - mine.first : high - mine.first])


def take_rows(slab: PlaceLocal[Slab], first: int, rows: Rows) -> None:
    slab.get().arrived.append((first, rows))


def put_together(slab: PlaceLocal[Slab]) -> None:
    mine = slab.get()
    mine.arrived.sort(key=lambda piece: piece[0])
    mine.first = mine.arrived[0][0]
    mine.rows = np.vstack([rows for _, rows in mine.arrived])
    mine.arrived.clear()


def rows_of(slab: PlaceLocal[Slab]) -> Rows:
    return slab.get().rows


# on place 0 ----------------------------------------------------------------------------------------------------------


class Plate:
    """Knows who holds which rows, and moves them when that changes."""

    def __init__(self) -> None:
        self.slab = PlaceLocal(Slab)
        self.slab.get().rows = np.zeros((HEIGHT, WIDTH))
        self.parts: list[Part] = [(apgas.here(), 0, HEIGHT)]

    def spread(self, over: list[Place]) -> None:
        """Divide the rows evenly over some places."""
        cuts = [HEIGHT * i // len(over) for i in range(len(over) + 1)]
        new = list(zip(over, cuts, cuts[1:], strict=False))
        with finish():
            for place, _, _ in self.parts:
                async_at(place, hand_out, self.slab, new)
        with finish():
            for place, _, _ in new:
                async_at(place, put_together, self.slab)
        self.parts = new

    def step(self) -> None:
        """Let the heat flow once; no row may move meanwhile, so it does before if a handler wants it."""
        apgas.safe_point()
        holders = [place for place, _, _ in self.parts]
        with finish():
            for place, upper, lower in zip(holders, [None, *holders], [*holders[1:], None], strict=False):
                async_at(place, show_borders, self.slab, upper, lower)
        with finish():
            for place in holders:
                async_at(place, relax, self.slab, place == holders[0], place == holders[-1])


class Handler(apgas.MalleableHandler):
    """Moves rows off those who leave, and gives some to those who come."""

    def __init__(self, plate: Plate) -> None:
        self.plate = plate

    def preShrink(self, nb_places: int) -> Sequence[Place]:
        now = places()
        apgas.at_safe_point(self.plate.spread, now[:-nb_places])
        return now[-nb_places:]

    def postShrink(self, nb_places: int, removed_places: Sequence[Place]) -> None:
        print(f"without {[place.id for place in removed_places]}", flush=True)

    def shrinkAborted(self, places: Sequence[Place]) -> None:
        apgas.at_safe_point(self.plate.spread, apgas.places())

    def preGrow(self, nb_places: int) -> None:
        pass

    def postGrow(self, nb_places: int, continued_places: Sequence[Place], new_places: Sequence[Place]) -> None:
        apgas.at_safe_point(self.plate.spread, [*continued_places, *new_places])
        print(f"with {[place.id for place in new_places]}", flush=True)


def main() -> None:
    plate = Plate()
    plate.spread(places())
    apgas.define_malleable_handler(Handler(plate))
    apgas.schedule_orders("0.1:+2,0.6:-1")  # a batch scheduler would send these
    steps = 0
    while steps < STEPS or len(apgas.resizes()) < 2:
        plate.step()
        steps += 1
    here = np.zeros((HEIGHT, WIDTH))
    for _ in range(steps):
        here = relaxed(np.ones(WIDTH), here, np.zeros(WIDTH))
    spread = np.vstack([at(place, rows_of, plate.slab) for place, _, _ in plate.parts])
    print(f"{len(plate.parts)} places found what one finds: {np.array_equal(spread, here)}", flush=True)


if __name__ == "__main__":
    apgas.run(main)
