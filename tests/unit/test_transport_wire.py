from __future__ import annotations

import pytest

from apgas.errors import ProtocolError, UsageError
from apgas.transport import wire
from apgas.transport.wire import HEADER, MAGIC, Decoder, Frame, encode


@pytest.fixture
def low_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "MOST_HEAD_BYTES", 100)
    monkeypatch.setattr(wire, "MOST_BUFFERS", 3)
    monkeypatch.setattr(wire, "MOST_FRAME_BYTES", 200)


def feed(decoder: Decoder, data: bytes) -> list[Frame]:
    """Hand ``data`` to the decoder the way a socket would, as much at a time as it has room for."""
    frames: list[Frame] = []
    while data:
        buffer = decoder.get_buffer()
        taken = min(len(buffer), len(data))
        buffer[:taken] = data[:taken]
        frames += decoder.buffer_updated(taken)
        data = data[taken:]
    return frames


def test_small_frames_are_one_piece() -> None:
    (piece,) = encode(3, b"head", [b"a", b"b"])
    assert feed(Decoder(), bytes(piece)) == [Frame(3, b"head", [bytearray(b"a"), bytearray(b"b")])]


@pytest.mark.usefixtures("low_limits")
@pytest.mark.parametrize(
    ("src", "head", "text"), [(2, b"", "in the name of place 2"), (1, b"x" * 101, "head of 101 bytes")]
)
def test_a_frame_that_arrives_as_a_whole_is_looked_at_too(src: int, head: bytes, text: str) -> None:
    (whole,) = encode(src, head, [b"buffer"])
    with pytest.raises(ProtocolError, match=text):
        feed(Decoder(src=1), bytes(whole))


def test_a_frame_keeps_nothing_of_the_scratch_that_the_next_one_is_received_in() -> None:
    decoder = Decoder(src=1)
    frames = [*feed(decoder, bytes(encode(1, b"one", [b"1"])[0])), *feed(decoder, bytes(encode(1, b"two", [b"2"])[0]))]
    assert frames == [Frame(1, b"one", [bytearray(b"1")]), Frame(1, b"two", [bytearray(b"2")])]


def test_big_buffers_are_shared_with_the_caller() -> None:
    big = bytearray(100_000)
    pieces = encode(0, b"head", [b"x", big, b"y"])
    assert [len(piece) for piece in pieces] == [HEADER.size + 24 + 4 + 1, 100_000, 1]
    assert isinstance(pieces[1], bytearray)
    assert pieces[1] is big


def test_big_sections_are_received_in_place() -> None:
    decoder = Decoder(scratch=bytearray(64))
    data = b"".join(encode(0, b"", [bytes(1000)]))
    scratch = decoder.get_buffer()
    scratch[:64] = data[:64]
    assert decoder.buffer_updated(64) == []
    assert len(decoder.get_buffer()) == len(data) - 64
    assert not decoder.at_boundary()
    assert feed(decoder, data[64:])[0].buffers == [bytearray(1000)]
    assert decoder.at_boundary()


@pytest.mark.usefixtures("low_limits")
@pytest.mark.parametrize(
    ("header", "text"),
    [
        (HEADER.pack(b"HTTP", 0, 0, 0, 0), "not a frame"),
        (HEADER.pack(MAGIC, 2, 0, 0, 0), "in the name of place 2"),
        (HEADER.pack(MAGIC, 1, 101, 0, 0), "head of 101 bytes"),
        (HEADER.pack(MAGIC, 1, 0, 4, 0), "4 buffers"),
        (HEADER.pack(MAGIC, 1, 60, 1, 141), "201 bytes in all"),
        (HEADER.pack(MAGIC, 1, 0, 0, 5), "in no buffer"),
        (HEADER.pack(MAGIC, 1, 0, 1, 5) + (6).to_bytes(8, "big"), "announced as 5"),
    ],
)
def test_malformed_headers_are_refused(header: bytes, text: str) -> None:
    decoder = Decoder(src=1)
    with pytest.raises(ProtocolError, match=text):
        feed(decoder, header)


def test_a_section_that_memory_cannot_hold_is_a_protocol_error(monkeypatch: pytest.MonkeyPatch) -> None:
    huge = 2**62
    monkeypatch.setattr(wire, "MOST_FRAME_BYTES", 2**63)
    decoder = Decoder()
    with pytest.raises(ProtocolError, match="no memory"):
        feed(decoder, HEADER.pack(MAGIC, 1, 0, 1, huge) + huge.to_bytes(8, "big"))


@pytest.mark.parametrize(
    ("head", "buffers"),
    [(bytes(60_001), []), (b"", [b""] * 4), (bytes(50_000), [bytes(50_001)]), (b"", [bytes(100_001)])],
)
def test_frames_beyond_the_limits_are_not_sent(
    head: bytes, buffers: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "MOST_HEAD_BYTES", 60_000)
    monkeypatch.setattr(wire, "MOST_BUFFERS", 3)
    monkeypatch.setattr(wire, "MOST_FRAME_BYTES", 100_000)
    with pytest.raises(UsageError, match="frame too large"):
        encode(0, head, buffers)


def test_scattered_memory_is_not_sent() -> None:
    with pytest.raises(UsageError, match="contiguous"):
        encode(0, b"", [memoryview(bytes(10))[::2]])
