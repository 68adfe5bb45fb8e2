"""(place 0) How processes for further places are started through MPI, admitted to the job, or sent home."""

from __future__ import annotations

import os
import pickle
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Final

from apgas.core.messages import PlaceInfo
from apgas.errors import ApgasError
from apgas.runtime import arrival, environment, library, lifetime, logs, main_module, mpis, orphans, outputs, resilience
from apgas.runtime.lifetime import Admission, Identity, all_listening

_NEWCOMER = (
    "import os, sys; sys.path.insert(0, {path!r}); os.environ.update({chosen!r}); "
    "from apgas.runtime.newcomer import main; main()"
)
"""MPI does not hand on what the program has changed in its environment; what MPI reads itself comes with it, the rest
before the newcomer reports."""

_READ_BY_MPI: Final = ("MPIR_CVAR_", "MPICH_", "FI_", "UCX_", "OMPI_MCA_")
"""How variables begin that are read when MPI is initialised."""

_LASTING_BYTES: Final = 4096
"""MPICH loses a last message of less than some 500 bytes if its sender disconnects, as we do, before it is received."""

_lock = threading.Lock()
_under_way = 0
"""How many calls of ``spawn_places`` have not returned: they are within MPI, or about to be."""


def under_way() -> bool:
    """Whether new processes are waited for: MPI cannot be left then, and they may never come."""
    return _under_way > 0


@contextmanager
def _staying() -> Iterator[None]:
    global _under_way  # noqa: PLW0603 - the process is in MPI or not
    with _lock:
        _under_way += 1
    try:
        yield
    finally:
        with _lock:
            _under_way -= 1


def spawn_places(
    nodes: tuple[str, ...],
    token: bytes,
    towards: str,
    setup: Callable[[], object] | None,
    admit: Callable[[list[PlaceInfo]], Identity],
    note: Callable[[str], None],
    bridge: Callable[[tuple[int, ...], Any], None] | None = None,
) -> tuple[PlaceInfo, ...]:
    """Spawn a place per name in ``nodes`` (this machine where empty); ``admit`` gives them ids and names the members.

    One spawn per node, for MPICH honours the node's name only there; the worlds come up while the next is spawned.
    ``towards`` is an address of ours that they must reach and be reached from; empty: all are on this machine.
    ``setup`` is what they run before they report, if the program has it: if it fails, so does the spawn.
    ``note`` is told when the processes are up ("spawn") and when they know their job ("join"). ``bridge``, on the mpi
    plane, takes the communicator that this place shares with each spawned world, with its ids.

    Raises:
        ApgasError: MPI could not spawn them, or nobody could reach them; those that were spawned end.
    """
    if library.loaded_too_early():
        raise ApgasError(
            "mpi4py.MPI was imported before apgas.run, so MPI was loaded without what growing needs: import it in main"
        )
    if not library.kind().resizes:
        raise ApgasError(f"a job cannot grow under {library.kind().name}; MPICH and Open MPI can: malleable doctor")
    _refuse_unreachable(nodes)
    changed = environment.changes(os.environ, environment.at_start())
    outfit = arrival.Outfit(changed, main_module.belongings(setup), setup is not None)
    with _staying():
        worlds = _Worlds()
        try:
            for name in dict.fromkeys(nodes):
                worlds.start(name, nodes.count(name), (token, towards, outfit))
            note("spawn")
            identity = admit(list(all_listening(worlds.reports())))
            added = identity.members[-len(nodes) :]
            worlds.admit(identity, added, bridge)
        except BaseException:
            worlds.send_home()
            raise
    if library.kind() is mpis.OPEN_MPI:
        here = [info.pid for info in added if info.node == environment.node_name()]
        lifetime.wards.add(here, orphans.MOMENT_S if lifetime.under_openmpi() else 0.0)
    note("join")
    return added


class _Worlds:
    """The spawned worlds; each is answered once, after it has reported: until then it waits for us."""

    def __init__(self) -> None:
        self._unheard: list[Any] = []
        self._heard: list[tuple[Any, list[arrival.Told | str]]] = []

    def start(self, node: str, count: int, words: tuple[bytes, str, arrival.Outfit]) -> None:
        """Start ``count`` processes on ``node``, and tell them what they need to report."""
        world = _spawn(node, count, words[-1].environ)
        _greet(world, node, words)
        self._unheard.append(world)

    def reports(self) -> list[arrival.Told | str]:
        """Wait for what all of them report, in the order of their start."""
        while self._unheard:
            self._heard.append((self._unheard[0], self._unheard[0].recv(source=0, tag=0)))
            del self._unheard[0]
        return [told for _, group in self._heard for told in group]

    def admit(
        self,
        identity: Identity,
        added: tuple[PlaceInfo, ...],
        bridge: Callable[[tuple[int, ...], Any], None] | None,
    ) -> None:
        """Tell all who they are: ``added``, in the order of their reports."""
        saying = logs.settings(), outputs.wanted()
        ids = iter([info.place for info in added])
        while self._heard:
            world, group = self._heard.pop(0)
            places = tuple(islice(ids, len(group)))
            admission = Admission(places, identity.members, identity.epoch, *saying)
            _answer(world, admission, partial(bridge, places) if bridge is not None else None)

    def send_home(self) -> None:
        """Let those end that have no answer yet."""
        with suppress(Exception):  # MPI has no way to them any more; what happened before is told
            self.reports()
        for world, _ in self._heard:
            with suppress(Exception):  # it is gone, or MPI has no way to it
                _answer(world, None)


def _spawn(node: str, count: int, changed: Mapping[str, str | None]) -> Any:
    mpi, kind = library.load(), library.kind()
    info = mpi.Info.Create()
    if node:
        info.Set("host", node)
    info.Set("wdir", str(Path.cwd()))
    for hint, value in kind.spawning.items():
        info.Set(hint, value)
    chosen = {
        environment.ENV_TRANSPORT: environment.transport(),
        resilience.ENV_RESILIENT: str(int(resilience.wanted())),
    }
    chosen |= {name: value for name, value in changed.items() if value is not None and name.startswith(_READ_BY_MPI)}
    program = _NEWCOMER.format(path=str(Path(__file__).parents[2]), chosen=chosen)
    command, args = resilience.shielded(sys.executable, ["-c", program])
    try:
        with environment.shielded_from_interrupt():
            return mpi.COMM_SELF.Spawn(command, args, maxprocs=count, info=info)
    except mpi.Exception as error:
        where = f"{node} ({kind.name} can on {kind.hosts})" if node else "this host"
        raise ApgasError(f"MPI could not spawn {count} places on {where}: {error}") from error
    finally:
        info.Free()


def _refuse_unreachable(nodes: tuple[str, ...]) -> None:
    """Open MPI finds a way from a place to another host at most once, and may crash when it is finalized after that.

    Raises:
        ApgasError: The job cannot grow there.
    """
    elsewhere = sorted(set(nodes) - {"", environment.node_name()})
    if library.kind() is mpis.OPEN_MPI and elsewhere:
        raise ApgasError(f"under Open MPI a job grows on the host of place 0 only, not on {', '.join(elsewhere)}")


def _greet(world: Any, node: str, words: tuple[bytes, str, arrival.Outfit]) -> None:
    """Tell a spawned world what it needs to report; it ends if it cannot hear us.

    Raises:
        ApgasError: MPI has no way to it.
    """
    mpi = library.load()
    try:
        world.bcast(words, root=mpi.ROOT)
    except mpi.Exception as error:
        where = node or "this host"
        raise ApgasError(f"{library.kind().name} started places on {where}, and cannot reach them: {error}") from error


def _answer(world: Any, admission: Admission | None, bridge: Callable[[Any], None] | None = None) -> None:
    """Give a spawned world its admission, or send it home with None; but for ``bridge``, MPI has done its work."""
    body = b"" if admission is None else pickle.dumps(admission)
    # the newcomers read the body when they have loaded what it is made of
    world.bcast((body, bytes(_LASTING_BYTES)), root=library.load().ROOT)
    if bridge is not None:
        bridge(world.Merge(high=False))
    world.Disconnect()
