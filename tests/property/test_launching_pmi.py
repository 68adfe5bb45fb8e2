"""The launched job as a machine: whatever its processes say and however they end, it ends, and with the right code."""

from __future__ import annotations

import re
import signal
from collections import Counter
from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apgas.core.launching import (
    AGAIN_CODE,
    AGAIN_S,
    GRACE_S,
    NOT_STARTED,
    Effect,
    LaunchedJob,
    Restarts,
    Say,
    Send,
    Signal,
    Start,
)

WORD = st.text(st.characters(codec="utf-8", exclude_characters="\n\0", exclude_categories=["Cs"]), max_size=20)
TOKEN = st.text("abcXYZ019_#$()-,:\\", min_size=1, max_size=20)


def begun(size: int, *, resilient: bool = False) -> LaunchedJob:
    job = LaunchedJob("job", resilient=resilient)
    (start,) = job.begin(("prog",), ("here",) * size)
    assert isinstance(start, Start)
    assert [process.rank for process in start.processes] == list(range(size))
    assert job.started(start.world, "here") == []
    return job


def answers(effects: Sequence[object]) -> list[tuple[int, str]]:
    return [(effect.number, effect.data.decode()) for effect in effects if isinstance(effect, Send)]


def spawn_request(programs: Sequence[tuple[list[str], int, str]], preput: str) -> bytes:
    """What MPICH sends for ``MPI_Comm_spawn_multiple``."""
    lines = []
    for i, (words, count, host) in enumerate(programs):
        lines += ["mcmd=spawn", f"nprocs={count}", f"execname={words[0]}"]
        lines += [f"totspawns={len(programs)}", f"spawnssofar={i + 1}", f"argcnt={len(words) - 1}"]
        lines += [f"arg{j + 1}={word}" for j, word in enumerate(words[1:])]
        lines += ["preput_num=1", "preput_key_0=PARENT_ROOT_PORT_NAME", f"preput_val_0={preput}"]
        lines += ["info_num=1", "info_key_0=host", f"info_val_0={host}"] if host else ["info_num=0"]
        lines += ["endcmd"]
    return ("\n".join(lines) + "\n").encode()


@given(
    st.lists(st.tuples(st.lists(WORD, min_size=1, max_size=4), st.integers(1, 3), TOKEN), min_size=1, max_size=3),
    TOKEN,
    st.data(),
)
def test_requests_are_the_same_however_the_stream_is_cut(
    programs: list[tuple[list[str], int, str]], value: str, data: st.DataObject
) -> None:
    stream = f"cmd=init pmi_version=1 pmi_subversion=1\ncmd=put kvsname=kvs_0 key=k value={value}\n".encode()
    stream += spawn_request(programs, value) + b"cmd=get kvsname=kvs_0 key=k\ncmd=finalize\n"
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=20)))
    job, effects = begun(1), []
    for begin, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        effects += job.received(0, stream[begin:end], 0.0)
    starts = [effect for effect in effects if isinstance(effect, Start)]
    processes = sorted((process for start in starts for process in start.processes), key=lambda process: process.rank)
    asked = [(tuple(words), host) for words, count, host in programs for _ in range(count)]
    assert [(process.words, process.node) for process in processes] == asked
    assert [process.rank for process in processes] == list(range(len(asked)))
    assert all(process.spawned and process.size == len(asked) for process in processes)
    assert all(process.node == start.node for start in starts for process in start.processes)
    said = answers(effects)
    assert said[0] == (0, "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=2\n")
    assert said[2:] == [(0, f"cmd=get_result rc=0 value={value}\n"), (0, "cmd=finalize_ack rc=0\n")]
    for start in starts[:-1]:
        assert job.started(start.world, start.node) == []
    assert answers(job.started(starts[-1].world, starts[-1].node)) == [(0, "cmd=spawn_result rc=0 first=1\n")]
    newcomer = processes[-1].number
    answered = answers(job.received(newcomer, b"cmd=get key=PARENT_ROOT_PORT_NAME\n", 0.0))
    assert answered == [(newcomer, f"cmd=get_result rc=0 value={value}\n")]


@given(st.integers(1, 5), st.integers(1, 4), st.randoms(use_true_random=False))
def test_nobody_leaves_a_barrier_before_all_have_entered_it(size: int, rounds: int, random: object) -> None:
    job = begun(size)
    entered, left = Counter[int](), Counter[int]()
    while waiting := [n for n in range(size) if entered[n] == left[n] < rounds]:
        number = random.choice(waiting)  # type: ignore[attr-defined]
        entered[number] += 1
        for out, text in answers(job.received(number, b"cmd=barrier_in\n", 0.0)):
            assert text == "cmd=barrier_out rc=0 tag=0\n"
            left[out] += 1
            assert all(entered[n] >= left[out] for n in range(size))
    assert all(left[n] == rounds for n in range(size))


@given(st.integers(2, 4), st.data())
def test_what_a_process_tells_another_is_heard_once_in_order_until_one_is_gone(size: int, data: st.DataObject) -> None:
    job = begun(size)
    running = set(range(1, size))
    pending: dict[tuple[int, int], list[str]] = {}
    hearing: dict[int, int] = {}
    for step in range(data.draw(st.integers(0, 30))):
        who, other = (data.draw(st.integers(0, size - 1)) for _ in range(2))
        if who not in running | {0} or who in hearing:
            continue
        match data.draw(st.sampled_from(["tell", "hear", "end"])):
            case "tell":
                effects = job.received(who, f"cmd=tell to={other} more=0 words={step:x}\n".encode(), 0.0)
                if other in running | {0}:
                    pending.setdefault((who, other), []).append(f"{step:x}")
            case "hear":
                effects = job.received(who, f"cmd=hear of={other}\n".encode(), 0.0)
                hearing[who] = other
            case _ if who:
                effects = job.ended(who, 0, 0.0)
                running.discard(who)
                pending = {pair: words for pair, words in pending.items() if pair[1] != who}
            case _:
                effects = []
        for out, text in answers(effects):
            of = hearing.pop(out)
            if text == "cmd=heard rc=1 msg=gone\n":
                assert of not in running | {0}
                assert not pending.get((of, out))
            else:
                assert text == f"cmd=heard rc=0 more=0 words={pending[of, out].pop(0)}\n"
    for out, of in hearing.items():
        assert of in running | {0}
        assert not pending.get((of, out)), "it would wait for what is there"


@given(
    st.lists(
        st.one_of(
            st.binary(max_size=80),
            st.sampled_from(
                [
                    b"cmd=",
                    b"mcmd=spawn\n",
                    b"\nendcmd\n",
                    b"=",
                    b"\n",
                    b"cmd=barrier_in group=",
                    b"-1:",
                    b"9" * 30,
                    b"cmd=put key=",
                    b"cmd=tell to=",
                    b"cmd=hear of=",
                    b"nprocs=0",
                ]
            ),
        ),
        max_size=12,
    )
)
def test_garbage_ends_the_job_and_never_the_launcher(pieces: list[bytes]) -> None:
    job = begun(2)
    for piece in pieces:
        effects = job.received(0, piece, 0.0)
        for effect in effects:
            if isinstance(effect, Start):
                job.started(effect.world, effect.node)
        if any(isinstance(effect, Say) for effect in effects):
            assert job.code == 1
            killed = {e.number for e in effects if isinstance(e, Signal) and e.what == signal.SIGKILL}
            assert killed >= {0, 1}
            return
    assert job.code is None


def test_a_request_without_an_end_is_bounded() -> None:
    job = begun(1)
    for _ in range(40):
        job.received(0, b"x" * 65_536, 0.0)
    assert job.code == 1


ENDING = st.tuples(st.sampled_from(["before", "joined", "left"]), st.sampled_from([0, 0, 0, 1, 7, -9, -15]))


@given(st.lists(ENDING, min_size=1, max_size=5), st.permutations(range(5)), st.booleans(), st.booleans())
def test_a_job_that_lost_a_place_is_no_success(
    endings: list[tuple[str, int]], order: list[int], resilient: bool, asks: bool
) -> None:
    job = begun(len(endings), resilient=resilient and not asks)
    if resilient and asks:
        job.received(len(endings) - 1, b"cmd=survive\n", 0.0)
    for number, (stage, _) in enumerate(endings):
        if stage != "before":
            job.received(number, b"cmd=init pmi_version=1 pmi_subversion=1\n", 0.0)
        if stage == "left":
            job.received(number, b"cmd=finalize\n", 0.0)
    for number in order:
        if number < len(endings) and job.running:
            stage, status = endings[number]
            effects = job.ended(number, status, 0.0)
            lost = status < 0 or (stage != "left" and (status != 0 or stage == "joined"))
            if lost:
                # its own descendants end with it
                assert Signal("here", number, signal.SIGKILL) in effects
                if number == 0 or not resilient:
                    assert job.code
    assert not job.running
    bad = [number for number, (stage, status) in enumerate(endings) if status != 0 or stage == "joined"]
    assert bool(job.code) == (0 in bad if resilient else bool(bad))


@given(st.integers(-512, 512))
def test_a_job_that_is_aborted_has_the_code_that_it_was_given(code: int) -> None:
    job = begun(3)
    effects = job.received(1, f"cmd=init\ncmd=abort exitcode={code}\n".encode(), 0.0)
    assert [effect.number for effect in effects if isinstance(effect, Signal)] == [0, 1, 2]
    for number in range(3):
        job.ended(number, -9, 0.0)
    assert not job.running
    assert job.code == (code % 256 or bool(code))


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("end"), st.integers(0, 5), st.sampled_from([0, 1, -9])),
            st.tuples(st.just("signal"), st.sampled_from([2, 15]), st.just(0)),
            st.tuples(st.just("say"), st.integers(0, 5), st.sampled_from([0, 1, 2, 3])),
            st.tuples(st.just("pass"), st.integers(0, 40), st.just(0)),
        ),
        max_size=30,
    ),
    st.booleans(),
)
def test_after_a_loss_or_a_signal_every_job_ends_in_time(events: list[tuple[str, int, int]], resilient: bool) -> None:
    said = [b"cmd=init\n", b"cmd=finalize\n", b"cmd=barrier_in\n", b"cmd=abort exitcode=0\n"]
    job, now_s = begun(4, resilient=resilient), 0.0
    ending = False
    for what, number, detail in events:
        match what:
            case "end":
                job.ended(number, detail, now_s)
            case "signal":
                job.signalled(signal.Signals(number), now_s)
                ending = True
            case "say":
                if job.running and number < 4:
                    job.received(number, said[detail], now_s)
            case _:
                now_s += number
                job.tick(now_s)
    ending = ending or job.code is not None
    if not ending:
        return
    killed: set[int] = set()
    end_s = now_s + GRACE_S + 60.0
    while job.running and now_s < end_s:
        assert job.deadline_s is not None, "nothing would ever end it"
        now_s = max(now_s, job.deadline_s)
        for effect in job.tick(now_s):
            if isinstance(effect, Signal) and effect.what == signal.SIGKILL:
                killed.add(effect.number)
        for number in killed:
            job.ended(number, -9, now_s)
    assert not job.running
    assert job.code is not None


def test_a_barrier_that_waits_for_a_dead_process_ends_the_job() -> None:
    job = begun(3, resilient=True)
    for number in range(2):
        job.received(number, b"cmd=init\ncmd=barrier_in\n", 0.0)
    effects = job.ended(2, -9, 0.0)
    assert Signal("here", 0, signal.SIGKILL) in effects
    assert job.code == 1


def test_a_spawn_that_fails_is_an_error_of_the_caller_only() -> None:
    job = begun(1)
    (start,) = job.received(0, spawn_request([(["/nowhere"], 2, "")], "p"), 0.0)
    assert isinstance(start, Start)
    effects = job.not_started(start.world, start.node, "/nowhere cannot be started", 0.0)
    assert answers(effects) == [(0, "cmd=spawn_result rc=1 msg=not_started\n")]
    assert job.code is None
    job.received(0, b"cmd=finalize\n", 0.0)
    job.ended(0, 0, 0.0)
    assert job.code == 0


def test_what_is_asked_for_before_a_loss_is_known_begins_on_the_host_anew() -> None:
    """The order was aborted: the program notices a lost host earlier than the launcher, and asks for it again."""
    job = LaunchedJob("job", resilient=True)
    for start in job.begin(("x",), ["a", "b"]):
        assert isinstance(start, Start)
        job.started(start.world, start.node)
    (asked,) = job.received(0, spawn_request([(["x"], 2, "b")], "p"), 0.0)
    effects = job.host_lost("b", "gone", 1.0)
    assert asked in effects
    assert not answers(effects)
    assert answers(job.host_lost("b", "gone again", 2.0)) == [(0, "cmd=spawn_result rc=1 msg=not_started\n")]
    assert job.code is None
    assert job.nodes == {"a"}


def test_names_are_published_and_withdrawn() -> None:
    job = begun(1)
    stream = b"cmd=lookup_name service=s\ncmd=publish_name service=s port=p\ncmd=lookup_name service=s\n"
    stream += b"cmd=unpublish_name service=s\ncmd=lookup_name service=s\n"
    assert [text for _, text in answers(job.received(0, stream, 0.0))] == [
        "cmd=lookup_result rc=1 msg=not_found\n",
        "cmd=publish_result rc=0\n",
        "cmd=lookup_result rc=0 port=p\n",
        "cmd=unpublish_result rc=0 service=p\n",
        "cmd=lookup_result rc=1 msg=not_found\n",
    ]


# Several hosts --------------------------------------------------------------------------------------------------------


class Hosts:
    """A job of a place on each of two hosts, which spawns two more on further ones, and hosts that do what they are to.

    The first place spawns; all initialise, finalise and end. What happens next is chosen at random.
    """

    def __init__(self, random: Random, *, resilient: bool) -> None:
        self.job = LaunchedJob("job", resilient=resilient, apart=True)
        self.random = random
        self.now_s = 0.0
        self.to_do: dict[str, list[Start | Signal]] = {}
        """What each host has not done yet, in order."""
        self.running: dict[int, str] = {}
        self.said: dict[int, int] = {}
        """How much of its lines each process has said."""
        self.asked = self.answered = 0
        self.whole = range(0)
        """The processes of worlds that have begun in full: others are an error of their spawn."""
        self.carry_out(self.job.begin(("prog",), ("a", "b")))

    def carry_out(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Send):
                assert self.running.get(effect.number) == effect.node
                self.answered += b"spawn_result" in effect.data
                if b"spawn_result rc=0" in effect.data:
                    self.whole = range(5)
            elif isinstance(effect, Start):
                assert all(process.node == effect.node for process in effect.processes)
                self.to_do.setdefault(effect.node, []).append(effect)
            elif isinstance(effect, Signal) and effect.node in self.to_do:
                self.to_do[effect.node].append(effect)

    def lines(self, number: int) -> list[bytes]:
        spawn = [spawn_request([(["prog"], 1, "c"), (["prog"], 2, "d")], "p")] if number == 0 else []
        return [b"cmd=init\n", *spawn, b"cmd=finalize\n"]

    def choices(self) -> list[tuple[str, str | int]]:
        hosts: list[tuple[str, str | int]] = [("do", node) for node, orders in self.to_do.items() if orders]
        # the first waits for the answer to its spawn, as MPI does
        free = [number for number in self.running if number or self.answered == self.asked]
        return hosts + [("go on", number) for number in free]

    def step(self, what: tuple[str, str | int]) -> None:
        self.now_s += 0.01
        match what:
            case "do", str(node):
                self.obey(node, self.to_do[node].pop(0))
            case "go on", int(number) if self.said[number] < len(self.lines(number)):
                line = self.lines(number)[self.said[number]]
                self.said[number] += 1
                self.asked += line.startswith(b"mcmd=")
                self.carry_out(self.job.received(number, line, self.now_s))
            case _, int(number):
                self.end(number, 0)
            case _:
                raise AssertionError(what)

    def obey(self, node: str, order: Start | Signal) -> None:
        if isinstance(order, Signal):
            if order.number in self.running and order.what == signal.SIGKILL:
                self.end(order.number, -9)
        elif self.random.random() < 0.1:
            self.carry_out(self.job.not_started(order.world, node, "no program", self.now_s))
        else:
            self.running.update((process.number, node) for process in order.processes)
            self.said.update((process.number, 0) for process in order.processes)
            self.carry_out(self.job.started(order.world, node))
            if {0, 1} <= self.said.keys():
                self.whole = range(max(2, self.whole.stop))

    def end(self, number: int, status: int) -> None:
        del self.running[number]
        self.carry_out(self.job.ended(number, status, self.now_s))

    def lose(self, node: str) -> set[int]:
        gone = {number for number, where in self.running.items() if where == node}
        self.running = {number: where for number, where in self.running.items() if where != node}
        self.to_do.pop(node, None)
        effects = self.job.host_lost(node, "silence", self.now_s)
        assert (node in self.job.nodes) == any(isinstance(effect, Start) for effect in effects)
        self.carry_out(effects)
        return gone


@pytest.mark.parametrize("resilient", [False, True])
@given(random=st.randoms(use_true_random=False), losses=st.dictionaries(st.integers(0, 25), st.sampled_from("abcd")))
def test_hosts_may_be_lost_at_any_message(resilient: bool, random: Random, losses: dict[int, str]) -> None:
    hosts = Hosts(random, resilient=resilient)
    lost: set[int] = set()
    for step in range(200):
        if step in losses:
            before = hosts.job.code
            gone = hosts.lose(losses[step])
            gone &= set(hosts.whole)
            lost |= gone if before is None else set()
            if gone and before is None and (not resilient or 0 in gone):
                assert hosts.job.code == 137
        if not (choices := hosts.choices()):
            break
        hosts.step(random.choice(choices))
    while hosts.job.running:  # a loss gives the others time for their last words
        assert hosts.job.deadline_s is not None, "nothing would ever end it"
        hosts.now_s = max(hosts.now_s, hosts.job.deadline_s)
        hosts.carry_out(hosts.job.tick(hosts.now_s))
        while choices := [choice for choice in hosts.choices() if choice[0] == "do"]:
            hosts.step(random.choice(choices))
    assert not hosts.running
    assert hosts.job.code is not None
    if hosts.job.code == 0:
        assert hosts.asked == hosts.answered
    if resilient and not lost & {0} and hosts.job.code not in (0, NOT_STARTED):
        raise AssertionError(f"a resilient job ended with {hosts.job.code}")
    if not resilient and lost:
        assert hosts.job.code != 0


@given(st.lists(st.sampled_from("abc"), min_size=1, max_size=12))
def test_mpi_is_told_who_shares_a_host(nodes: list[str]) -> None:
    job = LaunchedJob("job", apart=True)
    for effect in job.begin(("prog",), nodes):
        assert isinstance(effect, Start)
        job.started(effect.world, effect.node)
    ((_, text),) = answers(job.received(0, b"cmd=get key=PMI_process_mapping\n", 0.0))
    blocks = re.findall(r"\((\d+),1,(\d+)\)", text)
    mapped = [int(node) for node, count in blocks for _ in range(int(count))]
    assert len(mapped) == len(nodes)
    pairs = list(zip(mapped, nodes, strict=True))
    assert len(set(pairs)) == len(set(mapped)) == len(set(nodes))
    job.received(0, b"cmd=init\ncmd=barrier_in group=NODE:7\n", 0.0)
    together = [number for number, node in enumerate(nodes) if node == nodes[0]]
    left = [
        effect
        for number in together[1:]
        for effect in answers(job.received(number, b"cmd=barrier_in group=NODE:7\n", 0.0))
    ]
    assert [number for number, _ in left] == (together if len(together) > 1 else [])


def test_a_mapping_that_is_too_long_is_left_to_mpi() -> None:
    job = LaunchedJob("job", apart=True)
    job.begin(("prog",), ["a", "b"] * 128)
    assert answers(job.received(0, b"cmd=get key=PMI_process_mapping\n", 0.0))[0][1].startswith("cmd=get_result rc=1")


def test_a_signal_that_comes_twice_at_once_is_one_and_insists_a_second_later() -> None:
    """Of Ctrl-C a terminal sends one to each process, and they hand it on."""
    job = begun(1)
    assert job.signalled(signal.SIGINT, 0.0) == [Signal("here", 0, signal.SIGINT)]
    assert job.signalled(signal.SIGINT, AGAIN_S / 2) == []
    assert Signal("here", 0, signal.SIGKILL) in job.signalled(signal.SIGINT, AGAIN_S)


@pytest.mark.parametrize(
    ("joined", "status", "code"), [(False, 1, 130), (False, 7, 7), (False, -2, 130), (True, 1, 1), (True, 0, 0)]
)
def test_the_code_is_that_of_an_interrupt_though_python_has_ended_with_1_as_it_began(
    joined: bool, status: int, code: int
) -> None:
    job = begun(1)
    if joined:
        job.received(0, b"cmd=init\ncmd=finalize\n", 0.0)
    job.signalled(signal.SIGINT, 0.0)
    job.ended(0, status, 0.1)
    assert job.code == code


def test_nothing_is_said_of_killed_processes_when_none_is_left() -> None:
    """Their output is still to be read, say."""
    job = begun(1)
    job.signalled(signal.SIGTERM, 0.0)
    job.signalled(signal.SIGTERM, 2.0)
    job.ended(0, -signal.SIGKILL, 2.1)
    assert job.tick(100.0) == []


def test_a_spawn_may_come_without_what_it_may_leave_out() -> None:
    (start,) = begun(1).received(0, b"mcmd=spawn\nnprocs=2\nexecname=x\ntotspawns=1\nspawnssofar=1\nendcmd\n", 0.0)
    assert isinstance(start, Start)
    assert [process.words for process in start.processes] == [("x",), ("x",)]


class Lives:
    """A program that is started again, and what is expected of it.

    ``running``: the node of each process; ``ending``: where the next life begins, when it is empty. ``before``: the
    one whose caller starts it again.
    """

    def __init__(
        self, nodes: list[str], restarts: int, *, by_caller: bool = False, before: Lives | None = None
    ) -> None:
        self.by_caller = by_caller
        so_far = before.job.again if before is not None else None
        self.job: LaunchedJob = LaunchedJob(
            "x", resilient=True, apart=True, restarts=restarts, by_caller=by_caller, so_far=so_far
        )
        self.restarts = restarts
        self.left: int = before.left if before is not None else restarts
        self.best: tuple[int, ...] | None = before.best if before is not None else None
        self.running: dict[int, str] = {}
        self.ending: list[str] | None = None
        self.lives = 0
        self.take(self.job.begin(("p",), nodes), nodes)

    def take(self, effects: list[Effect], begins: list[str] | None = None) -> None:
        """Carry out what starts processes, which is right only where a life begins."""
        starts = [effect for effect in effects if isinstance(effect, Start)]
        assert bool(starts) == (begins is not None), (starts, begins)
        if begins is not None:
            assert not self.running, "two lives at once"
            self.lives += 1
            found = {process.number: process.node for start in starts for process in start.processes}
            assert [found[number] for number in range(len(begins))] == begins
            assert all(
                process.words == ("p",) and not process.spawned for start in starts for process in start.processes
            )
            self.running, self.ending = dict(sorted(found.items())), None
            for start in starts:
                assert self.job.started(start.world, start.node) == []

    def kill(self, number: int) -> None:
        node = self.running.pop(number)
        if number == 0 and self.ending is None and self.best is not None and self.left:
            self.left -= 1
            self.ending = [node, *self.running.values()]
        effects = self.job.ended(number, -signal.SIGKILL, 1.0)
        self.take(effects)
        if self.ending is not None and number == 0:
            assert {e.number for e in effects if isinstance(e, Signal)} >= set(self.running)

    def lose(self, node: str) -> None:
        gone = [number for number, its in self.running.items() if its == node]
        if 0 in gone and self.ending is None and self.best is not None and self.left:
            self.left -= 1
            self.ending = [*self.running.values()]
        self.running = {number: its for number, its in self.running.items() if its != node}
        if self.ending is not None and not self.by_caller:
            self.ending = [each for each in self.ending if each != node] or None
        self.take(self.job.host_lost(node, "gone", 1.0))

    def further(self, *progress: int) -> None:
        text = ".".join(map(str, progress))
        self.take(self.job.received(min(self.running), f"cmd=kept progress={text}\n".encode(), 1.0))
        if self.ending is None and (self.best is None or progress > self.best):
            self.best, self.left = progress, self.restarts


def test_a_program_is_started_again_when_nothing_of_it_is_left() -> None:
    reached: Counter[int] = Counter()
    for seed in range(1500):
        rng = Random(seed)
        lives = Lives(rng.choices("abc", k=rng.randint(1, 5)), rng.randint(0, 3))
        while lives.job.code is None:
            if not lives.running:
                assert lives.job.running
                assert lives.ending is not None
                lives.take(lives.job.tick(1.0), lives.ending)
                continue
            match rng.choice(["kill", "first", "host", "further", "further", "tick", "end"]):
                case "kill":
                    lives.kill(rng.choice(list(lives.running)))
                case "first" if 0 in lives.running:
                    lives.kill(0)
                case "host":
                    lives.lose(rng.choice("abc"))
                case "further":
                    lives.further(rng.randint(1, 2), rng.randint(0, 9))
                case "tick":
                    lives.take(lives.job.tick(1.0))
                case _ if rng.random() < 0.05:
                    break
                case _:
                    pass
            assert lives.job.nodes == {*lives.running.values(), *(lives.ending or ())}
        if lives.job.code is not None:
            assert 0 not in lives.running
            assert lives.job.code == (75 if lives.best is not None and not lives.restarts else 137)
        reached[lives.lives] += 1
    assert all(reached[count] > 20 for count in range(1, 5)), reached


def test_a_program_that_its_caller_starts_again_has_as_many_lives() -> None:
    reached: Counter[int] = Counter()
    for seed in range(1500):
        rng = Random(seed)
        restarts = rng.randint(1, 3)
        lives, number = Lives(["a"], restarts, by_caller=True), 1
        while True:
            while lives.running:
                if rng.random() < 0.5:
                    lives.further(rng.randint(1, 2), rng.randint(0, 9))
                else:
                    lives.kill(0) if rng.random() < 0.7 else lives.lose("a")
            goes_on = lives.ending is not None
            assert (lives.job.running, lives.job.code) == (False, AGAIN_CODE if goes_on else 137)
            assert lives.job.again == (Restarts(lives.left, lives.best) if goes_on else None)
            if not goes_on:
                break
            lives, number = Lives(["a"], restarts, by_caller=True, before=lives), number + 1
        reached[number] += 1
    assert all(reached[count] > 20 for count in range(1, 6)), reached


def test_a_caller_starts_it_again_at_once_and_a_program_that_ends_itself_not() -> None:
    lives = Lives(["a", "b"], 1, by_caller=True)
    lives.further(1)
    effects = lives.job.ended(0, -signal.SIGKILL, 1.0)
    assert Signal("b", 1, signal.SIGKILL) in effects
    assert any(isinstance(said, Say) and "is to be started again" in said.text for said in effects)
    assert lives.job.killed
    lives = Lives(["a"], 1, by_caller=True)
    lives.further(1)
    lives.job.ended(0, AGAIN_CODE, 1.0)
    assert (lives.job.code, lives.job.again) == (AGAIN_CODE, None)


def test_a_signal_ends_a_program_that_is_being_started_again() -> None:
    lives = Lives(["a", "b"], 1)
    lives.further(1)
    lives.kill(0)
    effects = lives.job.signalled(signal.SIGTERM, 1.0)
    assert Signal("b", 1, signal.SIGKILL) in effects
    lives.job.ended(1, -signal.SIGKILL, 1.0)
    assert (lives.job.code, lives.job.running) == (128 + signal.SIGTERM, False)


def test_processes_that_do_not_end_keep_the_program_from_starting_again() -> None:
    lives = Lives(["a", "b"], 1)
    lives.further(1)
    lives.kill(0)
    assert lives.job.deadline_s is not None
    assert lives.job.tick(lives.job.deadline_s) == [Signal("b", 1, signal.SIGKILL)]
    assert lives.job.code == 137
    assert lives.job.tick(lives.job.deadline_s)
    assert not lives.job.running
