"""The wire format of frames: a fixed header, the lengths of the buffers, the head, the buffers.

``encode`` makes a list of pieces for ``sendmsg`` that shares big buffers with the caller. ``Decoder`` does no I/O: it
says where the next bytes belong (``get_buffer``) and what came of them (``buffer_updated``). Small frames are cut out
of a shared scratch buffer; a section that did not arrive in one piece gets its own memory and is received right there.

Header, big-endian: magic and version (4 bytes), sender's place id (u32), length of the head (u32), number of buffers
(u32), sum of the buffers' lengths (u64); then one u64 per buffer. If the buffers are in shared memory, the magic says
so, the number of the segment (u64) follows on the lengths, and no buffers on the head.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from apgas.errors import ProtocolError, UsageError
from apgas.transport.base import Buffer

MAGIC: Final = b"APG\x03"
MAGIC_SHARED: Final = b"APS\x03"
HEADER: Final = struct.Struct("!4sIIIQ")
_HEADER_1: Final = struct.Struct("!4sIIIQQ")
SCRATCH_BYTES: Final = 256 * 1024
MAX_PLACE: Final = 2**32 - 1
_JOIN_BYTES: Final = 16 * 1024

# what one frame may hold at most; both ends refuse more
MOST_HEAD_BYTES: Final = 64 * 2**20
MOST_BUFFERS: Final = 4096
MOST_FRAME_BYTES: Final = 16 * 2**30


class Frame(NamedTuple):
    """One received frame; its memory belongs to the receiver."""

    src: int
    head: bytes | bytearray
    buffers: list[bytearray | memoryview]


def encode(src: int, head: bytes, buffers: Sequence[Buffer] = ()) -> list[Buffer]:
    """Return the pieces of a frame, in order; small neighbours are joined, big buffers are not copied.

    Raises:
        UsageError: The frame is too large, or a buffer is not contiguous.
    """
    if len(head) <= _JOIN_BYTES:  # nearly all frames are small, of at most one buffer
        if not buffers:
            return [HEADER.pack(MAGIC, src, len(head), 0, 0) + head]
        if len(buffers) == 1 and type(only := buffers[0]) is bytes and len(only) <= _JOIN_BYTES:
            return [_HEADER_1.pack(MAGIC, src, len(head), 1, len(only), len(only)) + head + only]
    views = checked(head, buffers)
    lengths = [len(view) for view in views]
    total_bytes = sum(lengths)
    first = HEADER.pack(MAGIC, src, len(head), len(views), total_bytes) + struct.pack(f"!{len(views)}Q", *lengths)
    return _join([first, head, *views])


def encode_shared(src: int, head: bytes, lengths: Sequence[int], segment: int) -> bytes:
    """Return a frame whose buffers, of these lengths, are in a segment of shared memory."""
    first = HEADER.pack(MAGIC_SHARED, src, len(head), len(lengths), sum(lengths))
    return first + struct.pack(f"!{len(lengths) + 1}Q", *lengths, segment) + head


def checked(head: bytes, buffers: Sequence[Buffer]) -> list[Buffer]:
    """Return ``buffers`` as flat bytes, not copied, if a frame of ``head`` and them may be sent.

    Raises:
        UsageError: The frame is too large, or a buffer is not contiguous.
    """
    views = [_as_bytes(buffer) for buffer in buffers]
    problem = _excess(len(head), len(views), sum(map(len, views)))
    if problem:
        raise UsageError(f"frame too large: {problem}")
    return views


def _as_bytes(buffer: Buffer) -> Buffer:
    if not isinstance(buffer, memoryview):
        return buffer
    if buffer.nbytes == 0:
        return b""
    if not buffer.c_contiguous:
        raise UsageError("a buffer to send must be contiguous")
    return buffer.cast("B")


def _join(pieces: list[Buffer]) -> list[Buffer]:
    joined: list[Buffer] = []
    small: list[Buffer] = []
    small_bytes = 0
    for piece in pieces:
        if len(piece) > _JOIN_BYTES or small_bytes > _JOIN_BYTES:
            if small:
                joined.append(b"".join(small))
            small, small_bytes = [], 0
        if len(piece) > _JOIN_BYTES:
            joined.append(piece)
        else:
            small.append(piece)
            small_bytes += len(piece)
    if small_bytes:
        joined.append(b"".join(small))
    return joined


def _excess(head_bytes: int, buffers: int, total_bytes: int) -> str:
    if head_bytes > MOST_HEAD_BYTES:
        return f"head of {head_bytes} bytes, at most {MOST_HEAD_BYTES}"
    if buffers > MOST_BUFFERS:
        return f"{buffers} buffers, at most {MOST_BUFFERS}"
    if head_bytes + total_bytes > MOST_FRAME_BYTES:
        return f"{head_bytes + total_bytes} bytes in all, at most {MOST_FRAME_BYTES}"
    return ""


class Decoder:
    """Turns a stream of bytes into frames.

    A frame of another place than ``src``, if given, is an error: the peer has proved to be that one. Small frames are
    received in ``scratch``, which decoders used by one thread may share.

    Attributes:
        shared: Returns the buffers of a segment of shared memory; None: the connection has none.
    """

    def __init__(self, src: int | None = None, scratch: bytearray | None = None) -> None:
        self.shared: Callable[[int, Sequence[int]], list[memoryview]] | None = None
        self._in_segment: list[memoryview] | None = None
        self._src = src
        self._scratch = memoryview(scratch if scratch is not None else bytearray(SCRATCH_BYTES))
        self._partial = b""
        self._frame_src = 0
        self._sections: list[bytearray] = []
        self._lengths: tuple[int, ...] = ()
        self._target: memoryview | None = None
        self._filled = 0

    def get_buffer(self) -> memoryview:
        """Return where the next bytes are to be received; never empty. Valid until ``buffer_updated``."""
        return self._scratch if self._target is None else self._target[self._filled :]

    def buffer_updated(self, received_bytes: int) -> list[Frame]:
        """Take note of bytes put at the start of ``get_buffer()``; return the frames that they complete.

        Raises:
            ProtocolError: The bytes are not a frame within the limits. The decoder is unusable from then on.
        """
        frames: list[Frame] = []
        if self._target is not None:
            self._filled += received_bytes
            if self._filled == len(self._target):
                self._target = None
                self._fill_sections(memoryview(b""), 0, frames)
            return frames
        data = self._scratch[:received_bytes]
        if self._partial:
            data = memoryview(b"".join((self._partial, data)))
        elif (only := self._only(data)) is not None:
            return [only]
        used = self._parse(data, frames)
        self._partial = bytes(data[used:])
        return frames

    def at_boundary(self) -> bool:
        """Return whether no frame is incomplete: the stream may end here."""
        return self._target is None and not self._partial

    def _only(self, data: memoryview) -> Frame | None:
        """Return the frame that ``data`` is, if it is a whole one with one buffer, as most are; ``_parse`` in short."""
        size = len(data)
        if not _HEADER_1.size <= size <= MOST_HEAD_BYTES:  # what is no longer than this is not too large
            return None
        magic, src, head_bytes, count, total_bytes, only_bytes = _HEADER_1.unpack_from(data)
        body = _HEADER_1.size + head_bytes
        if magic != MAGIC or src != self._src or count != 1 or total_bytes != only_bytes or body + only_bytes != size:
            return None
        return Frame(src, bytes(data[_HEADER_1.size : body]), [bytearray(data[body:])])

    def _parse(self, data: memoryview, frames: list[Frame]) -> int:
        """Cut frames out of ``data``; return how many bytes are used up: the rest is an incomplete header."""
        at = 0
        while len(data) - at >= HEADER.size:
            magic, src, head_bytes, count, total_bytes = HEADER.unpack_from(data, at)
            self._check(magic, src, head_bytes, count, total_bytes)
            body = at + HEADER.size
            if not count and magic == MAGIC and (end := body + head_bytes) <= len(data):
                frames.append(Frame(src, bytes(data[body:end]), []))
                at = end
                continue
            in_segment = magic == MAGIC_SHARED
            lengths_at, body = body, body + 8 * (count + in_segment)
            if body > len(data):
                break
            lengths = struct.unpack_from(f"!{count}Q", data, lengths_at)
            if sum(lengths) != total_bytes:
                raise ProtocolError(f"buffers of {sum(lengths)} bytes announced as {total_bytes}")
            if in_segment:
                if self.shared is None:
                    raise ProtocolError("a frame in shared memory, which this connection does not have")
                (segment,) = struct.unpack_from("!Q", data, body - 8)
                self._in_segment, lengths = self.shared(segment, lengths), ()
            elif body + head_bytes + total_bytes <= len(data):
                at = _cut(data, body, src, (head_bytes, *lengths), frames)
                continue
            self._frame_src, self._lengths, self._sections = src, (head_bytes, *lengths), []
            at = self._fill_sections(data, body, frames)
        return at

    def _check(self, magic: bytes, src: int, head_bytes: int, count: int, total_bytes: int) -> None:
        if magic not in (MAGIC, MAGIC_SHARED):
            raise ProtocolError(f"not a frame of this version: starts with {magic!r}")
        if self._src is not None and src != self._src:
            raise ProtocolError(f"place {self._src} sent a frame in the name of place {src}")
        problem = _excess(head_bytes, count, total_bytes)
        if problem:
            raise ProtocolError(f"frame too large: {problem}")
        if not count and total_bytes:
            raise ProtocolError(f"{total_bytes} bytes announced in no buffer")

    def _fill_sections(self, data: memoryview, at: int, frames: list[Frame]) -> int:
        """Go on with the current frame from ``data[at:]``; return where the frame, or the data, ends."""
        while len(self._sections) < len(self._lengths):
            length = self._lengths[len(self._sections)]
            here = data[at : at + length]
            if len(here) == length:
                self._sections.append(bytearray(here))
                at += length
                continue
            section = _allocate(length)
            section[: len(here)] = here
            self._sections.append(section)
            self._target, self._filled = memoryview(section), len(here)
            return len(data)
        buffers: list[bytearray | memoryview] = list(self._sections[1:])
        if self._in_segment is not None:
            buffers, self._in_segment = list(self._in_segment), None
        frames.append(Frame(self._frame_src, self._sections[0], buffers))
        self._sections, self._lengths = [], ()
        return at


def _cut(data: memoryview, at: int, src: int, lengths: tuple[int, ...], frames: list[Frame]) -> int:
    """Cut a frame that has arrived as a whole out of ``data[at:]``; return where it ends."""
    head, *lengths_of_buffers = lengths
    buffers: list[bytearray | memoryview] = []
    start = at + head
    for length in lengths_of_buffers:
        buffers.append(bytearray(data[start : start + length]))
        start += length
    frames.append(Frame(src, bytes(data[at : at + head]), buffers))
    return start


def _allocate(length_bytes: int) -> bytearray:
    try:
        return bytearray(length_bytes)
    except MemoryError:
        raise ProtocolError(f"no memory for a section of {length_bytes} bytes") from None
