"""Hosts emulated on one machine: a network, a UTS and an IPC namespace each, on one bridge; needs `ip` and util-linux.

Three processes matter. The *caller* is what the user started: it passes signals on and waits. The *init* is process 1
of a PID namespace: it builds the cluster, runs the command on host1, and when it ends, the kernel ends every process
in there. *ssh* stands in for the real one: it enters a host.

Nothing is ever made outside of namespaces that have no name: bridge, hosts, and the folders /run and /dev/shm are
known to the processes of the cluster only and vanish with the last of them. The init ends when the caller does, because
then the pipe between them closes, so nothing can stay or be in the way of the next run, not even after `kill -9`. No
interface leads out: packets of the cluster cannot leave it.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import emulated_slurm

MOST_HOSTS = 250
NOT_SET_UP = 125
NOT_FOUND = 127
USAGE = 2
SSH_FAILED = 255
REACH_S = 5.0
PASSED_ON = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2}
SENT_BY_TERMINAL = 0x80  # si_code SI_KERNEL: the terminal's driver has sent it to the whole foreground group

NETWORKS = Path("/run/netns")  # where `ip -n NAME` looks
NAMES = Path("/run/utsns")
SHARED_MEMORY = Path("/run/ipcns")
FOLDER = Path("/run/emulated-cluster")
SSH = FOLDER / "ssh"

_NAMESPACES = ["--net", "--uts", "--ipc", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
_WAYS = {"as root": _NAMESPACES, "without root": ["--user", "--map-root-user", *_NAMESPACES]}


class ClusterError(Exception):
    """The cluster cannot be set up; the text says why and what to do."""


def main(arguments: list[str]) -> int:
    """Run a command on an emulated cluster and return its exit code (128 + n: it was ended by signal n)."""
    parser = argparse.ArgumentParser(
        prog="emulated-cluster",
        description="Runs COMMAND on host1 of an emulated cluster: hosts host1, host2, ... with names and addresses of "
        "their own, on this machine. mpiexec reaches all of them; nothing stays when COMMAND has ended.",
        epilog="example: launch/emulated-cluster --hosts 4 -- mpiexec -n 2 -hosts host1,host2 python program.py; "
        "exit code: COMMAND's; 125: the cluster could not be set up; 127: there is no such COMMAND",
    )
    parser.add_argument("--hosts", type=int, default=4, help=f"how many hosts, 1 to {MOST_HOSTS} (default: 4)")
    parser.add_argument(
        "--slurm",
        action="store_true",
        help="start a real Slurm on the hosts, and run COMMAND on a host of its own, login; installed at the first use "
        f"into {emulated_slurm.install_folder()} (in MALLEABLE_CACHE if that is set)",
    )
    parser.add_argument(
        "--no-expansion", action="store_true", help="a Slurm without permit_job_expansion, as most sites have it"
    )
    parser.add_argument(
        "--accounting", action="store_true",
        help="a Slurm as centres run it: slurmdbd with MariaDB, accounts and QOS with limits, several partitions "
        "(at least 2 hosts)",
    )  # fmt: skip
    parser.add_argument(
        "--preemption", action="store_true",
        help="a Slurm with a partition, spare, whose jobs have 10 s to leave nodes that others want",
    )  # fmt: skip
    parser.add_argument("--install-slurm", action="store_true", help="only install Slurm, if it is not there yet")
    parser.add_argument("command", nargs="*", metavar="COMMAND", help="what to run, after --")
    options = parser.parse_args(arguments)
    if options.install_slurm:
        return _install_slurm(options.command)
    if not options.command:
        parser.error("the following arguments are required: COMMAND")
    if not 1 <= options.hosts <= MOST_HOSTS:
        parser.error(f"--hosts {options.hosts}: give a number from 1 to {MOST_HOSTS}")
    if options.accounting and not (options.slurm and options.hosts > 1):
        parser.error("--accounting: give --slurm, too, and at least 2 hosts")
    if options.preemption and not options.slurm:
        parser.error("--preemption: give --slurm, too")
    if shutil.which(options.command[0]) is None:
        print(f"emulated-cluster: {options.command[0]}: no such command", file=sys.stderr)
        return NOT_FOUND
    slurm: dict[str, str | bool] = {}
    try:
        way = find_way()
        if options.slurm:
            if "--user" in way:
                raise ClusterError("Slurm's daemons need root: in a user namespace they cannot change their groups")
            slurm = {
                "commands": str(emulated_slurm.install(emulated_slurm.install_folder())),
                "expansion": not options.no_expansion,
                "accounting": options.accounting,
                "preemption": options.preemption,
            }
    except (ClusterError, emulated_slurm.InstallError) as error:
        print(f"emulated-cluster: {error}", file=sys.stderr)
        return NOT_SET_UP
    return _call(way, options.hosts, json.dumps(slurm), options.command)


def _install_slurm(command: list[str]) -> int:
    if command:
        print("emulated-cluster: --install-slurm runs no COMMAND", file=sys.stderr)
        return USAGE
    try:
        print(f"Slurm's commands are in {emulated_slurm.install(emulated_slurm.install_folder())}")
    except emulated_slurm.InstallError as error:
        print(f"emulated-cluster: {error}", file=sys.stderr)
        return NOT_SET_UP
    return 0


def find_way() -> list[str]:
    """Return the options with which `unshare` makes the namespaces here.

    Raises:
        ClusterError: A tool is missing, or the kernel allows it neither as root nor without.
    """
    packages = {"ip": "iproute2", "unshare": "util-linux", "nsenter": "util-linux", "mount": "mount"}
    for tool, package in packages.items():
        if shutil.which(tool) is None:
            raise ClusterError(f"the command {tool} is missing; install the package {package}")
    reasons = []
    for name, options in _WAYS.items():
        if name == "as root" and os.geteuid() != 0:
            reasons.append(f"{name}: you are not root")
            continue
        trial = ["unshare", *options, "ip", "link", "add", "bridge0", "type", "bridge"]
        done = subprocess.run(trial, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return options
        reasons.append(f"{name}: {' '.join(done.stderr.split()) or f'exit code {done.returncode}'}")
    raise ClusterError(
        f"this kernel does not let us make network namespaces ({'; '.join(reasons)}); run it as root, in a container "
        "with the capabilities SYS_ADMIN and NET_ADMIN, or allow user namespaces "
        "(sysctl kernel.unprivileged_userns_clone=1, kernel.apparmor_restrict_unprivileged_userns=0)"
    )


# the caller ----------------------------------------------------------------------------------------------------------


def _call(way: list[str], hosts: int, slurm: str, command: list[str]) -> int:
    """Start the init in its namespaces, pass signals on through a pipe, and wait."""
    # In a terminal the command shares our process group and the terminal's keys reach it by themselves. Elsewhere it
    # gets a group of its own, and each signal once: from us.
    in_terminal = os.isatty(0)
    signals = {*PASSED_ON, signal.SIGCHLD}
    # Blocked here, they are blocked in the init from its first instruction on.
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    ours, theirs = os.pipe()
    task = [str(ours), str(hosts), slurm, "share" if in_terminal else "own", *command]
    init = subprocess.Popen(
        ["unshare", *way, "--", sys.executable, "-B", "-S", str(Path(__file__).resolve()), *task], pass_fds=[ours]
    )
    os.close(ours)
    while init.poll() is None:
        info = signal.sigwaitinfo(signals)
        if info.si_signo != signal.SIGCHLD and not (in_terminal and info.si_code == SENT_BY_TERMINAL):
            try:
                os.write(theirs, bytes([info.si_signo]))
            except BrokenPipeError:
                continue  # it is about to end
    code: int = init.returncode
    return 128 - code if code < 0 else code


# the init ------------------------------------------------------------------------------------------------------------


def _init(pipe: int, hosts: int, slurm: dict[str, Any], group: str, command: list[str]) -> int:
    """Build the cluster, run the command, and return its exit code; as process 1, take all others along."""
    names = [f"host{number}" for number in range(1, hosts + 1)]
    try:
        _build(names)
        environment = _start_slurm(names, **slurm) if slurm else _environment()
    except (OSError, subprocess.CalledProcessError) as error:
        why = getattr(error, "stderr", None) or error
        print(f"emulated-cluster: the hosts could not be made: {why}", file=sys.stderr)
        return NOT_SET_UP
    except emulated_slurm.SlurmError as error:
        print(f"emulated-cluster: Slurm: {error}", file=sys.stderr)
        return NOT_SET_UP
    child = subprocess.Popen(
        command if slurm else _enter("host1", command),
        env=environment,
        process_group=0 if group == "own" else None,
        # the only thread so far
        preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_UNBLOCK, {*PASSED_ON, signal.SIGCHLD}),  # noqa: PLW1509 - no other thread runs
    )
    threading.Thread(target=_obey, args=(pipe, child.pid), daemon=True).start()
    while True:
        pid, status = os.wait()  # orphans of the whole cluster become our children
        if pid == child.pid:
            code = os.waitstatus_to_exitcode(status)
            return 128 - code if code < 0 else code


def _obey(pipe: int, child: int) -> None:
    """Send the command each signal whose number comes through the pipe; end everything when the caller is gone."""
    while number := os.read(pipe, 1):
        os.kill(child, number[0])
    os._exit(NOT_SET_UP)


def _build(hosts: list[str]) -> None:
    """Make the hosts: one bridge in the init's network namespace, a cable from it to each host's eth0."""
    for folder in ("/run", "/dev/shm"):
        _run("mount", "-t", "tmpfs", "-o", "mode=1777", "emulated-cluster", folder)
    for path in (NETWORKS, NAMES, SHARED_MEMORY, FOLDER, FOLDER / "tmp"):
        path.mkdir()
    _ip([], ["link add bridge0 type bridge", "link set bridge0 up"])
    table = ["127.0.0.1 localhost"]
    for number, host in enumerate(hosts, 1):
        address = f"10.0.0.{number}"
        table.append(f"{address} {host}")
        for folder in (NETWORKS, NAMES, SHARED_MEMORY):
            (folder / host).touch()
        socket.sethostname(host)  # the new namespace begins as a copy of ours
        _run("unshare", *_namespaces(host), "true")
        cable = f"link add port{number} type veth peer name eth0 netns {host}"
        _ip([], [cable, f"link set port{number} master bridge0 up"])
        _ip(["-n", host], ["link set lo up", f"address add {address}/24 dev eth0", "link set eth0 up"])
    socket.sethostname("emulated-cluster")
    (FOLDER / "hosts").write_text("\n".join(table) + "\n", encoding="utf-8")
    _run("mount", "--bind", str(FOLDER / "hosts"), "/etc/hosts")
    (FOLDER / "hostfile").write_text("".join(f"{host}:1\n" for host in hosts), encoding="utf-8")
    enter = shlex.join([sys.executable, "-B", "-S", str(Path(__file__).resolve()), "ssh"])
    SSH.write_text(f'#!/bin/sh\nexec {enter} "$@"\n', encoding="utf-8")
    SSH.chmod(0o755)


def _environment() -> dict[str, str]:
    """What makes mpiexec know and reach the hosts; temporary files go where they vanish with the cluster."""
    return {
        **os.environ,
        "HYDRA_LAUNCHER": "ssh",
        "HYDRA_LAUNCHER_EXEC": str(SSH),
        "HYDRA_HOST_FILE": str(FOLDER / "hostfile"),
        "TMPDIR": str(FOLDER / "tmp"),
    }


def _start_slurm(hosts: list[str], commands: str, **chosen: bool) -> dict[str, str]:
    """Start Slurm; mpiexec's options are left to the batch system."""
    folder = FOLDER / "slurm"
    # the init's own network namespace becomes a host, too
    _ip([], ["link set lo up", f"address add {emulated_slurm.ADDRESS}/24 dev bridge0"])
    socket.sethostname(emulated_slurm.LOGIN)
    with Path("/etc/hosts").open("a", encoding="utf-8") as table:
        table.write(f"{emulated_slurm.ADDRESS} {emulated_slurm.LOGIN}\n")
    found = emulated_slurm.start(Path(commands), folder, hosts, _enter, **chosen)
    return {**os.environ, **found, "TMPDIR": str(FOLDER / "tmp")}


def _ip(options: list[str], lines: list[str]) -> None:
    _run("ip", *options, "-batch", "-", text="\n".join(lines) + "\n")


def _run(*command: str, text: str = "") -> None:
    subprocess.run(command, input=text, capture_output=True, text=True, check=True)


def _enter(host: str, command: list[str]) -> list[str]:
    return ["nsenter", *_namespaces(host), "--", *command]


def _namespaces(host: str) -> list[str]:
    # by the IPC namespace, UCX knows whether two processes are on one host and may use shared memory
    return [f"--net={NETWORKS / host}", f"--uts={NAMES / host}", f"--ipc={SHARED_MEMORY / host}"]


# ssh -----------------------------------------------------------------------------------------------------------------


def _ssh(arguments: list[str]) -> str:
    """Become a command on another host; like the real one, join the words and give them to a shell there.

    Returns:
        Why it cannot be reached.
    """
    words = list(arguments)
    while words and words[0].startswith("-"):
        with_value = len(words[0]) == 2 and words[0][1] in "bceiloFJLmpSW"  # -o BatchMode=yes
        del words[: 2 if with_value else 1]
    if not words:
        return "no host is given"
    host, *command = words
    if not (NETWORKS / host).exists():
        return f"could not resolve hostname {host}: Name or service not known"
    try:
        # No process listens there: a host that can be reached refuses, one without a network does not answer.
        socket.create_connection((host, 22), REACH_S).close()
    except ConnectionRefusedError:
        entered = _enter(host, ["/bin/sh", "-c", " ".join(command)])
        os.execvp(entered[0], entered)
    except OSError as error:
        return f"connect to host {host} port 22: {error.strerror or error}"
    return f"host {host} is not one of the cluster"


if __name__ == "__main__":
    if sys.argv[1] == "ssh":
        print(f"ssh: {_ssh(sys.argv[2:])}", file=sys.stderr)
        sys.exit(SSH_FAILED)
    sys.exit(_init(int(sys.argv[1]), int(sys.argv[2]), json.loads(sys.argv[3]), sys.argv[4], sys.argv[5:]))
