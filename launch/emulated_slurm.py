"""Slurm on the hosts of an emulated cluster: one controller beside them, one daemon on each.

Everything it writes lies in a folder that vanishes with the cluster, and its daemons are processes of the cluster. The
host of the controller is called `login`: users' commands run there, as on a real site.
"""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

LOGIN = "login"
ADDRESS = "10.0.0.254"
READY_S = 30.0
_ASK_S = 5.0
_PAUSE_S = 0.05
_SOCKET = Path("/run/slurm/sack.socket")
_SOCKET_S = 5.0
_SOCKET_PAUSE_S = 0.005
_SHOWN_LINES = 5

_CONFIGURATION = """\
ClusterName=emulated
SlurmctldHost={login}({address})
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/slurm
CredType=cred/slurm
PluginDir={plugins}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters={parameters}batch_sched_delay=0,sched_interval=1,sched_min_interval=0,bf_interval=1
MpiDefault=none
SwitchType=switch/none
ReturnToService=2
SlurmdParameters=config_overrides
SlurmdTimeout=60
KillWait=3
NodeName=host[1-{hosts}] CPUs=2 RealMemory=4000 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO
"""


class SlurmError(Exception):
    """Slurm does not start; the text says why."""


def start(
    commands: Path, folder: Path, hosts: Sequence[str], enter: Callable[[str, list[str]], list[str]], *, expansion: bool
) -> dict[str, str]:
    """Start Slurm's daemons and wait until all hosts are idle.

    Args:
        commands: Where Slurm's commands are.
        folder: For configuration, logs and state.
        hosts: host1, host2, ...
        enter: Makes of a command one that runs on a host.
        expansion: Whether a job may be expanded by another one (permit_job_expansion).

    Returns:
        What lets commands find Slurm: variables of the environment.

    Raises:
        SlurmError: It does not start.
    """
    for part in ("state", "spool"):
        (folder / part).mkdir(parents=True)
    plugins = next((commands.parent / "root").glob("usr/lib/*/slurm-wlm"))
    (folder / "slurm.conf").write_text(
        _CONFIGURATION.format(
            login=LOGIN, address=ADDRESS, user="root", plugins=plugins, folder=folder, hosts=len(hosts),
            parameters="permit_job_expansion," if expansion else "",
        ),
        encoding="utf-8",
    )  # fmt: skip
    (folder / "cgroup.conf").write_text("CgroupPlugin=disabled\n", encoding="utf-8")
    key = folder / "slurm.key"
    key.write_bytes(secrets.token_bytes(256))
    key.chmod(0o600)
    found = {"SLURM_CONF": str(folder / "slurm.conf"), "PATH": f"{commands}:{os.environ.get('PATH', os.defpath)}"}
    environment = {**os.environ, **found}
    started = {"slurmctld": _start([str(commands / "slurmctld"), "-D", "-c"], folder / "slurmctld.err", environment)}
    for host in hosts:
        daemon = [str(commands / "slurmd"), "-D", "-N", host, "-d", str(commands / "slurmstepd")]
        name, before = f"slurmd.{host}", _socket()
        started[name] = _start(enter(host, daemon), folder / f"{name}.err", environment)
        _wait_for_socket(started[name], before)
    _wait(started, folder, len(hosts), environment)
    return found


def _socket() -> tuple[int, int] | None:
    """Which file the socket is for Slurm's credentials; None: there is none."""
    try:
        found = _SOCKET.stat()
    except OSError:
        return None
    return found.st_ino, found.st_ctime_ns


def _wait_for_socket(daemon: subprocess.Popen[bytes], before: tuple[int, int] | None) -> None:
    """Wait until a slurmd has its socket, or ends, or takes too long.

    The hosts have one file system, so each takes the path from the one before: two at once may both remove what is
    there, and then the second one finds it there again and gives up.
    """
    until = time.monotonic() + _SOCKET_S
    while daemon.poll() is None and _socket() in (before, None) and time.monotonic() < until:
        time.sleep(_SOCKET_PAUSE_S)


def _start(command: list[str], said: Path, environment: dict[str, str]) -> subprocess.Popen[bytes]:
    with said.open("wb") as stream:
        return subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=stream, stderr=stream, start_new_session=True,
            preexec_fn=_unblock,  # noqa: PLW1509 - no other thread runs yet
        )  # fmt: skip


def _unblock() -> None:
    """The init has blocked signals; Slurm's jobs would begin so, and hear nothing of their end."""
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _wait(daemons: dict[str, subprocess.Popen[bytes]], folder: Path, hosts: int, environment: dict[str, str]) -> None:
    until = time.monotonic() + READY_S
    states = ""
    while time.monotonic() < until:
        for name, daemon in daemons.items():
            if daemon.poll() is not None:
                raise SlurmError(f"{name} has ended ({daemon.returncode}): {_last_words(folder, name)}")
        try:
            asked = subprocess.run(
                ["sinfo", "-h", "-N", "-o", "%T"], env=environment, stdin=subprocess.DEVNULL, capture_output=True,
                text=True, timeout=_ASK_S, check=False,
            )  # fmt: skip
            states = asked.stdout + asked.stderr
        except subprocess.TimeoutExpired:
            continue  # it is still starting
        if states.split() == ["idle"] * hosts:
            return
        time.sleep(_PAUSE_S)
    raise SlurmError(f"its hosts are not idle after {READY_S:.0f} s: {' '.join(states.split())}")


def _last_words(folder: Path, name: str) -> str:
    for path in (folder / f"{name}.log", folder / f"{name}.err"):
        if path.exists() and path.stat().st_size:
            return " | ".join(path.read_text(encoding="utf-8", errors="replace").splitlines()[-_SHOWN_LINES:])
    return "it said nothing"
