"""The environment that is arranged before MPI is loaded."""

from __future__ import annotations

import os
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from apgas.errors import UsageError
from apgas.runtime import environment
from apgas.runtime.environment import Launch, launched_by

BTL = "OMPI_MCA_btl"
EXCLUDED = "OMPI_MCA_btl_tcp_if_exclude"


@pytest.fixture
def alone() -> Iterator[pytest.MonkeyPatch]:
    """An environment without any launcher, which is restored after what the test and `prepare` have set."""
    before = dict(os.environ)
    with pytest.MonkeyPatch.context() as patch:
        for name in before:
            if name.startswith(("PMI", "OMPI", "PRTE", "SLURM", "MPI", "HYDRA")):
                patch.delenv(name)
        yield patch
    os.environ.clear()
    os.environ.update(before)


@pytest.mark.parametrize(
    ("variables", "launch"),
    [
        ({}, Launch("none")),
        ({"PMI_FD": "9", "PMI_RANK": "0", "PMI_SIZE": "3"}, Launch("hydra", 3)),
        ({"OMPI_COMM_WORLD_SIZE": "4", "PMIX_RANK": "0"}, Launch("openmpi", 4)),
        ({"PMIX_RANK": "0"}, Launch("pmix")),
        ({"SLURM_STEP_NUM_TASKS": "8", "SLURM_PROCID": "1"}, Launch("slurm", 8)),
        # A job script of Slurm is not a step, and our mpiexec inside one is what counts.
        ({"SLURM_JOB_ID": "7", "SLURM_NTASKS": "8"}, Launch("none")),
        ({"SLURM_STEP_NUM_TASKS": "8", "PMI_RANK": "0", "PMI_SIZE": "2"}, Launch("hydra", 2)),
        ({"PMI_RANK": "0", "PMI_SIZE": "many"}, Launch("hydra")),
    ],
)
def test_the_launcher_is_read_from_the_environment(variables: dict[str, str], launch: Launch) -> None:
    assert launched_by(variables) == launch


def test_our_launcher_is_known_by_its_stream_and_no_other_is_taken_for_it() -> None:
    """A program that it started may start mpiexec, whose processes inherit the mark, but have another stream."""
    ours, other = socket.socketpair()
    with ours, other:
        mark = {"APGAS_LAUNCH": environment.stream_name(ours.fileno()), "PMI_SIZE": "2"}
        assert environment.launched_by({**mark, "PMI_FD": str(ours.fileno())}) == Launch("launch", 2)
        assert environment.launched_by({**mark, "PMI_FD": str(other.fileno())}) == Launch("hydra", 2)
    assert environment.launched_by({**mark, "PMI_FD": "99999999999"}) == Launch("hydra", 2)


def test_places_may_finalize_alone(alone: pytest.MonkeyPatch) -> None:
    alone.setenv("PMI_RANK", "0")
    environment.prepare()
    assert os.environ["MPIR_CVAR_NO_COLLECTIVE_FINALIZE"] == "1"


def test_a_plain_program_finds_its_own_mpiexec_and_needs_no_ssh(alone: pytest.MonkeyPatch) -> None:
    alone.setenv("PATH", "/usr/bin:/bin")
    environment.prepare()
    environment.prepare()
    assert os.environ["HYDRA_LAUNCHER"] == "fork"
    assert os.environ["PATH"] == f"{sys.prefix}/bin:/usr/bin:/bin"


@pytest.mark.parametrize(
    ("variables", "openmpi", "without"),
    [
        ({}, False, True),
        ({"HYDRA_LAUNCHER": "fork"}, False, True),
        ({"HYDRA_LAUNCHER": "ssh"}, False, False),
        ({"SLURM_JOB_ID": "7"}, False, False),
        ({"SLURM_JOB_ID": "7"}, True, True),
        ({"SLURM_JOB_ID": "7", "HYDRA_LAUNCHER": "fork"}, False, True),
        ({"APGAS_TRANSPORT": "mpi"}, False, False),
        ({"PMI_RANK": "0"}, False, False),
    ],
)
def test_a_program_that_stays_here_needs_no_mpi(
    variables: dict[str, str], openmpi: bool, without: bool, alone: pytest.MonkeyPatch
) -> None:
    alone.setattr(environment, "_bundled", lambda mpi: openmpi and mpi is environment.OPEN_MPI)
    for name, value in variables.items():
        alone.setenv(name, value)
    assert environment.needs_no_mpi(os.environ) == without


def test_the_users_choice_of_launcher_is_kept(alone: pytest.MonkeyPatch) -> None:
    alone.setenv("HYDRA_LAUNCHER", "ssh")
    environment.prepare()
    assert os.environ["HYDRA_LAUNCHER"] == "ssh"


def test_inside_slurm_the_launcher_is_left_to_hydra(alone: pytest.MonkeyPatch) -> None:
    alone.setenv("SLURM_JOB_ID", "7")
    environment.prepare()
    assert "HYDRA_LAUNCHER" not in os.environ


def test_under_mpiexec_path_is_left_alone(alone: pytest.MonkeyPatch) -> None:
    alone.setenv("PATH", "/usr/bin")
    alone.setenv("PMI_RANK", "0")
    environment.prepare()
    assert os.environ["PATH"] == "/usr/bin"
    assert "HYDRA_LAUNCHER" not in os.environ


def test_the_mpiexec_of_open_mpi_is_refused(alone: pytest.MonkeyPatch) -> None:
    alone.setenv("OMPI_COMM_WORLD_SIZE", "4")
    with pytest.raises(UsageError, match="Open MPI") as caught:
        environment.prepare()
    assert f"{sys.prefix}/bin/mpiexec" in str(caught.value)
    assert "of 4 processes would be alone" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value"), [("OMPI_MCA_async_mpi_finalize", "1"), ("OMPI_MCA_pml", "ob1"), (BTL, "self,tcp")]
)
def test_open_mpi_gets_what_it_needs(alone: pytest.MonkeyPatch, name: str, value: str) -> None:
    environment.prepare()
    assert os.environ[name] == value


def test_what_the_user_tells_open_mpi_is_kept(alone: pytest.MonkeyPatch) -> None:
    alone.setenv(BTL, "self,sm,tcp")
    environment.prepare()
    assert os.environ[BTL] == "self,sm,tcp"


@pytest.mark.parametrize("interfaces", [("lo", 0x49, "eth0", 0x1002), ("lo", 0x49)])
def test_a_machine_with_nothing_but_loopback_lets_open_mpi_use_it(
    alone: pytest.MonkeyPatch, tmp_path: Path, interfaces: tuple[str | int, ...]
) -> None:
    network(tmp_path, *interfaces)
    alone.setattr(environment, "_INTERFACES", tmp_path)
    environment.prepare()
    assert os.environ[EXCLUDED] == "none"


def test_a_machine_with_a_network_leaves_open_mpi_the_choice(alone: pytest.MonkeyPatch, tmp_path: Path) -> None:
    network(tmp_path, "lo", 0x49, "eth0", 0x1003)
    alone.setattr(environment, "_INTERFACES", tmp_path)
    environment.prepare()
    assert EXCLUDED not in os.environ


def network(folder: Path, *interfaces: str | int) -> None:
    for name, flags in zip(interfaces[::2], interfaces[1::2], strict=True):
        (folder / str(name)).mkdir()
        (folder / str(name) / "flags").write_text(f"{flags:#x}\n")


def test_open_mpi_leaves_no_folder_of_a_program_without_mpiexec(alone: pytest.MonkeyPatch) -> None:
    alone.setattr(environment, "_bundled", lambda mpi: mpi is environment.OPEN_MPI)
    alone.delenv("TMPDIR", raising=False)
    with environment.tidied(Launch("none")):
        folder = Path(os.environ["TMPDIR"])
        (folder / "ompi.host.0").mkdir()
    assert not folder.exists()
    assert "TMPDIR" not in os.environ
    with environment.tidied(Launch("openmpi", 2)):
        assert "TMPDIR" not in os.environ


def test_open_mpi_may_start_open_mpi(alone: pytest.MonkeyPatch) -> None:
    alone.setenv("OMPI_COMM_WORLD_SIZE", "4")
    alone.setattr(environment, "_bundled", lambda mpi: mpi is environment.OPEN_MPI)
    assert environment.prepare() == Launch("openmpi", 4)


@pytest.mark.parametrize("launch", [Launch("slurm", 4), Launch("hydra", 4), Launch("openmpi", 4)])
def test_worlds_of_one_are_refused(launch: Launch) -> None:
    with pytest.raises(UsageError, match="world of size 1"):
        environment.check_world(launch, 1, "MPICH 5.0.2")


@pytest.mark.parametrize(
    ("launch", "size"), [(Launch("hydra", 4), 4), (Launch("hydra", 1), 1), (Launch("none"), 1), (Launch("pmix"), 1)]
)
def test_true_worlds_are_accepted(launch: Launch, size: int) -> None:
    environment.check_world(launch, size, "MPICH 5.0.2")


def test_a_node_is_named_by_the_launcher_or_else_by_the_host(alone: pytest.MonkeyPatch) -> None:
    assert environment.node_name() == os.uname().nodename
    alone.setenv("PMI_HOSTNAME", "nodeB")
    assert environment.node_name() == "nodeB"


def test_the_limit_of_open_files_rises_and_never_falls() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    hard = before[1]
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (100, hard))
        assert environment.raise_open_files_limit(150) == 150
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (150, hard)
        assert environment.raise_open_files_limit(120) == 150
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_newcomers_take_over_what_the_program_has_changed(alone: pytest.MonkeyPatch) -> None:
    before = {"KEPT": "1", "CHANGED": "1", "REMOVED": "1", "PMI_RANK": "0", "SLURM_PROCID": "0"}
    now = {"KEPT": "1", "CHANGED": "2", "ADDED": "3", "PMI_RANK": "7"}
    changed = environment.changes(now, before)
    assert changed == {"CHANGED": "2", "ADDED": "3", "REMOVED": None}
    alone.setenv("REMOVED", "1")
    alone.delenv("KEPT", raising=False)
    environment.take_over(changed)
    assert (os.environ["CHANGED"], os.environ["ADDED"]) == ("2", "3")
    assert not {"REMOVED", "KEPT"} & os.environ.keys()


def test_newcomers_do_not_take_over_what_every_place_prepares(alone: pytest.MonkeyPatch) -> None:
    before = dict(os.environ)
    environment.prepare()
    assert os.environ != before
    assert environment.changes(os.environ, before) == {}
    alone.setenv("MPIR_CVAR_NO_COLLECTIVE_FINALIZE", "0")
    assert environment.changes(os.environ, before) == {"MPIR_CVAR_NO_COLLECTIVE_FINALIZE": "0"}


def test_the_environment_at_the_start_is_known_later() -> None:
    code = "import os; os.environ['A'] = '2'; from apgas.runtime import environment as e; print(e.at_start()['A'])"
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "A": "1"}, capture_output=True, text=True, check=True
    )
    assert done.stdout == "1\n"


def test_children_started_under_the_shield_do_not_hear_ctrl_c() -> None:
    with environment.shielded_from_interrupt():
        inside = _blocked_in_child()
    assert inside & (1 << (signal.SIGINT - 1))
    assert not _blocked_in_child() & (1 << (signal.SIGINT - 1))


def _blocked_in_child() -> int:
    status = subprocess.run(["/bin/cat", "/proc/self/status"], capture_output=True, text=True, check=True).stdout
    (line,) = [line for line in status.splitlines() if line.startswith("SigBlk:")]
    return int(line.split()[1], 16)


def test_mpi_is_not_loaded_before_it_is_wanted() -> None:
    probe = "import sys, apgas.runtime.environment; print('mpi4py' in sys.modules, 'numpy' in sys.modules)"
    env = {"PATH": "/usr/bin", "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run([sys.executable, "-c", probe], env=env, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
