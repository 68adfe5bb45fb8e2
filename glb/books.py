"""Place 0's books in a folder that outlives it: with what a program goes on that is started again.

``apgas.launch`` names the folder (``APGAS_BOOKS``), and starts the program of a resilient job again, or has its
scheduler do so, when its place 0 was killed. A file there is one computation, by its number in the program: its books
as they were at one moment, later its outcome. A file is written beside its place and then put there, so it is whole at
any time; it is not forced to the disk, for the machine goes on when a process dies.
"""

from __future__ import annotations

import hashlib
import logging
import os
import pickle
import stat
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from apgas.runtime import resilience
from glb.bag import Bag, Result
from glb.core.backup import Books
from glb.errors import GlbError
from glb.statistics import tasks_in

MOST_KEEPING: Final = 0.005
"""The share of the time that may go into keeping the books."""

_log = logging.getLogger("glb")


class Archive:
    """The books of a program's computations, in a folder that is made if there is none.

    Raises:
        GlbError: Others could write there what this program would execute.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
            found = folder.lstat()
        except OSError as error:
            raise GlbError(f"no books can be kept in {folder}: {error.strerror}") from None
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
            raise GlbError(f"no books can be kept in {folder}: it is to be a folder that only you can enter")

    def find(self, number: int, mark: tuple[str, ...]) -> Any:
        """Return what is known of a computation: its books, its outcome, or None; it is what ``mark_of`` says.

        Raises:
            GlbError: It is another one, or cannot be read.
        """
        path = self._folder / str(number)
        try:
            known, found = pickle.loads(path.read_bytes())
        except FileNotFoundError:
            return None
        except Exception as error:
            raise GlbError(f"what is known of computation {number} cannot be read from {path}: {error!r}") from error
        if known != mark:
            raise GlbError(
                f"computation {number} cannot go on: it was {_named(known)} and is {_named(mark)} now; up to its "
                "computations a program that is started again has to do the same as before"
            )
        return found

    def keep(self, number: int, mark: tuple[str, ...], what: object) -> None:
        """Keep the books of a computation, or its outcome, in the place of what was kept before.

        If that is impossible, what was kept before stays: the program would go on from there.
        """
        path = self._folder / str(number)
        try:
            path.with_suffix(".new").write_bytes(pickled((mark, what)))
            path.with_suffix(".new").replace(path)
        except OSError as error:
            _log.warning("the books of computation %d cannot be kept in %s: %s", number, path, error.strerror)
            return
        done = (number, what.tasks) if isinstance(what, Books) else (number + 1, 0)
        resilience.kept(*done)


@contextmanager
def kept(
    archive: Archive, number: int, mark: tuple[str, ...], books: Callable[[], Books | None], every_s: float
) -> Iterator[None]:
    """Within the block, keep the ``books`` of a computation every ``every_s``, if that takes little, in a thread."""
    over = threading.Event()

    def keep() -> None:
        pause_s = 0.0
        while not over.wait(pause_s):
            began = time.thread_time()
            if (found := books()) is not None:
                archive.keep(number, mark, found)
            pause_s = max(every_s, (time.thread_time() - began) / MOST_KEEPING)

    thread = threading.Thread(target=keep, name="glb-books", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def archive_of_job() -> Archive | None:
    """Return where the books of this program are; None if it is not started again when place 0 dies.

    Raises:
        GlbError: They cannot be there.
    """
    folder = resilience.books_folder()
    if not folder:
        return None
    resilience.kept(0)  # from here on; without any books it would begin anew
    return Archive(Path(folder))


def mark_of(bag: Bag[Any], result: Result) -> tuple[str, ...]:
    """Return by what a computation is recognised: its classes, the number of tasks, and a digest of them."""
    digest = ""
    with suppress(pickle.PicklingError, AttributeError, TypeError):  # it has no name elsewhere
        digest = hashlib.sha256(pickle.dumps(bag, protocol=5)).hexdigest()[:16]
    return (type(bag).__qualname__, type(result).__qualname__, str(tasks_in(bag)), digest)


def pickled(what: object) -> bytes:
    """Pickle something of the program, by name where it has one: the program that reads it has the same names."""
    try:
        return pickle.dumps(what, protocol=5)
    except (pickle.PicklingError, AttributeError, TypeError):
        from apgas.runtime import by_value

        return by_value.dumps(what)


def _named(mark: tuple[str, ...]) -> str:
    bag, result, tasks, digest = mark
    return f"{bag} of {tasks} tasks ({digest or 'without a digest'}) with {result}"
