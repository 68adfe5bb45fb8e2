"""The floors: two processes and a TCP connection for round trips; a tree of processes for a finish over many; mpi4py.

The last one, alone, for starting, spawning and memory.
"""

from __future__ import annotations

import os
import sys
import time
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ..compare.contender import Answer, Channel, Command, Config, Ends, call_times, commands, memory_with_numpy, pin

if TYPE_CHECKING:
    import socket


# The floor of round trips: two processes and a TCP connection, nothing else ------------------------------------------

SMALL_BYTES: Final = 64
_HEAD_BYTES: Final = 8


def sockets(config: Config, channel: Channel) -> None:
    """Serve; the other process echoes frames of 8 bytes of length and as many bytes."""
    import socket  # here, because the memory of the other floor is measured

    listener = socket.create_server(("127.0.0.1", 0))
    child = os.fork()
    if child == 0:
        _echo(listener.getsockname(), config)
        os._exit(0)
    if config.cpus:
        pin(config.cpus[0])
    connection, _ = listener.accept()
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    small = partial(_round_trip, connection, SMALL_BYTES)
    rtt = partial(call_times, small)
    channel.serve({"rtt": rtt, "immediate": rtt, "echo": partial(_rate, connection)})
    connection.close()
    os.waitpid(child, 0)


def _rate(connection: socket.socket, command: Command) -> Answer:
    size = command["bytes"]
    out, back = bytearray(size), bytearray(size)

    def echo() -> None:
        connection.sendall(size.to_bytes(_HEAD_BYTES, "little"))
        connection.sendall(out)
        _fill(connection, memoryview(back))

    return {"bytes_per_s": 2 * size / call_times(echo, command)["median_s"]}


def _round_trip(connection: socket.socket, size: int) -> None:
    connection.sendall(size.to_bytes(_HEAD_BYTES, "little") + bytes(size))
    _fill(connection, memoryview(bytearray(size)))


def _echo(address: tuple[str, int], config: Config) -> None:
    import socket

    if config.cpus:
        pin(config.cpus[1])
    connection = socket.create_connection(address)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    room = memoryview(bytearray(SMALL_BYTES + _HEAD_BYTES))
    while got := connection.recv_into(room):
        if got < _HEAD_BYTES:
            _fill(connection, room[got:_HEAD_BYTES])
            got = _HEAD_BYTES
        size = int.from_bytes(room[:_HEAD_BYTES], "little")
        if size + _HEAD_BYTES > len(room):
            larger = bytearray(size + _HEAD_BYTES)
            larger[:got] = room[:got]
            room = memoryview(larger)
        _fill(connection, room[got : size + _HEAD_BYTES])
        connection.sendall(room[_HEAD_BYTES : size + _HEAD_BYTES])


def _fill(connection: socket.socket, room: memoryview) -> None:
    """Receive until ``room`` is full.

    Raises:
        EOFError: The other side has gone.
    """
    while room:
        got = connection.recv_into(room)
        if not got:
            raise EOFError("the other process has gone")
        room = room[got:]


# The floor of a finish over many places: processes in a tree, a few bytes down and up again ---------------------------

DEGREE: Final = 16
_WORD_BYTES: Final = 4

if TYPE_CHECKING:
    Below: TypeAlias = list[tuple[int, socket.socket]]
    """The numbers of a process's children, and the streams to them."""


def tree(config: Config, channel: Channel) -> None:
    """Serve, as number 0 of ``config.places`` processes; number i has the children from 16 i + 1 to 16 i + 16."""
    below = _plant(0, config.places, [])

    def barrier(command: Command) -> Answer:
        return call_times(lambda: _down_and_up(below, command["places"]), command)

    channel.serve({"finish": barrier})
    for _, child in below:
        child.close()  # each ends with the stream to its parent
    for _ in below:
        os.wait()


def _plant(number: int, count: int, above: list[socket.socket]) -> Below:
    """Fork the children of this process, and have them do the same; ``above`` are streams that are none of theirs."""
    import socket

    below: Below = []
    for child in range(number * DEGREE + 1, min(number * DEGREE + DEGREE + 1, count)):
        ours, theirs = socket.socketpair()
        if os.fork() == 0:
            for stream in (ours, *above, *(other for _, other in below)):
                stream.close()
            _pass_on(theirs, _plant(child, count, [theirs]))
            os._exit(0)
        theirs.close()
        below.append((child, ours))
    return below


def _pass_on(above: socket.socket, below: Below) -> None:
    while word := above.recv(_WORD_BYTES):
        _down_and_up(below, int.from_bytes(word, "little"))
        above.sendall(word)


def _down_and_up(below: Below, count: int) -> None:
    """Have the processes below ``count`` hear something, and wait until all have said so."""
    word = count.to_bytes(_WORD_BYTES, "little")
    chosen = [child for number, child in below if number < count]
    for child in chosen:
        child.sendall(word)
    for child in chosen:
        child.recv(_WORD_BYTES)


# The floor of starting, spawning and memory: mpi4py and nothing else -------------------------------------------------

POLL_S: Final = 0.005
GONE_S: Final = 20.0

SPAWNED: Final = (
    "import os; from mpi4py import MPI; {then}parent = MPI.Comm.Get_parent(); "
    "pids = MPI.COMM_WORLD.gather(os.getpid(), root=0); pids and parent.send(pids, dest=0); parent.Disconnect()"
)
"""A spawned process; it says that it is there once all of its world are. Hydra takes arguments of one line only."""


def mpi(config: Config, channel: Channel) -> None:
    """Serve; ``config.places`` processes were started by mpiexec."""
    del config
    library = import_module("mpi4py.MPI")
    world = library.COMM_WORLD
    if world.rank:
        for _ in commands(world, POLL_S):
            world.send(memory_with_numpy(), dest=0)
        return
    channel.serve({"resize": partial(_spawn, library), "memory": partial(_memory_of_mpi, world)})
    for rank in range(1, world.size):
        world.send(None, dest=rank)


def _spawn(library: Any, command: Command) -> Answer:
    """Time a spawn; it stands beside a grow as well as beside a shrink."""
    module = command.get("loads")
    program = SPAWNED.format(then=f"import {module}; " if module else "")
    before_s = time.perf_counter()
    children = library.COMM_SELF.Spawn(sys.executable, ["-c", program], maxprocs=command["n"])
    pids = children.recv(source=0)
    spawn_s = time.perf_counter() - before_s
    with Ends(pids) as ends:
        children.Disconnect()
        ends.wait(GONE_S)
    return {"loaded_s": spawn_s} if module else {"grow_s": spawn_s, "shrink_s": spawn_s}


def _memory_of_mpi(world: Any, command: Command) -> Answer:
    world.send(command, dest=1)
    answer: dict[str, float] = world.recv(source=1)
    return answer
