"""Where a place listens, decided for every kind of machine."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from apgas.errors import UsageError
from apgas.runtime import environment, joining, main_module
from apgas.runtime.joining import LOOPBACK, Location, Network, listening_host, machine, node_elsewhere


@dataclass
class Tables(Network):
    """A machine's network as tables."""

    interfaces: dict[str, str] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    routes: dict[str, str] = field(default_factory=dict)

    def interface_address(self, name: str) -> str | None:
        return self.interfaces.get(name)

    def resolve(self, name: str) -> str | None:
        return self.names.get(name)

    def source_towards(self, address: str) -> str | None:
        return self.routes.get(address)


ALPHA = Tables(
    interfaces={"eth0": "192.168.1.1", "ib0": "10.1.0.1"},
    names={"alpha": "127.0.1.1", "beta": "10.1.0.2", "other-alpha": "192.168.1.1"},
    routes={"10.1.0.2": "10.1.0.1"},
)


@pytest.mark.parametrize(
    ("chosen", "towards", "expected"),
    [
        ("", "", LOOPBACK),
        ("", "beta", "10.1.0.1"),  # not eth0, and not what many systems call themselves
        ("eth0", "beta", "192.168.1.1"),
        ("eth0", "", "192.168.1.1"),
        ("10.9.9.9", "beta", "10.9.9.9"),
        ("::1", "", "::1"),
        ("other-alpha", "", "192.168.1.1"),
        (LOOPBACK, "beta", LOOPBACK),
    ],
)
def test_the_user_comes_first_then_the_way_to_the_others(chosen: str, towards: str, expected: str) -> None:
    assert listening_host(chosen, towards, "alpha", ALPHA) == expected


def test_without_a_way_to_the_others_the_own_name_counts_unless_it_is_loopback() -> None:
    assert listening_host("", "nowhere", "other-alpha", ALPHA) == "192.168.1.1"
    with pytest.raises(UsageError, match=r"nowhere is not known here, alpha is 127\.0\.1\.1\nset APGAS_BIND_HOST"):
        listening_host("", "nowhere", "alpha", ALPHA)


@pytest.mark.parametrize("chosen", ["eth7", "no such host", "0.0.0.0", "::"])
def test_an_address_that_nobody_could_reach_is_refused(chosen: str) -> None:
    with pytest.raises(UsageError, match=f"APGAS_BIND_HOST={chosen}"):
        listening_host(chosen, "", "alpha", ALPHA)


def test_names_alone_do_not_make_machines() -> None:
    here = machine()
    assert node_elsewhere(Location(here, "nodeA"), [Location(here, "nodeA"), Location(here, "nodeB")]) == ""
    far = Location(("other", *here[1:]), "nodeC")
    assert node_elsewhere(Location(here, "nodeA"), [Location(here, "nodeB"), far]) == "nodeC"


def test_a_machine_in_a_network_of_its_own_is_another_one() -> None:
    name, boot, network = machine()
    me = Location((name, boot, network), "a")
    assert node_elsewhere(me, [me, Location((name, boot, "net:[1]"), "b")]) == "b"
    assert node_elsewhere(me, [me, Location((name, "booted later", network), "c")]) == "c"


def test_this_machine_knows_its_loopback() -> None:
    network = Network()
    assert network.interface_address("lo") == LOOPBACK
    assert network.interface_address("no-such-interface-at-all") is None
    assert network.resolve("localhost") == LOOPBACK
    assert network.resolve("name.invalid") is None
    assert network.source_towards(LOOPBACK) == LOOPBACK


def test_a_working_folder_that_is_gone_is_not_taken_for_a_failed_setup(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    monkeypatch.chdir(folder)
    state = main_module.program_state(None)
    monkeypatch.chdir(tmp_path)
    folder.rmdir()
    reason = f"{environment.node_name()}: cannot enter the program's working folder {folder}: No such file or directory"
    assert joining._set_up(state) == reason
