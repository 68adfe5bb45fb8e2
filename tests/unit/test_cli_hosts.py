"""The commands for hosts, as far as they get without any."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scheduler_bridge.backends.hosts import Host, launcher_of
from scheduler_bridge.backends.hosts.examine import finding
from scheduler_bridge.backends.hosts.watch import Answer
from scheduler_bridge.cli.app import run

LAUNCHER = launcher_of("ssh")
OURS = {"Python": "3.12.1", "malleable-apgas": "1", "mpi4py": "4.1", "MPICH": "5.0.2", "apgas": "/shared/apgas"}
THEIRS = {**OURS, "cores": "8", "folder": "True", "reaches": "", "runs": ""}


@pytest.fixture
def hosts(tmp_path: Path) -> Path:
    path = tmp_path / "hosts.txt"
    path.write_text("alpha:2\nbeta\n", encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--launcher", "ssh"], "--launcher without hosts"),
        (["--nodes", "2", "--web-host", "0.0.0.0"], "--web-host without --web"),
        (["--nodes", "2", "--harvest", "spare"], "--harvest without --backend slurm"),
        (["--hosts", "FILE", "--nodes", "2"], "serve --hosts needs no other nodes"),
        (["--hosts", "FILE", "--node-names", "a"], "serve --hosts needs no other nodes"),
        (["--hosts", "FILE", "--backend", "slurm"], "serve --hosts needs no other nodes"),
        (["--hosts", "FILE", "--launcher", "ssh {host}"], "the launcher 'ssh {host}' needs {command} once"),
        (["--hosts", "FILE.none"], "hosts.txt.none: No such file or directory"),
        (["--hosts", "FILE", "--launcher", "/no/such/agent"], "answers, alpha for one: the launcher /no/such/agent"),
    ],
)
def test_serve_says_what_is_wrong(
    hosts: Path, tmp_path: Path, words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [word.replace("FILE", str(hosts)) for word in words]
    assert run(["serve", "--state", str(tmp_path / "state"), *words]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('hosts = "hosts.txt"\nlauncher = ""\n[health]\nfailures = 0', "malleable.toml:3: health: expected int >= 1"),
        ("[health]\nevery_s = inf", "malleable.toml:1: health: expected float <= 1000000000000000.0"),
        ("nodes = 2\ngrace_s = nan", "malleable.toml:2: grace_s: expected float >= 0.0"),
        ("nodes = 2\ncooldown_s = 1e300", "malleable.toml:2: cooldown_s: expected float <= 1000000000000000.0"),
        ('hosts = "none.txt"', "none.txt: No such file"),
        ('hosts = "hosts.txt"\nlauncher = "/no/such/agent"', "the launcher /no/such/agent cannot be run"),
    ],
)
def test_a_configuration_names_hosts_as_seen_from_its_folder(
    hosts: Path, text: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    config = hosts.with_name("malleable.toml")
    config.write_text(text, encoding="utf-8")
    assert run(["serve", "--state", str(hosts.parent / "state"), "--config", str(config)]) == 2
    assert message in capsys.readouterr().err


def test_doctor_looks_at_all_hosts(hosts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The launcher of this test runs everything here."""
    agent = tmp_path / "agent"
    agent.write_text('#!/bin/sh\n[ "$1" = beta ] && { echo "no route" >&2; exit 255; }\nexec sh -c "$2"\n')
    agent.chmod(0o755)
    assert run(["doctor", "--hosts", str(hosts), "--launcher", str(agent)]) == 1
    said = capsys.readouterr()
    alpha, beta, *_ = said.out.splitlines()
    assert alpha.startswith("ok    alpha")
    assert "as here" in alpha
    assert beta.split() == ["FAIL", "beta", "no", "route"]
    assert f"this has to work: {agent} beta true" in said.out
    assert "1 of 2 hosts cannot run jobs" in said.err


@pytest.mark.parametrize(
    ("differs", "came", "mend"),
    [
        ({"MPICH": "none"}, "MPICH is none, here 5.0.2", "install there what is here"),
        ({"apgas": "/home/apgas"}, "apgas is /home/apgas, here /shared/apgas", "install there what is here"),
        ({"folder": "False"}, "the folder from which this was called is not there", "that all hosts share"),
        ({"reaches": "timed out"}, "it does not reach 10.0.0.1:99 here: timed out", "open the ports"),
        ({"runs": "Permission denied"}, "from there beta is not reached: Permission denied", "between all hosts"),
    ],
)
def test_what_a_host_lacks_is_reported_with_what_to_do(differs: dict[str, str], came: str, mend: str) -> None:
    found = finding(Host("h", "h", 4), LAUNCHER, answer({**THEIRS, **differs}), OURS, "10.0.0.1:99", "beta")
    assert not found.ok
    assert came in found.came
    assert mend in found.mend


def test_a_host_that_is_fit_is_listed_with_its_cores() -> None:
    fit = finding(Host("h", "h", 16), LAUNCHER, answer(THEIRS), OURS, "10.0.0.1:99", "beta")
    assert (fit.ok, fit.mend) == (True, "")
    assert fit.came == "Python 3.12.1, MPICH 5.0.2, as here; 8 cores, the file says 16"
    assert finding(Host("h", "h"), LAUNCHER, answer({**THEIRS, "runs": "x"}), OURS, "", "").ok


@pytest.mark.parametrize("said", ["", "Welcome!", "[1]"])
def test_a_host_that_says_something_else_is_not_fit(said: str) -> None:
    found = finding(Host("h", "me@h"), LAUNCHER, Answer(said), OURS, "", "")
    assert not found.ok
    assert "ssh-copy-id me@h" in found.mend


def answer(facts: dict[str, str]) -> Answer:
    return Answer(f"motd\n{json.dumps(facts)}\n")
