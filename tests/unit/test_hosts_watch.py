"""Looking at a daemon's hosts again and again."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from support import PATIENCE_S
from support.answering import answering, launcher_to

from scheduler_bridge.backends.hosts import Host, Rules, launcher_of
from scheduler_bridge.backends.hosts.watch import Looker, Watch, run_on_host
from scheduler_bridge.daemon import Standing

RULES = Rules(every_s=0.01, again_s=0.01, slowest_s=0.02, deadline_s=10.0, failures=2)


class Played:
    """Looks at hosts as a test wants, of its own accord only."""

    def stop(self) -> None:
        pass

    async def complaints(self, hosts: Sequence[Host]) -> dict[str, str]:
        raise AssertionError(hosts)


class Daemon(Any):  # type: ignore[misc]  # a stand-in
    """Two nodes; notes the calls, and carries them out."""

    def __init__(self) -> None:
        self.nodes: Sequence[str] = ["a", "b"]
        self.health = self
        self.stands: dict[str, Standing] = {}
        self.calls: list[str] = []
        self._change = asyncio.Event()

    def standing(self, node: str) -> Standing:
        return self.stands.get(node, Standing.SERVING)

    def nodes_of(self, job_id: int) -> Sequence[str]:
        return self.nodes

    def suspect(self, node: str, reason: str) -> None:
        self._note(f"suspect {node}: {reason}", node, Standing.AILING)

    def lose(self, node: str, reason: str, *, spare: bool) -> None:
        self._note(f"lose {node}: {reason}, spare {spare}", node, Standing.AILING)

    def regain(self, node: str) -> None:
        self._note(f"regain {node}", node, Standing.SERVING)

    def add(self, node: str) -> None:
        self.nodes = [*self.nodes, node]
        self.wake()

    def wake(self) -> None:
        self._change.set()
        self._change = asyncio.Event()

    async def changed(self) -> None:
        await self._change.wait()

    async def until(self, words: str) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not any(words in line for line in self.calls):
                await self.changed()

    def _note(self, line: str, node: str, standing: Standing) -> None:
        self.calls.append(line)
        self.stands[node] = standing
        self.wake()


@pytest.fixture
def up(tmp_path: Path) -> Path:
    """A folder in which the hosts that answer have a file."""
    return answering(tmp_path / "up", "a", "b")


def looker(up: Path, needed: Sequence[Path] = ()) -> Looker:
    return Looker(launcher_to(up), deadline_s=10.0, at_once=2, needed=needed)


def test_hosts_that_stop_to_answer_are_lost_and_come_back(up: Path) -> None:
    async def play() -> list[str]:
        daemon = Daemon()
        async with Watch(daemon, lambda node: Host(node, node), looker(up), RULES):
            (up / "b").unlink()
            await daemon.until("lose b")
            (up / "b").touch()
            await daemon.until("regain b")
            daemon.add("c")
            await daemon.until("lose c")
        return daemon.calls

    calls = asyncio.run(play())
    assert [line.partition(":")[0] for line in calls] == ["suspect b", "lose b", "regain b", "suspect c", "lose c"]
    assert calls[1] == f"lose b: cat: {up}/b: No such file or directory, spare True"


def test_a_host_that_failed_before_is_lost_after_the_rest_of_the_failures(up: Path) -> None:
    async def play() -> list[str]:
        daemon = Daemon()
        daemon.stands["b"] = Standing.AILING
        (up / "b").unlink()
        async with Watch(daemon, lambda node: Host(node, node), looker(up), RULES, ["b"]):
            await daemon.until("lose b")
        return daemon.calls

    assert len(asyncio.run(play())) == 1


def test_a_node_that_is_away_is_not_looked_at(up: Path) -> None:
    async def play() -> list[str]:
        daemon = Daemon()
        daemon.stands["a"] = Standing.AWAY
        (up / "a").unlink()
        (up / "b").unlink()
        async with Watch(daemon, lambda node: Host(node, node), looker(up), RULES):
            await daemon.until("lose b")
        return daemon.calls

    assert not [line for line in asyncio.run(play()) if " a:" in line]


def test_a_node_that_has_left_is_not_looked_at_until_it_comes_back(up: Path) -> None:
    forgotten: list[str] = []

    async def play() -> list[str]:
        daemon = Daemon()
        async with Watch(daemon, lambda node: Host(node, node), looker(up), RULES, forget=forgotten.append):
            (up / "b").unlink()
            await daemon.until("lose b")
            daemon.nodes, daemon.stands["b"] = ["a"], Standing.GONE
            daemon.wake()
            (up / "a").unlink()
            await daemon.until("lose a")
            (up / "b").touch()
            daemon.stands["b"] = Standing.AILING
            daemon.add("b")
            await daemon.until("regain b")
        return daemon.calls

    calls = [line.partition(":")[0] for line in asyncio.run(play())]
    assert calls == ["suspect b", "lose b", "suspect a", "lose a", "regain b"]
    assert forgotten == ["b"]


def test_nothing_follows_where_nobody_can_say_how_a_host_is() -> None:
    class Unsure(Played):
        """Knows in the end that b is dead, and never how a is."""

        def __init__(self) -> None:
            self.looks = 0

        async def look(self, host: Host) -> str | None:
            self.looks += host.name == "b"
            return "dead" if host.name == "b" and self.looks > 5 else None

    async def play() -> list[str]:
        daemon = Daemon()
        daemon.stands["a"] = Standing.AILING
        async with Watch(daemon, lambda node: Host(node, node), Unsure(), RULES):
            await daemon.until("lose b")
        return daemon.calls

    assert asyncio.run(play()) == ["suspect b: dead", "lose b: dead, spare True"]


def test_hosts_that_are_looked_at_together_are_looked_at_at_once() -> None:
    class Together(Played):
        """Answers when it has been asked about both."""

        def __init__(self) -> None:
            self.both = asyncio.Barrier(2)

        async def look(self, host: Host) -> str | None:
            await self.both.wait()
            return f"{host.name} is dead"

    async def play() -> list[str]:
        daemon = Daemon()
        rules = Rules(every_s=600.0, failures=1, together=True)
        async with Watch(daemon, lambda node: Host(node, node), Together(), rules):
            await daemon.until("lose a")
            await daemon.until("lose b")
        return daemon.calls

    assert sorted(asyncio.run(play())) == ["lose a: a is dead, spare True", "lose b: b is dead, spare True"]


def test_nodes_of_a_job_that_has_failed_get_no_further_jobs_if_they_are_not_fit(up: Path) -> None:
    daemon = Daemon()
    (up / "b").unlink()
    watch = Watch(daemon, lambda node: Host(node, node), looker(up), RULES)
    found = asyncio.run(watch.complaints(7))
    assert found == {"b": f"cat: {up}/b: No such file or directory"}
    assert daemon.calls == [f"suspect b: {found['b']}"]
    assert asyncio.run(watch.complaints(7)) == found
    assert len(daemon.calls) == 1, "it is out of service already"


def test_an_error_of_a_look_is_not_swallowed(up: Path) -> None:
    async def play() -> None:
        daemon = Daemon()

        asked = asyncio.Event()

        def broken(node: str) -> Host:
            asked.set()
            raise RuntimeError(f"what is {node}?")

        async with asyncio.timeout(PATIENCE_S), Watch(daemon, broken, looker(up), RULES):
            await asked.wait()

    with pytest.raises(ExceptionGroup) as caught:
        asyncio.run(play())
    assert caught.group_contains(RuntimeError, match="what is a")


@pytest.mark.parametrize(
    ("command", "complaint"),
    [
        ("exit 0", ""),
        ("echo motd; echo '  no  way ' >&2; exit 3", "no way"),
        ("exit 3", "exit code 3"),
        ("seq 100000; seq 100000 >&2; exit 1", "100000"),
        ("exec sleep 600", "no answer within 0.5 s"),
        ("(sleep 600 &) ; exec sleep 600", "no answer within 0.5 s"),
    ],
)
def test_what_a_look_gives(command: str, complaint: str) -> None:
    launcher = launcher_of("sh -c {command} {host}")
    deadline_s = 0.5 if "sleep" in command else 20.0
    assert asyncio.run(run_on_host(launcher, Host("h", "h"), command, deadline_s)).complaint == complaint


def test_files_that_jobs_need_are_looked_for(up: Path) -> None:
    looks = looker(up, [up / "a", up / "it's gone"]).look(Host("a", "a"))
    assert asyncio.run(looks) == f"lacks {up}/it's gone"


def test_a_launcher_that_cannot_be_run_is_reported() -> None:
    answer = asyncio.run(run_on_host(launcher_of("/no/such/agent"), Host("h", "h"), "true", 5.0))
    assert answer.complaint == "the launcher /no/such/agent cannot be run: No such file or directory"
