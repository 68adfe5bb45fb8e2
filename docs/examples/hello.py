"""Every place says hello: `mpiexec -n 4 python hello.py`, or plain `python hello.py`."""

import apgas
from apgas import async_at, finish, here, places


def main() -> None:
    with finish():  # waits for all that is spawned inside, wherever it runs
        for place in places():
            async_at(place, lambda: print("hello from", here()))


if __name__ == "__main__":
    apgas.run(main)  # place 0 runs main, the other places serve
