"""One experiment at a time in a folder, and nothing left of one that was killed."""

from __future__ import annotations

import fcntl
import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from scheduler_bridge.experiments.own_runs.site import HERE, Site
from scheduler_bridge.live import DaemonConfig, DaemonError
from scheduler_bridge.live.config import numbered_nodes

_LOCK: Final = "lock"
_RUNNING: Final = "running.json"
"""Where a run that is going on has its scratch folder, so that what is left of it is found if it is killed."""


@contextmanager
def alone_in(folder: Path, site: Site = HERE) -> Iterator[None]:
    """Keep other experiments out of ``folder``; end first what a killed one has left running, and remove its files.

    Raises:
        DaemonError: Another one runs there.
        OSError: The folder cannot be written.
    """
    with (folder / _LOCK).open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            hint = "wait for its end, or give another --out"
            raise DaemonError(f"another experiment runs in {folder}", hint) from None
        _end_remains(folder, site)
        yield


@contextmanager
def scratch_in(folder: Path, nodes: int, site: Site = HERE) -> Iterator[Path]:
    """Make a folder for the run of a batch on so many nodes; it is removed afterwards."""
    note = folder / _RUNNING
    with tempfile.TemporaryDirectory(prefix="malleable-runs-", dir=site.scratch_parent(folder)) as name:
        note.write_text(json.dumps({"scratch": name, "nodes": nodes}), encoding="utf-8")
        try:
            yield Path(name)
        finally:
            note.unlink(missing_ok=True)


def state_of(scratch: Path) -> Path:
    """The state folder of a run's scheduler."""
    return scratch / "state"


def _end_remains(folder: Path, site: Site) -> None:
    note = folder / _RUNNING
    try:
        left: dict[str, Any] = json.loads(note.read_bytes())
        scratch, nodes = Path(left["scratch"]), int(left["nodes"])
    except (OSError, ValueError, KeyError, TypeError):
        note.unlink(missing_ok=True)
        return
    if state_of(scratch).is_dir():
        # A scheduler that takes the killed one's state up finds its jobs, and ends them when it is stopped.
        with (
            suppress(DaemonError),  # as far as one can start there
            site.serving(nodes, DaemonConfig(numbered_nodes(nodes), state_of(scratch))),
        ):
            pass
    shutil.rmtree(scratch, ignore_errors=True)
    note.unlink(missing_ok=True)
