from __future__ import annotations

import contextlib
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apgas.errors import AuthenticationError
from apgas.transport.auth import Caller, Listener, new_token

TOKEN = b"k" * 32
nonces = st.binary(min_size=32, max_size=32)
places = st.integers(0, 2**32 - 1)


def converse(caller: Caller, listener: Listener, tamper: Callable[[int, bytes], bytes] = lambda _, data: data) -> None:
    """Carry messages until neither side has anything to say; ``tamper`` may change the n-th one."""
    message = tamper(0, caller.hello)
    for turn in range(1, 4):
        side = listener if turn % 2 else caller
        message = tamper(turn, side.receive(message))
    caller.receive(message)


@given(places, places, nonces, nonces)
def test_both_sides_with_the_token_are_done(place: int, peer: int, mine: bytes, theirs: bytes) -> None:
    caller, listener = Caller(TOKEN, place, peer, mine), Listener(TOKEN, peer, theirs)
    converse(caller, listener)
    assert caller.done
    assert listener.done
    assert listener.peer == place


@given(places, places, st.data())
def test_messages_may_come_in_pieces(place: int, peer: int, data: st.DataObject) -> None:
    caller, listener = Caller(TOKEN, place, peer), Listener(TOKEN, peer)
    message = caller.hello
    for turn in range(4):
        side = caller if turn % 2 else listener
        cut = data.draw(st.integers(0, len(message)))
        first, second = side.receive(message[:cut]), side.receive(message[cut:])
        assert not (first and second)
        message = first or second
    assert caller.done
    assert listener.done


@given(st.integers(0, 3), st.integers(0, 10_000), st.integers(1, 255))
def test_no_changed_byte_goes_unnoticed(turn: int, at: int, flip: int) -> None:
    """Not even in the ids and nonces: they are part of what is proved."""

    def tamper(number: int, data: bytes) -> bytes:
        if number != turn or not data:
            return data
        spot = at % len(data)
        return data[:spot] + bytes([data[spot] ^ flip]) + data[spot + 1 :]

    caller, listener = Caller(TOKEN, 1, 0), Listener(TOKEN, 0)
    with pytest.raises(AuthenticationError):
        converse(caller, listener, tamper)
    assert not caller.done


@given(st.integers(0, 3), st.integers(0, 200))
def test_truncated_messages_leave_everybody_waiting(turn: int, kept: int) -> None:
    def tamper(number: int, data: bytes) -> bytes:
        return data[: min(kept, max(0, len(data) - 1))] if number == turn else data

    caller, listener = Caller(TOKEN, 1, 0), Listener(TOKEN, 0)
    converse(caller, listener, tamper)
    assert not caller.done
    assert caller.needed_bytes > 0
    assert listener.done == (turn == 3)


@given(st.lists(st.binary(max_size=80), max_size=8))
def test_garbage_never_gets_in(chunks: list[bytes]) -> None:
    listener, caller = Listener(TOKEN, 0), Caller(TOKEN, 1, 0)
    with contextlib.suppress(AuthenticationError):  # or it waits for more
        for chunk in chunks:
            listener.receive(chunk[: listener.needed_bytes])
    with contextlib.suppress(AuthenticationError):  # likewise
        for chunk in chunks:
            caller.receive(chunk[: caller.needed_bytes])
    assert not listener.done
    assert not caller.done


def test_another_token_does_not_get_in() -> None:
    with pytest.raises(AuthenticationError, match="listener does not hold"):
        converse(Caller(TOKEN, 1, 0), Listener(new_token(), 0))
    listener = Listener(TOKEN, 0)
    listener.receive(Caller(new_token(), 1, 0).hello)
    with pytest.raises(AuthenticationError, match="caller named place 1"):
        listener.receive(bytes(32))


def test_a_recorded_conversation_is_useless() -> None:
    said: list[bytes] = []

    def record(_: int, data: bytes) -> bytes:
        said.append(data)
        return data

    converse(Caller(TOKEN, 1, 0), Listener(TOKEN, 0), record)
    hello, challenge, proof, welcome = said
    listener = Listener(TOKEN, 0)
    listener.receive(hello)
    with pytest.raises(AuthenticationError):
        listener.receive(proof)
    caller = Caller(TOKEN, 1, 0)
    with pytest.raises(AuthenticationError):
        caller.receive(challenge)
    with pytest.raises(AuthenticationError):
        Caller(TOKEN, 1, 0).receive(challenge[:32] + proof)
    assert len(welcome) == 1


def test_a_reflected_proof_is_useless() -> None:
    """A caller without the token lets the listener prove itself, and hands that proof back as its own."""
    listener = Listener(TOKEN, 0)
    challenge = listener.receive(Caller(TOKEN, 0, 0).hello)
    with pytest.raises(AuthenticationError):
        listener.receive(challenge[32:])


def test_who_has_not_spoken_is_no_place() -> None:
    assert Listener(TOKEN, 5).peer == -1


def test_a_caller_for_another_place_is_sent_away() -> None:
    with pytest.raises(AuthenticationError, match="looks for place 4, this is place 5"):
        Listener(TOKEN, 5).receive(Caller(TOKEN, 1, 4).hello)


def test_more_than_the_handshake_is_refused() -> None:
    with pytest.raises(AuthenticationError, match="more bytes"):
        Listener(TOKEN, 0).receive(bytes(200))


def test_tokens_have_a_length() -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        Caller(b"short", 1, 0)
    assert new_token() != new_token()
