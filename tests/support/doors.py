"""Where strangers can reach processes, and what they say there."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

LISTENING = "0A"
LOOPBACK = "0100007F"
_PATIENCE_S = 60.0


def listening(pids: Iterable[int]) -> set[tuple[str, int]]:
    """Address and port of each TCP socket on which one of the processes listens, and of each UDP socket."""
    found = set()
    for pid in pids:
        held = set()
        with suppress(OSError):  # the process has ended meanwhile
            for descriptor in Path(f"/proc/{pid}/fd").iterdir():
                with suppress(OSError):  # closed meanwhile
                    held.add(str(descriptor.readlink()))
        for table in ("tcp", "tcp6", "udp", "udp6"):
            with suppress(OSError):
                for line in Path(f"/proc/{pid}/net/{table}").read_text(encoding="ascii").splitlines()[1:]:
                    fields = line.split()
                    if f"socket:[{fields[9]}]" in held and (fields[3] == LISTENING or table.startswith("udp")):
                        address, port = fields[1].split(":")
                        found.add((address, int(port, 16)))
    return found


def attack(ports: Iterable[int], host: str = "127.0.0.1") -> None:
    """Says at each of these ports what killed a job under mpiexec: a few bytes."""
    for port in ports:
        for words in (b"x" * 12, b"cmd=abort\n", b"\0" * 64):
            with suppress(ConnectionError), socket.create_connection((host, port), _PATIENCE_S) as stranger:
                stranger.sendall(words)


def main() -> None:
    """Attacks, from here, the doors of all jobs of malleable's on all hosts; prints each with its process."""
    found: list[tuple[str, list[str]]] = []
    for environ in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):  # the process has ended
            if b"MALLEABLE_MARK=" in environ.read_bytes():
                words = (environ.parent / "cmdline").read_bytes().decode(errors="replace").split("\0")
                doors = []
                for address, port in listening([int(environ.parent.name)]):
                    host = socket.inet_ntoa(bytes.fromhex(address)[::-1])
                    attack([port], host)
                    doors.append(f"{host}:{port}")
                found.append((" ".join(words), doors))
    print(json.dumps(found))


def all_attacked(said: str) -> tuple[list[str], set[str]]:
    """The processes of jobs that this program has found, and their doors; srun's are Slurm's, which has its proofs."""
    found = json.loads(said.splitlines()[-1])
    return [words for words, _ in found], {
        door for words, doors in found if Path(words.partition(" ")[0]).name != "srun" for door in doors
    }


if __name__ == "__main__":
    main()
