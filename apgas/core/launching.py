"""A job of MPI processes on some hosts, and what it asks of its launcher: PMI-1 as a state machine without I/O.

Each process has a stream to the launcher, whose descriptor is in ``PMI_FD``, and speaks PMI-1 on it: lines of words
``key=value``. The processes that are started together are a world. They exchange their addresses through the world's
key-value store, wait for each other in barriers, and ask for further worlds (``MPI_Comm_spawn``). Places that do
without MPI have two requests more: ``tell`` sends words to another process of the job, and ``hear`` waits for those of
one, until it is gone.

The launcher reports what it sees (``started``, ``received``, ``ended``, ``host_lost``, ``signalled``, ``tick``), and
carries out the effects that are returned, those for one host in their order. When ``code`` is set and no process is
left, the job is over.

A process is lost when it was killed, when it ends with a code other than 0 without a farewell to MPI, and when it ends
without one although it had joined MPI. The loss of a process ends the job; that of a place of a resilient job ends it
only if it was the first process, or if others wait for it in a barrier, for ever. The loss of a host is that of all
its processes.

If the first process of a resilient job is killed, and it has said before that it has kept what it needs to go on
(``kept``), the program is started again: all others are killed, and when none is left, a world begins with a process
wherever there was one. A program that is killed again and again without having come further ends after ``restarts``.
A job whose nodes a scheduler moves cannot know which of them are its own when place 0 is gone: it leaves the restart
to its caller (``by_caller``), who knows, and ends with ``AGAIN_CODE``. The rule is the same, and ``Restarts`` goes from
one job to the next.

| life          | what happens                        | then                                              |
|---------------|-------------------------------------|---------------------------------------------------|
| going on      | place 0 is killed, nothing was kept | the job ends, with its signal                     |
|               | place 0 is killed, no restarts left | the job ends, with its signal                     |
|               | place 0 is killed otherwise         | all others are killed: ending                     |
|               | the same, for its caller to restart | all others are killed, the job ends               |
|               | place 0 has come further            | all restarts are left again                       |
| ending        | a request, a loss                   | means nothing                                     |
|               | a host is lost                      | no process begins there; none is left: job ends   |
|               | a signal to the job                 | it ends                                           |
|               | no process is left                  | the program begins again: going on                |
"""

from __future__ import annotations

import signal
from collections import deque
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Final, NamedTuple, TypeAlias

import msgspec

AGAIN_CODE: Final = 75
"""The exit code of a job whose program could go on if it was started again, by someone else (``EX_TEMPFAIL``)."""
LAST_WORDS_S: Final = 0.3
"""How long the others may go on after a loss: place 0 has something to say about it."""
GRACE_S: Final = 30.0
"""How long a job may take to end after a signal."""
AGAIN_S: Final = 1.0
"""A signal that comes so much later than the first ends it at once; one that comes sooner is the same."""
REAPED_S: Final = 10.0
"""How long the kernel may take to end processes that were killed."""

FIRST: Final = 0
"""The number of the process whose end is the end of the job: place 0."""
MOST_UNREAD: Final = 1 << 20
"""The longest request, in bytes: a spawn with its arguments."""
_KVSNAME_MAX, _KEY_MAX, _VALUE_MAX = 256, 64, 1024
_SPAWN, _SPAWN_END = b"mcmd=", b"\nendcmd\n"
_MAPPING: Final = "PMI_process_mapping"
_MOST_SPAWNED: Final = 65_536
NOT_STARTED: Final = 127
"""The exit code of a job whose program could not be started, as shells have it."""
_DONE: Final[dict[str, object]] = {"rc": 0}
_FIXED: Final[dict[str, tuple[str, dict[str, object]]]] = {
    "init": ("response_to_init", {"pmi_version": 1, "pmi_subversion": 2}),
    "get_maxes": ("maxes", {"kvsname_max": _KVSNAME_MAX, "keylen_max": _KEY_MAX, "vallen_max": _VALUE_MAX}),
    "get_appnum": ("appnum", {"appnum": 0}),
    "get_universe_size": ("universe_size", {"size": -1}),  # not known
    "finalize": ("finalize_ack", {}),
}
"""The requests that always have the same answer."""


class Restarts(msgspec.Struct, frozen=True):
    """How often a program is started again at most, unless it comes further than ``progress``."""

    left: int
    progress: tuple[int, ...] | None = None
    """None: it has kept nothing, and would begin anew."""


class Process(msgspec.Struct, frozen=True):
    """A process that is to be started; an empty folder is the launcher's own.

    Its number within the job none had before; rank and size are those within its world. If a fork of a Python may do
    instead, ``loads`` says what that has to have loaded, in the words of ``apgas.runtime.forkserver``.
    """

    number: int
    words: tuple[str, ...]
    node: str
    folder: str
    rank: int
    size: int
    spawned: bool
    loads: str = ""


class Start(msgspec.Struct, frozen=True):
    """Start those processes of a world that belong on a node; ``started`` or ``not_started`` has to be called then.

    MPICH names what the processes share after the world's key-value store.
    """

    node: str
    world: int
    store: str
    processes: tuple[Process, ...]


class Send(msgspec.Struct, frozen=True):
    """Send an answer to a process on a node."""

    node: str
    number: int
    data: bytes


class Signal(msgspec.Struct, frozen=True):
    """Send a signal to a process on a node, and all that are in its group."""

    node: str
    number: int
    what: signal.Signals


class Say(msgspec.Struct, frozen=True):
    """Tell the user."""

    text: str


Effect: TypeAlias = Start | Send | Signal | Say


class _Asked(NamedTuple):
    """A process that is asked for; see ``Process``."""

    words: tuple[str, ...]
    node: str
    folder: str = ""
    loads: str = ""


class _World(msgspec.Struct, eq=False):
    """``nodes``: that of each member; ``awaited``: where its processes have not been started yet.

    ``failed``: some could not be started, and the others are killed. ``barriers``: who is in one, by its name and whom
    it is for.
    """

    number: int
    members: range
    nodes: Sequence[str]
    asked_by: int | None
    awaited: set[str]
    store: dict[str, str]
    failed: bool = False
    barriers: dict[tuple[str, frozenset[int]], set[int]] = msgspec.field(default_factory=dict)


class _Member(msgspec.Struct, eq=False):
    world: _World
    process: Process
    who: str = ""
    unread: bytes = b""
    joined: bool = False
    left: bool = False
    explained: bool = False
    """It has said itself, or place 0 has, why it ends."""


class LaunchedJob:
    """The state of a job.

    Args:
        name: A name that no other job has and that cannot be guessed.
        resilient: Whether it goes on without processes that are lost; a process may ask for that later.
        grace_s: How long it may take to end after a signal, however often that comes. None: ``GRACE_S``, and a signal
            that comes again ends it at once.
        apart: Whether the nodes are machines of their own, and not names for parts of one.
        restarts: How often a program that has kept what it needs is started again when its first process is killed, if
            it does not come further. With 0 the job ends with ``AGAIN_CODE`` then.
        by_caller: Whether its caller starts it again; the job ends with ``AGAIN_CODE`` then, and ``again`` is set.
        so_far: What was left of ``restarts`` when the job before ended so; None: this is the first one.

    Attributes:
        again: What the caller gives to the next job as ``so_far``; None: the program is not to be started again.
    """

    def __init__(
        self,
        name: str,
        *,
        resilient: bool = False,
        grace_s: float | None = None,
        apart: bool = False,
        restarts: int = 0,
        by_caller: bool = False,
        so_far: Restarts | None = None,
    ) -> None:
        self._name = name
        self.code: int | None = None
        """The exit code of the job, once it is known."""
        self.deadline_s: float | None = None
        """When ``tick`` is to be called at the latest."""
        self.killed = False
        """Whether its processes have been killed, so that none needs to be started any more."""
        self._resilient = resilient
        self._grace_s = grace_s
        self._apart = apart
        self._worlds: dict[int, _World] = {}
        self._running: dict[int, _Member] = {}
        self._next_world = 0
        self._next_number = FIRST
        self._names: dict[str, str] = {}
        self._unheard: dict[tuple[int, int], deque[dict[str, object]]] = {}
        """The words that have not been heard yet, by sender and receiver."""
        self._hearing: dict[int, int] = {}
        """Of whom each process waits to hear."""
        self._first_code: int | None = None
        self._failed = 0
        self._signalled: signal.Signals | None = None
        self._signalled_s = 0.0
        self._words: tuple[str, ...] = ()
        self._most = restarts
        self._restarts = so_far if so_far is not None else Restarts(restarts)
        self._by_caller = by_caller
        self.again: Restarts | None = None
        self._again: list[str] | None = None
        """Where processes are to begin when those that run have ended; None: the program goes on."""

    @property
    def running(self) -> bool:
        """Whether processes are left, or are to begin."""
        return bool(self._running) or self._again is not None

    @property
    def nodes(self) -> set[str]:
        """Where processes run, or are about to."""
        return {member.process.node for member in self._running.values()}.union(self._again or ())

    # What the launcher reports ---------------------------------------------------------------------------------------

    def begin(self, words: tuple[str, ...], nodes: Sequence[str]) -> list[Effect]:
        """Begin with a world of a process for each of ``nodes``, which execute ``words``."""
        self._words = words
        return self._new_world([_Asked(words, node) for node in nodes], None, {})

    def started(self, world: int, node: str) -> list[Effect]:
        """The processes of a world that belong on ``node`` run."""
        begun = self._worlds.get(world)
        if begun is None:
            return []
        begun.awaited.discard(node)
        if begun.awaited or begun.failed or begun.asked_by is None:
            return []
        return self._answer(begun.asked_by, "spawn_result", rc=0, first=begun.members.start)

    def not_started(self, world: int, node: str, reason: str, now_s: float) -> list[Effect]:
        """The processes of a world that belong on ``node`` could not be started; those that ran do so no more."""
        begun = self._worlds.get(world)
        if begun is None or node not in begun.awaited:
            return []
        begun.awaited.discard(node)
        for number in begun.members:
            if number in self._running and self._running[number].process.node == node:
                del self._running[number]
        return self._fail(begun, reason, now_s)

    def _fail(self, world: _World, reason: str, now_s: float) -> list[Effect]:
        """End a world of which some processes have not begun; it is an error of the spawn."""
        left = [number for number in world.members if number in self._running]
        if not left:
            del self._worlds[world.number]
        if world.failed or self.code is not None:
            return []
        world.failed = True
        if world.asked_by is None:
            return [Say(reason), *self._end(NOT_STARTED, now_s)]
        refused = self._answer(world.asked_by, "spawn_result", rc=1, msg="not_started")
        return [Say(reason), *refused, *self._signal(left, signal.SIGKILL)]

    def host_lost(self, node: str, reason: str, now_s: float) -> list[Effect]:
        """Nothing is known any more of a host, and its processes run no more, or are about to be killed there."""
        effects: list[Effect] = []
        why = f"no process can start on host {node}: {reason}"
        there = [member for member in self._running.values() if member.process.node == node]
        lost = [member.process.number for member in there if node not in member.world.awaited]
        again: list[Effect] = []
        for world in [world for world in self._worlds.values() if world.awaited and node in world.nodes]:
            if node not in world.awaited:
                effects += self._fail(world, why, now_s)
            elif lost and self._resilient and not world.failed and world.asked_by in self._running.keys() - {*lost}:
                # it was asked for just before the loss was known here, as by a program that has noticed it earlier
                processes = tuple(member.process for member in there if member.world is world)
                again.append(Start(node, world.number, self._store_name(world.number), processes))
            else:
                effects += self.not_started(world.number, node, why, now_s)
        before = self.code
        for number in lost:
            self._running[number].explained = True
            effects += self.ended(number, -signal.SIGKILL, now_s)
        if self._again is not None:
            self._again = [each for each in self._again if each != node] or None
        effects += again if self.code is None and self._again is None else ()
        if not self.running and self.code is None:
            self.code = self._final_code()
        if not lost or before is not None:
            return effects
        return [Say(f"host {node} is lost: {reason}; the job {'goes on' if self.code is None else 'ends'}"), *effects]

    def received(self, number: int, data: bytes, now_s: float) -> list[Effect]:
        """A process has sent ``data``, anywhere between two bytes of its requests."""
        member = self._running.get(number)
        if member is None:
            return []
        effects: list[Effect] = []
        if self._again is not None:
            return effects
        member.unread += data
        try:
            while (request := _first_request(member.unread)) is not None:
                member.unread = member.unread[len(request) :]
                effects += self._obey(number, member, request.decode(errors="surrogateescape"), now_s)
            if len(member.unread) > MOST_UNREAD:
                raise ValueError("a request without an end")
        except (ValueError, IndexError) as error:
            effects.append(Say(f"{self._named(member)} sent what is not PMI: {str(error)[:200]!r}; the job ends"))
            effects += self._end(1, now_s)
        return effects

    def ended(self, number: int, status: int, now_s: float) -> list[Effect]:
        """A process has ended with exit code ``status``, or by signal ``-status``."""
        member = self._running.pop(number, None)
        if member is None:
            return []
        code = 128 - status if status < 0 else status
        first = number == FIRST
        lost = status < 0 or (not member.left and (bool(status) or member.joined))
        if lost and code == 0:
            code = 1
        if first:
            # Python that is interrupted before it has loaded its modules ends with 1
            begins = code == 1 and not member.joined
            self._first_code = 128 + self._signalled if begins and self._signalled is not None else code
        effects: list[Effect] = []
        if lost:
            # what it has started must not outlive it; a process that has not been waited for keeps the group's number
            effects.append(Signal(member.process.node, number, signal.SIGKILL))
        if first and status < 0 and self._goes_on_again:
            effects += self._start_again(member, -status, now_s)
        elif self._again is not None:
            if not self._running:
                self.deadline_s = now_s
        elif self.code is None and not member.world.failed:
            if lost:
                effects += self._lose(member, status, code, first, now_s)
            else:
                self._failed = self._failed or code
            effects += self._look_at_barriers(member.world, now_s)
        effects += self._hush(number)
        if not any(each in self._running for each in member.world.members):
            self._worlds.pop(member.world.number, None)
        if not self.running and self.code is None:
            self.code = self._final_code()
        return effects

    def signalled(self, what: signal.Signals, now_s: float) -> list[Effect]:
        """The user, or the system, wants the job to end."""
        if self._signalled is not None or self.killed:
            insists = self._grace_s is None and now_s - self._signalled_s >= AGAIN_S
            return self._kill(now_s) if insists else []
        self._signalled, self._signalled_s = what, now_s
        if self._again is not None:
            self._again = None
            return self._end(128 + what, now_s)
        self._due(now_s + (GRACE_S if self._grace_s is None else self._grace_s))
        return self._signal(self._running, what)

    def tick(self, now_s: float) -> list[Effect]:
        """Do what is due."""
        if self.deadline_s is None or now_s < self.deadline_s:
            return []
        if self._again is not None and not self._running:
            return self._begin_again(self._again)
        self._again = None
        if not self.killed:
            return self._kill(now_s)
        if not self._running:
            return []
        left = ", ".join(map(str, self._running))
        self._running.clear()
        self.deadline_s = None
        return [Say(f"the system does not end processes that were killed: {left}")]

    # Losses and the end ----------------------------------------------------------------------------------------------

    def _lose(self, member: _Member, status: int, code: int, first: bool, now_s: float) -> list[Effect]:
        ends = first or not self._resilient
        if ends:
            self._due(now_s + LAST_WORDS_S)
        if self._signalled is not None:
            # it was asked to end
            self._failed = self._failed or code
            return []
        if ends:
            # who has asked for no restarts may start it again
            waits = first and status < 0 and self._resilient and self._restarts.progress is not None and not self._most
            self.code = AGAIN_CODE if waits else code
        # One that never joined MPI has said itself what it lacks. Of a place that is lost, place 0 tells.
        silent = not self._running if status > 0 and not member.joined else not ends and bool(member.who)
        if member.explained or silent:
            return []
        how = f"signal {-status}" if status < 0 else f"exit code {status}"
        if first and status < 0 and self._most and not self._restarts.left:
            how += f"; started again {self._most} times, it came no further"
        return [Say(f"{self._named(member)} died: {how}; the job {'ends' if ends else 'goes on'}")]

    def _final_code(self) -> int:
        if self._first_code:
            return self._first_code
        if not self._failed or self._resilient:
            return 0
        return self._failed if self._signalled is None else 128 + self._signalled

    def _end(self, code: int, now_s: float) -> list[Effect]:
        if self.code is None:
            self.code = code
        return self._kill(now_s)

    def _kill(self, now_s: float) -> list[Effect]:
        self.killed = True
        self.deadline_s = now_s + REAPED_S
        if self.code is None:
            self.code = self._first_code or (1 if self._signalled is None else 128 + self._signalled)
        return self._signal(self._running, signal.SIGKILL)

    def _signal(self, numbers: Iterable[int], what: signal.Signals) -> list[Effect]:
        return [Signal(self._running[number].process.node, number, what) for number in numbers]

    def _due(self, at_s: float) -> None:
        self.deadline_s = at_s if self.deadline_s is None else min(at_s, self.deadline_s)

    @staticmethod
    def _named(member: _Member) -> str:
        return member.who or f"process {member.process.rank} ({member.process.node})"

    # The next life of a program --------------------------------------------------------------------------------------

    @property
    def _goes_on_again(self) -> bool:
        """Whether the program is started again if its first process is killed."""
        going_on = self.code is None and self._signalled is None and self._again is None
        return going_on and self._resilient and self._restarts.progress is not None and self._restarts.left > 0

    def _start_again(self, first: _Member, killed_by: int, now_s: float) -> list[Effect]:
        self._restarts = Restarts(self._restarts.left - 1, self._restarts.progress)
        if self._by_caller:
            self.again = self._restarts
            said = Say(f"{self._named(first)} died: signal {killed_by}; the program is to be started again")
            return [said, *self._end(AGAIN_CODE, now_s)]
        self._again = [first.process.node, *(member.process.node for member in self._running.values())]
        # before there are no others: their numbers, and that of the first process, are given anew
        self.deadline_s = now_s + REAPED_S if self._running else now_s
        said = Say(f"{self._named(first)} died: signal {killed_by}; the program is started again")
        return [said, *self._signal(self._running, signal.SIGKILL)]

    def _begin_again(self, nodes: list[str]) -> list[Effect]:
        self._again = self.deadline_s = None
        self._worlds.clear()
        self._names.clear()
        self._unheard.clear()
        self._next_number, self._first_code, self._failed = FIRST, None, 0
        return self.begin(self._words, nodes)

    # Worlds ----------------------------------------------------------------------------------------------------------

    def _new_world(self, asked: Sequence[_Asked], by: int | None, preput: dict[str, str]) -> list[Effect]:
        """Begin a world of processes."""
        members = range(self._next_number, self._next_number + len(asked))
        self._next_number += len(asked)
        nodes = [each.node for each in asked]
        world = self._worlds[self._next_world] = _World(
            self._next_world, members, nodes, by, awaited=set(nodes), store=dict(preput)
        )
        self._next_world += 1
        processes = tuple(
            Process(number, each.words, each.node, each.folder, rank, len(asked), by is not None, each.loads)
            for rank, (number, each) in enumerate(zip(members, asked, strict=True))
        )
        self._running.update((process.number, _Member(world, process)) for process in processes)
        store = self._store_name(world.number)
        return [
            Start(node, world.number, store, tuple(process for process in processes if process.node == node))
            for node in dict.fromkeys(nodes)
        ]

    def _store_name(self, world: int) -> str:
        return f"kvs_{self._name}_{world}"

    def _look_at_barriers(self, world: _World, now_s: float) -> list[Effect]:
        """End the job if a barrier waits for a process that is gone."""
        if world.failed:
            return []
        for (_, members), inside in world.barriers.items():
            if inside and any(number not in self._running for number in members):
                said = Say("processes wait in a barrier of MPI for one that has ended; the job ends")
                return [said, *self._end(1, now_s)]
        return []

    def _group(self, world: _World, group: str, node: str) -> frozenset[int]:
        """The members that a barrier is for: all, those on the same node, or those with these ranks."""
        match names := group.partition(":")[0]:
            case "WORLD":
                return frozenset(world.members)
            case "NODE":
                pairs = zip(world.members, world.nodes, strict=True)
                return frozenset(number for number, its in pairs if its == node or not self._apart)
            case _:
                return frozenset(world.members[int(rank)] for rank in names.split(","))

    def _mapping(self, world: _World) -> str | None:
        """Which ranks share a node, and memory; None if it is too long: MPI then compares the names of their hosts."""
        if not self._apart:
            return f"(vector,(0,1,{len(world.members)}))"
        numbers = {node: number for number, node in enumerate(dict.fromkeys(world.nodes))}
        runs = [f"({numbers[node]},1,{len(list(run))})" for node, run in groupby(world.nodes)]
        text = f"(vector,{','.join(runs)})"
        return text if len(text) < _VALUE_MAX else None

    # Requests --------------------------------------------------------------------------------------------------------

    def _obey(self, number: int, member: _Member, request: str, now_s: float) -> list[Effect]:
        if request.startswith("mcmd="):
            if self.code is not None:
                return self._answer(number, "spawn_result", rc=1, msg="the_job_ends")
            return self._spawn(number, member, request)
        words = dict(word.partition("=")[::2] for word in request.rstrip("\n").split(" "))
        match command := words.get("cmd", ""):
            case "barrier_in":
                return self._enter(number, member, words.get("group", "WORLD:0"), now_s)
            case "abort":
                return self._end((code := int(words.get("exitcode", 1))) & 0xFF or int(code != 0), now_s)
            case "place" | "explained" | "survive" | "kept":
                self._note(command, member, words)
                return []
            case "tell":
                return self._tell(number, words)
            case "hear":
                return self._hear(number, int(_word(words, "of")))
            case "init":
                member.joined = True
            case "finalize":
                member.left = True
            case _:
                pass
        name, answer = self._answered(command, member.world, words)
        return self._answer(number, name, **answer)

    def _note(self, command: str, member: _Member, words: dict[str, str]) -> None:
        """Take one of our own requests that have no answer."""
        match command:
            case "place":
                member.who = f"place {_word(words, 'id')} ({member.process.node}, pid {_word(words, 'pid')})"
            case "explained":
                member.explained = True
            case "survive":
                self._resilient = True
            case _:
                progress = tuple(map(int, _word(words, "progress").split(".")))
                if self._restarts.progress is None or progress > self._restarts.progress:
                    self._restarts = Restarts(self._most, progress)

    def _answered(self, command: str, world: _World, words: dict[str, str]) -> tuple[str, dict[str, object]]:
        """The answer to a request that concerns no other process."""
        match command:
            case "put":
                world.store[_word(words, "key", _KEY_MAX)] = _word(words, "value", _VALUE_MAX)
                return "put_result", _DONE
            case "get":
                key = _word(words, "key", _KEY_MAX)
                value = self._mapping(world) if key == _MAPPING else world.store.get(key)
                return "get_result", _found("value", value)
            case "publish_name":
                self._names[_word(words, "service", _VALUE_MAX)] = _word(words, "port", _VALUE_MAX)
                return "publish_result", _DONE
            case "unpublish_name":
                return "unpublish_result", _found("service", self._names.pop(_word(words, "service"), None))
            case "lookup_name":
                return "lookup_result", _found("port", self._names.get(_word(words, "service")))
            case "get_my_kvsname":
                return "my_kvsname", {**_DONE, "kvsname": self._store_name(world.number)}
            case _ if command in _FIXED:
                name, answer = _FIXED[command]
                return name, {**_DONE, **answer}
            case _:
                raise ValueError(f"the request {command[:80]!r}")

    def _tell(self, number: int, words: dict[str, str]) -> list[Effect]:
        to = int(_word(words, "to"))
        if to not in self._running:
            return []
        said: dict[str, object] = {**_DONE, "more": _word(words, "more"), "words": _word(words, "words")}
        if self._hearing.get(to) == number:
            del self._hearing[to]
            return self._answer(to, "heard", **said)
        self._unheard.setdefault((number, to), deque()).append(said)
        return []

    def _hear(self, number: int, of: int) -> list[Effect]:
        if words := self._unheard.get((of, number)):
            return self._answer(number, "heard", **words.popleft())
        if of not in self._running:
            return self._answer(number, "heard", rc=1, msg="gone")
        self._hearing[number] = of
        return []

    def _hush(self, number: int) -> list[Effect]:
        """A process is gone: none hears of it any more, nor it of others."""
        self._hearing.pop(number, None)
        self._unheard = {pair: words for pair, words in self._unheard.items() if words and number != pair[1]}
        waiting = [each for each, of in self._hearing.items() if of == number]
        for each in waiting:
            del self._hearing[each]
        return [effect for each in waiting for effect in self._answer(each, "heard", rc=1, msg="gone")]

    def _enter(self, number: int, member: _Member, group: str, now_s: float) -> list[Effect]:
        world = member.world
        members = self._group(world, group, member.process.node)
        inside = world.barriers.setdefault((group, members), set())
        if number not in members or number in inside:
            raise ValueError(f"a barrier that it is not in, or is in already: {group[:80]!r}")
        inside.add(number)
        if inside != members:
            return self._look_at_barriers(world, now_s)
        del world.barriers[group, members]
        tag = group.partition(":")[2] or "0"
        return [effect for each in sorted(members) for effect in self._answer(each, "barrier_out", rc=0, tag=tag)]

    def _spawn(self, number: int, member: _Member, request: str) -> list[Effect]:
        preput: dict[str, str] = {}
        asked: list[_Asked] = []
        loads = ""
        for command in request.split("\nendcmd\n")[:-1]:
            words = dict(line.partition("=")[::2] for line in command.split("\n"))
            preput.update(_pairs(words, "preput_num", "preput_key_", "preput_val_"))
            hints = dict(_pairs(words, "info_num", "info_key_", "info_val_"))
            arguments = (_word(words, f"arg{i + 1}") for i in range(int(words.get("argcnt", 0))))
            program = (_word(words, "execname"), *arguments)
            count = int(_word(words, "nprocs"))
            if not 0 < count <= _MOST_SPAWNED:
                raise ValueError(f"a spawn of {count} processes")
            node, folder = hints.get("host") or member.process.node, hints.get("wdir", "")
            loads = hints.get("apgas_loads", loads)  # of all processes; the first says it
            asked += [_Asked(program, node, folder, loads)] * count
        return self._new_world(asked, number, preput)

    def _answer(self, number: int, command: str, **words: object) -> list[Effect]:
        if (member := self._running.get(number)) is None:
            return []
        text = " ".join((f"cmd={command}", *(f"{key}={value}" for key, value in words.items())))
        return [Send(member.process.node, number, f"{text}\n".encode(errors="surrogateescape"))]


def _first_request(unread: bytes) -> bytes | None:
    """The first request in ``unread`` if it is complete, with its end."""
    if not unread.startswith(_SPAWN):
        line, newline, _ = unread.partition(b"\n")
        return line + newline if newline else None
    # each program of a spawn has an end of its own, and says how many there are
    begin = 0
    while (end := unread.find(_SPAWN_END, begin)) >= 0:
        words = dict(line.partition(b"=")[::2] for line in unread[begin:end].split(b"\n"))
        begin = end + len(_SPAWN_END)
        if words.get(b"totspawns") == words.get(b"spawnssofar"):
            return unread[:begin]
    return None


def _found(name: str, value: str | None) -> dict[str, object]:
    return {"rc": 1, "msg": "not_found"} if value is None else {**_DONE, name: value}


def _word(words: dict[str, str], name: str, longest: int = MOST_UNREAD) -> str:
    value = words.get(name)
    if value is None or len(value) > longest:
        raise ValueError(f"{words.get('cmd', 'spawn')[:80]} with {'no' if value is None else 'too long a'} {name}")
    return value


def _pairs(words: dict[str, str], count: str, key: str, value: str) -> Iterable[tuple[str, str]]:
    for i in range(int(words.get(count, 0))):
        yield _word(words, f"{key}{i}"), _word(words, f"{value}{i}")
