from __future__ import annotations

import contextlib
from unittest import mock

from hypothesis import given
from hypothesis import strategies as st

from apgas.errors import ProtocolError
from apgas.transport import wire
from apgas.transport.wire import HEADER, MAGIC, Decoder, Frame, encode

HEAD_BYTES = 300_000
sizes = st.one_of(st.integers(0, 40), st.sampled_from([63, 64, 65, 4096, 16_384, 16_385, 70_000]))
contents = st.builds(lambda size, seed: bytes((seed + i) % 256 for i in range(size)), sizes, st.integers(0, 255))
frames = st.lists(st.tuples(contents, st.lists(contents, max_size=4)), max_size=6)


def low_limits() -> contextlib.AbstractContextManager[object]:
    return mock.patch.multiple(wire, MOST_HEAD_BYTES=HEAD_BYTES, MOST_BUFFERS=8, MOST_FRAME_BYTES=400_000)


def feed(decoder: Decoder, data: bytes, chunk_bytes: list[int]) -> list[Frame]:
    got: list[Frame] = []
    turn = 0
    while data:
        buffer = decoder.get_buffer()
        taken = min(len(buffer), len(data), chunk_bytes[turn % len(chunk_bytes)])
        buffer[:taken] = data[:taken]
        got += decoder.buffer_updated(taken)
        data = data[taken:]
        turn += 1
    return got


@given(frames, st.lists(st.integers(1, 100_000), min_size=1, max_size=8), st.integers(32, 300))
def test_any_chunking_gives_the_same_frames(
    sent: list[tuple[bytes, list[bytes]]], chunk_bytes: list[int], scratch_bytes: int
) -> None:
    data = b"".join(b"".join(encode(5, head, buffers)) for head, buffers in sent)
    decoder = Decoder(5, bytearray(scratch_bytes))
    got = feed(decoder, data, chunk_bytes)
    assert [(frame.src, bytes(frame.head), [bytes(b) for b in frame.buffers]) for frame in got] == [
        (5, head, buffers) for head, buffers in sent
    ]
    assert decoder.at_boundary()


@given(st.lists(st.integers(1, 3), min_size=1, max_size=4), st.lists(st.binary(max_size=9), max_size=8))
def test_decoders_may_share_their_scratch(chunk_bytes: list[int], heads: list[bytes]) -> None:
    scratch = bytearray(16)
    streams = {src: b"".join(b"".join(encode(src, head, [head])) for head in heads) for src in (1, 2)}
    decoders = {src: Decoder(src, scratch) for src in streams}
    got: dict[int, list[Frame]] = {1: [], 2: []}
    turn = 0
    while any(streams.values()):
        for src, decoder in decoders.items():
            size = chunk_bytes[turn % len(chunk_bytes)]
            piece, streams[src] = streams[src][:size], streams[src][size:]
            got[src] += feed(decoder, piece, [16])
        turn += 1
    for received in got.values():
        assert [frame.head for frame in received] == heads


@given(st.binary(max_size=300), st.lists(st.integers(1, 64), min_size=1, max_size=4))
def test_garbage_is_a_protocol_error_or_nothing(data: bytes, chunk_bytes: list[int]) -> None:
    with low_limits(), contextlib.suppress(ProtocolError):  # or nothing
        feed(Decoder(None, bytearray(64)), data, chunk_bytes)


@given(
    st.integers(0, 2**32 - 1),
    st.integers(0, 2**32 - 1),
    st.integers(0, 2**32 - 1),
    st.integers(0, 2**64 - 1),
    st.binary(max_size=200),
)
def test_headers_at_random_are_a_protocol_error_or_within_the_limits(
    src: int, head_bytes: int, count: int, total_bytes: int, rest: bytes
) -> None:
    decoder = Decoder(None)
    with low_limits(), contextlib.suppress(ProtocolError):  # or within the limits
        got = feed(decoder, HEADER.pack(MAGIC, src, head_bytes, count, total_bytes) + rest, [64])
        assert len(decoder.get_buffer()) <= max(256 * 1024, HEAD_BYTES)
        assert all(len(frame.head) + sum(map(len, frame.buffers)) <= len(rest) for frame in got)
