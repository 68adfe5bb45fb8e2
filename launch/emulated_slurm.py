"""Slurm on the hosts of an emulated cluster: one controller beside them, one daemon on each; accounting if wanted.

Everything it writes lies in a folder that vanishes with the cluster, and its daemons are processes of the cluster. The
host of the controller is called `login`: users' commands run there, as on a real site.
"""

from __future__ import annotations

import fcntl
import os
import platform
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

LOGIN = "login"
ADDRESS = "10.0.0.254"
READY_S = 60.0
_ASK_S = 30.0
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
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters={parameters}batch_sched_delay=0,sched_interval=1,sched_min_interval=0,bf_interval=1
MpiDefault=none
SwitchType=switch/none
ReturnToService=2
SlurmdParameters=config_overrides
SlurmdTimeout=60
KillWait=3
"""
_PLAIN = """\
AccountingStorageType=accounting_storage/none
NodeName=host[1-{hosts}] CPUs=2 RealMemory=4000 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO PriorityTier=10 PreemptMode=OFF
"""

# Jobs of the partition `spare` run on any node until a job of the others wants it -------------------------------------

_PREEMPTION = """\
PreemptType=preempt/partition_prio
PreemptMode=CANCEL
PartitionName=spare Nodes=ALL PriorityTier=1 PreemptMode=CANCEL GraceTime=10 State=UP
"""

# A centre -------------------------------------------------------------------------------------------------------------
#
# The last host is another kind of node, with a partition of its own. `physics`, the default account, has no limits.

_CENTRE = """\
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost={login}
AccountingStorageEnforce=associations,limits,qos
AccountingStoreFlags=job_comment
NodeName=host[1-{few}] CPUs=2 RealMemory=4000 State=UNKNOWN
NodeName=host{hosts} CPUs=2 RealMemory=8000 Feature=large State=UNKNOWN
PartitionName=main Nodes=host[1-{few}] Default=YES PriorityTier=10 PreemptMode=OFF State=UP
PartitionName=large Nodes=host{hosts} PriorityTier=10 PreemptMode=OFF State=UP
"""
_DATABASE = """\
AuthType=auth/slurm
DbdHost={login}
DbdAddr={address}
SlurmUser=root
PidFile={folder}/slurmdbd.pid
LogFile={folder}/slurmdbd.log
PluginDir={plugins}
CommitDelay=0
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=root
StorageLoc=slurm
"""
_ACCOUNTS = (
    "add cluster emulated",
    "add qos few MaxJobsPerUser=2",
    "add qos narrow GrpTRES=node=2",
    "add qos short MaxWall=10",
    "add account physics chemistry Cluster=emulated",
    "modify account chemistry set GrpTRES=node=2",
    "add user root Account=physics,chemistry DefaultAccount=physics",
    "modify user root set QosLevel=normal,few,narrow,short",
)
"""What is said to sacctmgr, a call each."""


class SlurmError(Exception):
    """Slurm does not start; the text says why."""


def start(
    commands: Path,
    folder: Path,
    hosts: Sequence[str],
    enter: Callable[[str, list[str]], list[str]],
    *,
    expansion: bool,
    accounting: bool,
    preemption: bool,
) -> dict[str, str]:
    """Start Slurm's daemons and wait until all hosts are idle.

    Args:
        commands: Where Slurm's commands are.
        folder: For configuration, logs and state.
        hosts: host1, host2, ...
        enter: Makes of a command one that runs on a host.
        expansion: Whether a job may be expanded by another one (permit_job_expansion).
        accounting: Whether it has a database, accounts, limits and several partitions; one of them is preempted.
        preemption: Whether it has a partition whose jobs are preempted.

    Returns:
        What lets commands find Slurm: variables of the environment.

    Raises:
        SlurmError: It does not start.
    """
    for part in ("state", "spool"):
        (folder / part).mkdir(parents=True)
    names = {
        "login": LOGIN, "address": ADDRESS, "user": "root", "folder": folder, "hosts": len(hosts),
        "few": len(hosts) - 1, "parameters": "permit_job_expansion," if expansion else "",
        "plugins": next((commands.parent / "root").glob("usr/lib/*/slurm-wlm")),
    }  # fmt: skip
    text = _CONFIGURATION + (_CENTRE if accounting else _PLAIN) + (_PREEMPTION if accounting or preemption else "")
    (folder / "slurm.conf").write_text(text.format_map(names), encoding="utf-8")
    (folder / "cgroup.conf").write_text("CgroupPlugin=disabled\n", encoding="utf-8")
    key = folder / "slurm.key"
    key.write_bytes(secrets.token_bytes(256))
    key.chmod(0o600)
    found = {"SLURM_CONF": str(folder / "slurm.conf"), "PATH": f"{commands}:{os.environ.get('PATH', os.defpath)}"}
    environment = {**os.environ, **found}
    started = {}
    if accounting:
        (folder / "slurmdbd.conf").write_text(_DATABASE.format_map(names), encoding="utf-8")
        (folder / "slurmdbd.conf").chmod(0o600)
        _start_accounting(commands, folder, started, environment)
    started["slurmctld"] = _start([str(commands / "slurmctld"), "-D", "-c"], folder / "slurmctld.err", environment)
    for host in hosts:
        daemon = [str(commands / "slurmd"), "-D", "-N", host, "-d", str(commands / "slurmstepd")]
        name, before = f"slurmd.{host}", _socket()
        started[name] = _start(enter(host, daemon), folder / f"{name}.err", environment)
        _wait_for_socket(started[name], before)
    _wait(started, folder, len(hosts), environment)
    return found


def _start_accounting(
    commands: Path, folder: Path, started: dict[str, subprocess.Popen[bytes]], environment: dict[str, str]
) -> None:
    """Start MariaDB on an empty folder and Slurm's daemon of the database, and make the accounts."""
    (folder / "mariadb").mkdir()
    listens = folder / "mariadb.sock"
    shared = commands.parent / "root" / "usr" / "share" / "mariadb"
    mariadb = [
        str(commands / "mariadbd"), "--no-defaults", "--user=root", f"--datadir={folder / 'mariadb'}",
        # it names temporary files after its process, whose number those of other clusters have, too
        f"--tmpdir={folder}", "--innodb-use-native-aio=0",
        "--innodb-log-file-size=16M", "--innodb-buffer-pool-size=32M", "--innodb-undo-tablespaces=0",
        "--innodb-flush-log-at-trx-commit=0", f"--lc-messages-dir={shared}",
        f"--character-sets-dir={shared / 'charsets'}",
    ]  # fmt: skip
    # slurmdbd would make its database and connect a second time, which MariaDB's client library 3.4.10 spoils
    tables = "CREATE DATABASE slurm;\nCREATE DATABASE mysql;\nUSE mysql;\n"
    tables += (shared / "mariadb_system_tables.sql").read_text(encoding="utf-8")
    made = _ask([*mariadb, "--bootstrap"], environment, tables)
    if made.returncode:
        raise SlurmError(f"mariadbd --bootstrap has ended ({made.returncode}): {made.stderr.strip()[-500:]}")
    # No table says who its users are; only processes of the cluster reach its socket.
    mariadb += ["--skip-grant-tables", "--skip-networking", f"--socket={listens}"]
    started["mariadbd"] = _start(mariadb, folder / "mariadbd.err", environment)
    _until(listens.is_socket, "MariaDB listens", started, folder)
    finds = {**environment, "MYSQL_UNIX_PORT": str(listens)}  # where the library of MariaDB's clients looks
    started["slurmdbd"] = _start([str(commands / "slurmdbd"), "-D"], folder / "slurmdbd.err", finds)
    _until(lambda: _ask(["sacctmgr", "ping"], environment).returncode == 0, "slurmdbd answers", started, folder)
    for line in _ACCOUNTS:
        said = _ask(["sacctmgr", "--immediate", *line.split()], environment)
        if said.returncode:
            raise SlurmError(
                f"sacctmgr {line}: {said.stdout.strip()} {said.stderr.strip()}; {_last_words(folder, 'slurmdbd')}"
            )


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
            command, cwd=said.parent, env=environment, stdin=subprocess.DEVNULL, stdout=stream, stderr=stream,
            start_new_session=True,
            preexec_fn=_unblock,  # noqa: PLW1509 - no other thread runs yet
        )  # fmt: skip


def _unblock() -> None:
    """The init has blocked signals; Slurm's jobs would begin so, and hear nothing of their end."""
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _wait(daemons: dict[str, subprocess.Popen[bytes]], folder: Path, hosts: int, environment: dict[str, str]) -> None:
    def idle() -> bool:
        asked = _ask(["sinfo", "-h", "-N", "-o", "%N|%T"], environment)
        return set(asked.stdout.split()) == {f"host{number}|idle" for number in range(1, hosts + 1)}

    _until(idle, "all hosts are idle", daemons, folder)


def _until(holds: Callable[[], bool], what: str, daemons: dict[str, subprocess.Popen[bytes]], folder: Path) -> None:
    until = time.monotonic() + READY_S
    while time.monotonic() < until:
        for name, daemon in daemons.items():
            if daemon.poll() is not None:
                raise SlurmError(f"{name} has ended ({daemon.returncode}): {_last_words(folder, name)}")
        try:
            if holds():
                return
        except subprocess.TimeoutExpired:
            continue  # it is still starting
        time.sleep(_PAUSE_S)
    last = next(reversed(daemons))
    raise SlurmError(f"not within {READY_S:.0f} s: {what}; {last}: {_last_words(folder, last)}")


def _ask(command: list[str], environment: dict[str, str], text: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, env=environment, input=text, capture_output=True, text=True, timeout=_ASK_S, check=False
    )


def _last_words(folder: Path, name: str) -> str:
    for path in (folder / f"{name}.log", folder / f"{name}.err"):
        if path.exists() and path.stat().st_size:
            return " | ".join(path.read_text(encoding="utf-8", errors="replace").splitlines()[-_SHOWN_LINES:])
    return "it said nothing"


# Slurm in a folder of its own -----------------------------------------------------------------------------------------
#
# The packages are Debian's, of one release, whatever release this machine has: they are unpacked, not installed, and
# use the loader and the libraries that come with them. The mirror, proxies and keys are those of the machine's own apt
# configuration. The folder is made once and found again; a second caller waits for the first.

RELEASE = os.environ.get("MALLEABLE_SLURM_RELEASE") or "trixie"
"""It has Slurm 24.11. Testing and unstable have the newest; they go on, and what was installed of them does not."""
RELEASES = {"bullseye", "bookworm", "trixie", "forky", "oldstable", "stable", "testing", "unstable", "sid"}
"""Of which a machine may have one in its apt configuration: the mirror has the others, too."""
PACKAGES = (
    "slurmctld", "slurmd", "slurm-client", "slurmdbd", "slurm-wlm-mysql-plugin", "mariadb-server-core", "patchelf"
)  # fmt: skip
DEADLINE_S = 600.0
TRIES = 3
COMMANDS = (
    "squeue", "scontrol", "salloc", "sbatch", "srun", "scancel", "sinfo", "sacct", "sacctmgr", "sattach", "sbcast",
    "sdiag",
)  # fmt: skip
DAEMONS = ("slurmctld", "slurmd", "slurmstepd", "slurmdbd", "mariadbd")
KEYRINGS = ("/usr/share/keyrings/debian-archive-keyring.gpg", "/usr/share/keyrings/debian-archive-keyring.pgp")


class InstallError(Exception):
    """Slurm cannot be installed here; the text says why and what to do."""


def install_folder() -> Path:
    """Return where Slurm is, or will be: in MALLEABLE_CACHE, or in the user's folder for caches."""
    base = os.environ.get("MALLEABLE_CACHE") or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(base) / "malleable" / f"slurm-mariadb-{RELEASE}-{platform.machine()}"


def install(where: Path) -> Path:
    """Make sure that Slurm is in `where`, and return its folder of commands.

    Raises:
        InstallError: It is not, and cannot be brought there.
    """
    commands = where / "bin"
    if (where / "ready").exists():
        return commands
    for tool in ("apt-get", "dpkg-deb"):
        if shutil.which(tool) is None:
            raise InstallError(f"Slurm is unpacked from Debian's packages, and there is no {tool} on this machine")
    try:
        where.mkdir(parents=True, exist_ok=True)
        with (where / "lock").open("w", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not (where / "ready").exists():
                _install(where)
    except OSError as error:
        raise InstallError(
            f"Slurm cannot be installed in {where}: {error}; choose a folder with MALLEABLE_CACHE"
        ) from error
    return commands


def _install(where: Path) -> None:
    began = time.monotonic()
    _say(f"Slurm is not in {where} yet")
    for part in ("apt", "root", "bin"):
        shutil.rmtree(where / part, ignore_errors=True)
    apt = where / "apt"
    for part in ("state/lists/partial", "cache/archives/partial"):
        (apt / part).mkdir(parents=True)
    (apt / "status").touch()
    mirror = _mirror()
    keys = next((f"[signed-by={path}] " for path in KEYRINGS if Path(path).exists()), "")
    (apt / "sources.list").write_text(f"deb {keys}{mirror} {RELEASE} main\n", encoding="utf-8")
    options = _options(apt)
    _say(f"reading the list of packages of Debian {RELEASE} from this machine's mirror")
    _apt([*options, "update", "-qq"], f"the packages of Debian {RELEASE} cannot be listed")
    _say(f"downloading {', '.join(PACKAGES)} and what they need")
    _apt([*options, "install", "-qq", "-y", "--download-only", *PACKAGES], "Slurm cannot be downloaded")
    archives = sorted((apt / "cache" / "archives").glob("*.deb"))
    _say(f"unpacking {len(archives)} packages")
    for archive in archives:
        _run(["dpkg-deb", "-x", str(archive), str(where / "root")], f"{archive.name} cannot be unpacked")
    version = _bind(where)
    shutil.rmtree(apt)
    (where / "ready").write_text(f"{version}\n", encoding="utf-8")
    _say(f"{version} is in {where} after {time.monotonic() - began:.0f} s")


def _mirror() -> str:
    """Return where this machine gets Debian's packages from."""
    # --no-release-info: as configured, whether or not `apt-get update` was ever called
    shown = ["apt-get", "indextargets", "--no-release-info", "--format", "$(REPO_URI) $(RELEASE) $(COMPONENT)"]
    for line in _run(shown, "apt-get cannot say where packages come from").splitlines():
        uri, release, component = [*line.split(), "", "", ""][:3]
        if component == "main" and release in RELEASES:
            return uri
    raise InstallError(f"this machine's apt configuration has no release of Debian ({', '.join(sorted(RELEASES))})")


def _options(apt: Path) -> list[str]:
    """What lets apt work in a folder of its own, as if nothing were installed."""
    chosen = {
        "Dir::Etc::sourcelist": apt / "sources.list",
        "Dir::Etc::sourceparts": apt / "none",
        "Dir::Etc::preferences": apt / "none",
        "Dir::Etc::preferencesparts": apt / "none",
        "Dir::State": apt / "state",
        "Dir::State::status": apt / "status",
        "Dir::Cache": apt / "cache",
        "APT::Install-Recommends": "false",
        "APT::Sandbox::User": "",
        "Acquire::Languages": "none",
        "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled": "false",
        "Acquire::Retries": TRIES,
    }
    return [word for name, value in chosen.items() for word in ("-o", f"{name}={value}")]


def _bind(where: Path) -> str:
    """Make Slurm's programs use the loader and the libraries that came with them, and link them into one folder.

    Returns:
        What Slurm says about its version.
    """
    (where / "bin").mkdir()
    loader = next((where / "root").glob("usr/lib/*/ld-linux-*.so.*"), None)
    if loader is None:
        raise InstallError(f"the packages of Debian {RELEASE} have no loader for {platform.machine()}")
    libraries = f"{loader.parent}:{loader.parent / 'slurm-wlm'}"
    # of this release, too: it may not run by itself
    patch = [str(loader), "--library-path", libraries, str(where / "root" / "usr" / "bin" / "patchelf")]
    patch += ["--set-interpreter", str(loader), "--force-rpath", "--set-rpath", libraries]
    for name in (*COMMANDS, *DAEMONS):
        program = where / "root" / "usr" / ("sbin" if name in DAEMONS else "bin") / name
        # /usr/bin/squeue is a link of update-alternatives, which was not run
        program = program if program.is_file() else program.with_name(f"{name}-wlm")
        _run([*patch, str(program)], f"{name} cannot be made to use its own libraries")
        (where / "bin" / name).symlink_to(program)
    return _run([str(where / "bin" / "slurmctld"), "-V"], "Slurm does not run on this machine").strip()


def _apt(arguments: list[str], failure: str) -> None:
    _run(["apt-get", *arguments], failure)


def _run(command: list[str], failure: str) -> str:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C"}
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, env=environment, timeout=DEADLINE_S,
            check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise InstallError(f"{failure}: no end after {DEADLINE_S:.0f} s") from None
    if done.returncode:
        last = [line for line in (done.stderr + done.stdout).splitlines() if line.strip()][-4:]
        raise InstallError(f"{failure}: {' | '.join(last) or f'exit code {done.returncode}'}")
    return done.stdout


def _say(text: str) -> None:
    print(f"slurm: {text}", file=sys.stderr, flush=True)
