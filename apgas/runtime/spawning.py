"""(place 0) How a job gets more places: hosts are probed, processes spawned by MPI, then accepted or dismissed."""

from __future__ import annotations

import os
import pickle
import shlex
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias

import msgspec
from msgspec.structs import replace

from apgas.core.messages import PlaceInfo
from apgas.errors import ApgasError
from apgas.runtime import environment, forkserver, joining, launched, logs, main_module, process, resilience
from apgas.runtime.children import Child, accept, dismiss, report, start
from apgas.runtime.context import Scope
from apgas.runtime.driver import Driver
from apgas.runtime.probe import Probe
from apgas.runtime.process import JoinAnswer, all_listening
from apgas.transport.base import Address

AssignIds: TypeAlias = Callable[[list[PlaceInfo]], tuple[tuple[PlaceInfo, ...], int]]
"""Numbers newcomers; returns all members, them at the end, and the epoch in which they are members."""
AnswerTo: TypeAlias = Callable[[tuple[int, ...]], bytes]
"""What places that have been started together are answered; they read it when they have loaded the rest."""
Spawned: TypeAlias = tuple[tuple[PlaceInfo, ...], float]
"""Newcomers, and when their processes were up, on the monotonic clock."""
Bridge: TypeAlias = Callable[[tuple[int, ...], Any], None]
"""On the mpi plane, takes the communicator that this place shares with a spawned world, with its ids."""

Greeting: TypeAlias = tuple[bytes, str, joining.Inheritance]
"""What newcomers get first: the job's secret, an address of ours to reach, and be reached from, if not all are on this
machine, and what they take over."""

_NEWCOMER = (
    "import os, sys; sys.path.insert(0, {path!r}); os.environ.update({chosen!r}); "
    "from apgas.runtime.joining import main; main({by!r})"
)
"""MPI does not hand on what the program has changed in its environment; what MPI reads itself comes with it, the rest
before the newcomer reports."""

_READ_BY_MPI: Final = ("MPIR_CVAR_", "MPICH_", "FI_", "UCX_", "OMPI_MCA_")
"""How variables begin that are read when MPI is initialised."""

_LASTING_BYTES: Final = 4096
"""MPICH loses a last message of less than some 500 bytes if its sender disconnects, as we do, before it is received."""

_lock = threading.Lock()
under_way = 0
"""How many spawns have not returned: they are within MPI, which cannot be left then, or about to be."""


@contextmanager
def _staying() -> Iterator[None]:
    global under_way  # noqa: PLW0603 - the process is in MPI or not
    with _lock:
        under_way += 1
    try:
        yield
    finally:
        with _lock:
            under_way -= 1


class _Worlds:
    """The spawned worlds; each is answered once, after it has reported: until then it waits for us."""

    def __init__(self) -> None:
        self._unheard: list[Any] = []
        self._heard: list[tuple[Any, list[joining.PlaceReport | str]]] = []

    def start(self, node: str, count: int, words: Greeting) -> None:
        """Start ``count`` processes on ``node``, and send them what they need to report; they end if that fails."""
        world, mpi = _spawn(node, count, words[-1].environ), environment.load()
        try:
            world.bcast((words, b""), root=mpi.ROOT)
        except mpi.Exception as error:
            where, name = node or "this host", environment.kind().name
            raise ApgasError(f"{name} started places on {where}, and cannot reach them: {error}") from error
        self._unheard.append(world)

    def reports(self) -> list[joining.PlaceReport | str]:
        """Wait for what all of them report, in the order of their start."""
        while self._unheard:
            self._heard.append((self._unheard[0], self._unheard[0].recv(source=0, tag=0)))
            del self._unheard[0]
        return [report for _, group in self._heard for report in group]

    def accept(self, answer_to: AnswerTo, added: tuple[PlaceInfo, ...], bridge: Bridge | None) -> None:
        """Send all their ids: ``added``, in the order of their reports."""
        ids = iter([info.place for info in added])
        while self._heard:
            world, group = self._heard.pop(0)
            places = tuple(islice(ids, len(group)))
            _answer(world, answer_to(places), partial(bridge, places) if bridge is not None else None)

    def dismiss(self) -> None:
        """Let those end that have no answer yet."""
        with suppress(Exception):  # MPI has no way to them any more; the error before is raised
            self.reports()
        for world, _ in self._heard:
            with suppress(Exception):  # it is gone, or MPI has no way to it
                _answer(world, b"")


def _spawn(node: str, count: int, changed: Mapping[str, str | None]) -> Any:
    mpi, kind = environment.load(), environment.kind()
    info = mpi.Info.Create()
    if node:
        info.Set("host", node)
    info.Set("wdir", str(Path.cwd()))
    for hint, value in kind.spawning.items():
        info.Set(hint, value)
    chosen = _chosen()
    chosen |= {name: value for name, value in changed.items() if value is not None and name.startswith(_READ_BY_MPI)}
    program = _NEWCOMER.format(path=str(Path(__file__).parents[2]), chosen=chosen, by="mpi")
    command, args = resilience.shielded(sys.executable, ["-c", program])
    try:
        with environment.shielded_from_interrupt(), environment.with_mpiexec_apart(environment.launched_by(os.environ)):
            return mpi.COMM_SELF.Spawn(command, args, maxprocs=count, info=info)
    except mpi.Exception as error:
        where = f"{node} ({kind.name} can on {kind.hosts})" if node else "this host"
        raise ApgasError(f"MPI could not spawn {count} places on {where}: {error}") from error
    finally:
        info.Free()


def _chosen() -> dict[str, str]:
    """What holds for all places of the job."""
    return {
        environment.ENV_TRANSPORT: environment.transport(),
        resilience.ENV_RESILIENT: str(int(resilience.wanted())),
    }


def _answer(world: Any, answer: bytes, bridge: Callable[[Any], None] | None = None) -> None:
    """Give a spawned world its answer; empty: dismiss it. But for ``bridge``, MPI has done its work."""
    world.bcast((answer, bytes(_LASTING_BYTES)), root=environment.load().ROOT)
    if bridge is not None:
        bridge(world.Merge(high=False))
    world.Disconnect()


# Spawners, and the routes between newcomers and members --------------------------------------------------------------

SETTLED_S: Final = 10.0
"""How long a spawn waits for the communicator of the last resize."""


class Spawner(Protocol):
    """Starts further places of a running job."""

    def spawn(self, nodes: tuple[str, ...], assign_ids: AssignIds) -> Spawned:
        """Start a place per name in ``nodes`` (this machine where empty), ready to exchange frames; may take long.

        Args:
            nodes: Where; places on one node are next to each other in what is returned.
            assign_ids: Gives newcomers, in that order, their ids, and names all members; called once they are up.

        Raises:
            ApgasError: They could not be started; nothing is left of them.
        """


class _Spawner:
    """Starts places for a program, and lets newcomers and members reach each other.

    A job that is all on one machine listens on loopback. When it grows to another machine for the first time, each
    member is asked to listen on an address of the network as well; newcomers get that one.

    ``setup``: what newcomers run before they join, if there is something: if it fails, so does the spawn.
    """

    def __init__(self, driver: Driver, token: bytes, setup: Callable[[], object] | None = None) -> None:
        self._driver = driver
        self._token = token
        self._setup = setup
        self._further: dict[int, Address] = {}

    def _greeting(self, towards: str, changed: dict[str, str | None]) -> Greeting:
        """What newcomers get first; ``changed``: what the program has changed in its environment."""
        state = main_module.program_state(self._setup)
        return self._token, towards, joining.Inheritance(changed, state, self._setup is not None)

    def _numbered(
        self, reports: Iterable[joining.PlaceReport | str], assign_ids: AssignIds
    ) -> tuple[AnswerTo, tuple[PlaceInfo, ...]]:
        """Number those that have reported; returns what to answer, with the members as they reach them, and them."""
        newcomers = list(all_listening(reports))
        numbered, epoch = assign_ids(newcomers)
        members = tuple(map(self._reached, numbered))

        def answer_to(places: tuple[int, ...]) -> bytes:
            return pickle.dumps(JoinAnswer(places, members, epoch, logs.settings, logs.wanted()))

        return answer_to, members[-len(newcomers) :]

    def _prepare(self, nodes: tuple[str, ...]) -> tuple[str, ...]:
        """Look whether places can be spawned on ``nodes``, and let those reach the members; returns them by name.

        Raises:
            ApgasError: A host cannot be used, or has no way to here; the job is as it was.
        """
        probe_here()
        by = launcher()
        if launched.begun is None and environment.kind() is not environment.OPEN_MPI:
            environment.check_shared_memory(len(nodes) if by.stays_here else sum(map(is_here, nodes)))
        if by.stays_here:
            return nodes
        # without a name, mpiexec would choose one of its hosts
        here = environment.node_name()
        in_use = {place.node for place in self._driver.places()}
        if not any(nodes) and in_use == {here}:
            # A name would make mpiexec start another proxy for this host; if a place of that is killed, mpiexec's own
            # clean-up may fail and return 0.
            return nodes
        nodes = tuple(node or here for node in nodes)
        elsewhere = [node for node in dict.fromkeys(nodes) if not is_here(node)]
        probe(by, [node for node in elsewhere if node not in in_use])
        if elsewhere:
            self._open(elsewhere[0])
        return nodes

    def _reached(self, member: PlaceInfo) -> PlaceInfo:
        """A member with the address by which newcomers reach it."""
        host, port = self._further.get(member.place, (member.host, member.port))
        return replace(member, host=host, port=port)

    def _open(self, host: str) -> None:
        """Let every member that listens on loopback only listen where ``host`` reaches it, too."""
        with self._driver.lock:
            members = [info for info in self._driver.core.membership.staying if info.place not in self._further]
        finish = self._driver.open_finish()
        try:
            answers = {
                info.place: self._driver.spawn(
                    Scope(finish), self._driver.place(info.place), (process.listen_towards, (host,), {}), to_caller=True
                )
                for info in members
                if joining.is_loopback(info.host)
            }
            self._further.update({place: answer.result() for place, answer in answers.items()})
        finally:
            self._driver.close_finish(finish)

    def _towards(self) -> str:
        """The address of this place that newcomers must reach; empty: all are on this machine."""
        core = self._driver.core
        host = self._reached(core.membership.members[core.here]).host
        return "" if joining.is_loopback(host) else host


class MpiSpawner(_Spawner):
    """Has MPI start processes, wherever its launcher gets to.

    One spawn per node, for MPICH honours the node's name only there; the worlds come up while the next is spawned. On
    one node all are spawned together: four take about 190 ms so, and 380 ms one by one.
    """

    def spawn(self, nodes: tuple[str, ...], assign_ids: AssignIds) -> Spawned:
        """Spawn processes; see ``Spawner``."""
        nodes = self._prepare(nodes)
        plane = process.mpi_plane
        if plane is None:
            return self._spawn(nodes, assign_ids, None)
        # others would wait for us, within MPI, while it spawns
        plane.communicators.settled(SETTLED_S)
        with plane.aside():
            return self._spawn(nodes, assign_ids, plane.communicators.bridge)

    def _spawn(self, nodes: tuple[str, ...], assign_ids: AssignIds, bridge: Bridge | None) -> Spawned:
        kind = environment.kind()
        if environment.loaded_too_early:
            raise ApgasError(
                "mpi4py.MPI was imported before apgas.run, so MPI was loaded without what growing needs: "
                "import it in main"
            )
        if not kind.resizes:
            raise ApgasError(f"a job cannot grow under {kind.name}; MPICH and Open MPI can: malleable doctor")
        elsewhere = sorted(set(nodes) - {"", environment.node_name()})
        if kind is environment.OPEN_MPI and elsewhere:
            # it finds a way from a place to another host at most once, and may crash when it is finalized after that
            raise ApgasError(f"under Open MPI a job grows on the host of place 0 only, not on {', '.join(elsewhere)}")
        greeting = self._greeting(self._towards(), environment.changes(os.environ, environment.at_start()))
        # MPI_Comm_spawn keeps MPICH's lock until the child is in MPI_Init: every other MPI call of this process stalls
        # for some 130 ms and the child's imports before that. So this runs on a thread of its own, newcomers load MPI
        # first and all else later, and on the mpi plane nothing travels to or from here by MPI meanwhile
        # (``MpiTransport.aside``).
        with _staying():
            worlds = _Worlds()
            try:
                for name in dict.fromkeys(nodes):
                    worlds.start(name, nodes.count(name), greeting)
                up_s = time.monotonic()
                answer_to, added = self._numbered(worlds.reports(), assign_ids)
                worlds.accept(answer_to, added, bridge)
            except BaseException:
                worlds.dismiss()
                raise
        if kind is environment.OPEN_MPI:
            here = [info.pid for info in added if info.node == environment.node_name()]
            by_mpiexec = environment.launched_by(os.environ).kind == "openmpi"
            process.dependents.add(here, environment.CODE_S if by_mpiexec else 0.0)
        return added, up_s


class LaunchSpawner(_Spawner):
    """Has ``apgas.launch`` start processes on any of its hosts, without MPI."""

    def spawn(self, nodes: tuple[str, ...], assign_ids: AssignIds) -> Spawned:
        """Start processes; see ``Spawner``."""
        nodes = self._prepare(nodes)
        nodes = tuple(node for name in dict.fromkeys(nodes) for node in [name] * nodes.count(name))
        changed = environment.changes(os.environ, environment.at_start())
        greeting = self._greeting(self._towards(), changed)
        program = _NEWCOMER.format(path=str(Path(__file__).parents[2]), chosen=_chosen(), by="launch")
        words = [sys.executable, "-c", program]
        line = launched.line()
        unanswered: list[int] = []
        with _staying():
            try:
                started = line.spawn(words, nodes, str(Path.cwd()), forkserver.Loads.here(changed).text())
                if started is None:
                    raise ApgasError(f"apgas.launch could not start places on {', '.join(dict.fromkeys(nodes))}")
                unanswered.extend(started)
                up_s = time.monotonic()
                for number in started:
                    line.tell(number, greeting)
                answer_to, added = self._numbered((line.hear(number) for number in started), assign_ids)
                for info in added:
                    line.tell(unanswered.pop(0), answer_to((info.place,)))
            except EOFError:
                raise ApgasError("a place ended as it started") from None
            finally:
                for number in unanswered:
                    line.tell(number, b"")  # not wanted
        return added, up_s


class ChildSpawner(_Spawner):
    """Starts places as children of this process."""

    def spawn(self, nodes: tuple[str, ...], assign_ids: AssignIds) -> Spawned:
        """Start processes; see ``Spawner``."""
        # other names are of parts of this machine, unless the program could be one of several hosts
        elsewhere = [] if environment.needs_no_mpi(os.environ) else [node for node in nodes if not is_here(node)]
        if elsewhere:
            raise ApgasError(f"without mpiexec places start on this machine only, not on {', '.join(elsewhere)}")
        probe_here()
        changed = environment.changes(os.environ, environment.at_start()) | _chosen()
        greeting = self._greeting("", changed)
        begun: list[Child] = []
        try:
            for node in dict.fromkeys(nodes):
                begun.extend(start(node, nodes.count(node), changed))
            up_s = time.monotonic()
            for _, stream in begun:
                pickle.dump(greeting, stream)
                stream.flush()
            answer_to, added = self._numbered((report(*child) for child in begun), assign_ids)
            for info, (_, stream) in zip(added, begun, strict=True):
                pickle.dump(answer_to((info.place,)), stream)
                stream.flush()
        except BaseException as error:
            dismiss(begun)
            if isinstance(error, OSError):
                raise ApgasError(f"a place could not be started: {error}") from error
            raise
        accept(begun)
        return added, up_s


# Probes of hosts -----------------------------------------------------------------------------------------------------
#
# Before MPI is asked to spawn on hosts they are probed, for it gives no errors: a spawn on a host that cannot be
# reached makes mpiexec end the job (255), and one of a program that is not there waits for ever. The probe goes the
# way that MPI will go: through the launcher of mpiexec (ssh, or what stands in for it), which runs our Python there. A
# host that fails between the probe and the spawn still ends the job. mpiexec passes the name of its launcher to
# its proxies only, so the command line of ours is read.

DEADLINE_S: Final = 10.0
"""How long a host may take to answer."""

_REMOTE_SHELLS: Final = ("ssh", "rsh")
_LOOK: Final = """
import os, sys
sys.path.insert(0, {source!r})
os.chdir({folder!r})
import apgas.runtime.joining, apgas.runtime.environment, mpi4py
apgas.runtime.environment.check_shared_memory(1)
proxy = {proxy!r}
if proxy and not os.access(proxy, os.X_OK): raise SystemExit("MPI is not installed there: no " + proxy)
"""


class Launcher(msgspec.Struct, frozen=True):
    """How mpiexec starts processes on other hosts.

    Attributes:
        kind: Its name for it: ``fork`` (this machine only), ``ssh``, ``slurm``, …
        program: What is called instead of the usual program; empty: the usual one.
        extra: Further arguments for the program.
        proxy: The program of MPI that it starts there; empty: not known.
    """

    kind: str
    program: str = ""
    extra: tuple[str, ...] = ()
    proxy: str = ""

    @property
    def stays_here(self) -> bool:
        """Whether all names of hosts mean this machine."""
        return self.kind == "fork"

    def command(self, host: str, words: Sequence[str]) -> list[str] | None:
        """Return what runs ``words`` on ``host``; None: this launcher cannot be asked to."""
        if self.kind not in _REMOTE_SHELLS:
            return None
        program = self.program or self.kind
        # a question for a password would wait for ever
        options = ["-o", "BatchMode=yes"] if Path(program).name == "ssh" else []
        return [program, *self.extra, *options, host, shlex.join(words)]


def launcher() -> Launcher:
    """Return how the mpiexec of this job, or ``apgas.launch``, starts processes on other hosts."""
    if environment.launched_by(os.environ).kind == "launch":
        # a host that fails is an error of the spawn there: it needs no probe
        return Launcher("launch" if os.environ.get(environment.ENV_LAUNCH_HOSTS) else "fork")
    above = environment.ancestors()
    proxy = next((words for _, words in above if Path(words[0]).name == environment.PROXY), None)
    return launcher_of(proxy, os.environ)


def launcher_of(proxy: Sequence[str] | None, environ: Mapping[str, str]) -> Launcher:
    """Read the launcher from the command line of our MPI proxy, or else the environment, as an mpiexec of ours would.

    ``proxy``: None if the program was started without mpiexec.
    """
    extra = tuple(shlex.split(environ.get("HYDRA_LAUNCHER_EXTRA_ARGS", "")))
    if proxy is None:
        return Launcher(environ.get("HYDRA_LAUNCHER", "ssh"), environ.get("HYDRA_LAUNCHER_EXEC", ""), extra)
    named = dict(pairwise(proxy))
    return Launcher(named.get("--launcher", "ssh"), named.get("--launcher-exec", ""), extra, proxy[0])


def is_here(name: str) -> bool:
    """Return whether ``name`` means this machine, as far as its own tables know."""
    if not name or name in (environment.node_name(), os.uname().nodename, "localhost"):
        return True
    # unknown, or not ours
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock, suppress(OSError, UnicodeError):
        sock.bind((socket.gethostbyname(name), 0))  # only an address of ours can be bound to
        return True
    return False


def probe_here() -> None:
    """See whether a place could start on this machine: MPI would wait for ever for one whose program is gone.

    Raises:
        ApgasError: Something is missing; says what.
    """
    for path in (sys.executable, str(Path(__file__).with_name("joining.py"))):
        if not os.access(path, os.R_OK):
            raise ApgasError(f"no place can start on this host: {path or 'the interpreter'} is not there any more")


def probe(by: Launcher, hosts: Iterable[str], deadline_s: float = DEADLINE_S) -> None:
    """Run our Python on each of ``hosts``, all at once, and see whether a place could start there.

    Raises:
        ApgasError: A host cannot be reached, does not answer in time, or lacks something; says which and what.
    """
    package = str(Path(__file__).parents[2])
    program = _LOOK.format(source=package, folder=str(Path.cwd()), proxy=by.proxy)
    commands = {host: by.command(host, [sys.executable, "-c", program]) for host in hosts}
    probes = {host: Probe(command) for host, command in commands.items() if command is not None}
    ended = {host: probe.done(deadline_s) for host, probe in probes.items()}
    wrong = [f"no place can start on host {host}: {done.reason}" for host, done in ended.items() if done.reason]
    if wrong:
        raise ApgasError("; ".join(wrong))
