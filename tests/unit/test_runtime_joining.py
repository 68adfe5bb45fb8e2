"""Where a place listens, decided for every kind of machine."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from apgas.errors import UsageError
from apgas.runtime import environment, joining, main_module
from apgas.runtime.joining import LOOPBACK, Location, listen_where, machine, node_elsewhere


@pytest.fixture
def own_name(monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of this machine, whose network is some tables."""
    own_name = os.uname().nodename
    interfaces = {"eth0": "192.168.1.1", "ib0": "10.1.0.1"}
    names = {own_name: "127.0.1.1", "beta": "10.1.0.2", "other-name": "192.168.1.1"}
    monkeypatch.setattr(joining, "_interface_address", interfaces.get)
    monkeypatch.setattr(joining, "_resolved", names.get)
    monkeypatch.setattr(joining, "_source_towards", {"10.1.0.2": "10.1.0.1"}.get)
    return own_name


@pytest.mark.parametrize(
    ("chosen", "towards", "expected"),
    [
        ("", "", LOOPBACK),
        ("", "beta", "10.1.0.1"),  # not eth0, and not what many systems call themselves
        ("eth0", "beta", "192.168.1.1"),
        ("eth0", "", "192.168.1.1"),
        ("10.9.9.9", "beta", "10.9.9.9"),
        ("::1", "", "::1"),
        ("other-name", "", "192.168.1.1"),
        (LOOPBACK, "beta", LOOPBACK),
    ],
)
@pytest.mark.usefixtures("own_name")
def test_the_user_comes_first_then_the_way_to_the_others(
    chosen: str, towards: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(joining.ENV_BIND_HOST, chosen)
    assert listen_where(towards) == expected


def test_without_a_way_to_the_others_the_own_name_counts_unless_it_is_loopback(
    own_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(
        UsageError, match=rf"nowhere is not known here, {own_name} is 127\.0\.1\.1\nset APGAS_BIND_HOST"
    ):
        listen_where("nowhere")
    monkeypatch.setattr(joining, "_resolved", {own_name: "192.168.1.1"}.get)
    assert listen_where("nowhere") == "192.168.1.1"


@pytest.mark.usefixtures("own_name")
@pytest.mark.parametrize("chosen", ["eth7", "no such host", "0.0.0.0", "::"])
def test_an_address_that_nobody_could_reach_is_refused(chosen: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(joining.ENV_BIND_HOST, chosen)
    with pytest.raises(UsageError, match=f"APGAS_BIND_HOST={chosen}"):
        listen_where("")


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
    assert joining._interface_address("lo") == LOOPBACK
    assert joining._interface_address("no-such-interface-at-all") is None
    assert joining._resolved("localhost") == LOOPBACK
    assert joining._resolved("name.invalid") is None
    assert joining._source_towards(LOOPBACK) == LOOPBACK


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
