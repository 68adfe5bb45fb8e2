"""The floor of round trips: two processes and a TCP connection, nothing else."""

from __future__ import annotations

import os
import socket
from functools import partial
from typing import Final

from ...compare.contender import Answer, Channel, Command, Config, of_samples, pin, timed

SMALL_BYTES: Final = 64
_HEAD_BYTES: Final = 8


def main(config: Config, channel: Channel) -> None:
    """Serve; the other process echoes frames of 8 bytes of length and as many bytes."""
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
    channel.serve({"rtt": partial(_rtt, small), "immediate": partial(_rtt, small), "echo": partial(_rate, connection)})
    connection.close()
    os.waitpid(child, 0)


def _rtt(round_trip: partial[None], command: Command) -> Answer:
    return of_samples(timed(round_trip, command["n"], command["limit_s"]))


def _rate(connection: socket.socket, command: Command) -> Answer:
    size = command["bytes"]
    out, back = bytearray(size), bytearray(size)

    def echo() -> None:
        connection.sendall(size.to_bytes(_HEAD_BYTES, "little"))
        connection.sendall(out)
        _fill(connection, memoryview(back))

    return {"bytes_per_s": 2 * size / of_samples(timed(echo, command["n"], command["limit_s"]))["median_s"]}


def _round_trip(connection: socket.socket, size: int) -> None:
    connection.sendall(size.to_bytes(_HEAD_BYTES, "little") + bytes(size))
    _fill(connection, memoryview(bytearray(size)))


def _echo(address: tuple[str, int], config: Config) -> None:
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
