"""A sealed segment's batches as a `.kfs` object, in two passes over them and in bounded memory.

The header has the number of messages, so that it is known only after a pass: `survey` looks at every batch
and calculates all that describes the object, `pieces` streams the object itself. The invariant: what `pieces`
ends with, the footer, comes only if the second pass gave the bytes of the first; a damaged batch is never
packed.
docs/formats/kfs.md has the format.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from crc32c import crc32c

from barbicel.codecs.crc64 import crc64_nvme
from barbicel.codecs.kafka.record_batch import CODEC_BITS, CONTROL_BIT
from barbicel.codecs.kfs import (
    KFS_FOOTER_BYTES,
    KFS_HEADER_BYTES,
    SegmentFooter,
    SegmentHeader,
    check_segment_size,
    encode_segment_footer,
    encode_segment_header,
)
from barbicel.codecs.kfs_batches import BatchFacts, decode_batch_facts
from barbicel.codecs.kfs_index import IndexBuilder, encode_index
from barbicel.disk import Bytes
from barbicel.errors import CorruptFile
from barbicel.tier.pace import Pace

__all__ = [
    "BACKGROUND_SHARE",
    "Kept",
    "NoBatches",
    "Packed",
    "Pieces",
    "Tally",
    "grouped",
    "is_compressible",
    "pieces",
    "survey",
]

PIECE_BYTES = 1 << 20
# Between two looks at the clock: some 50 microseconds of work.
GROUP_BATCHES = 32
GROUP_BYTES = 256 << 10
# Batches of fewer bytes are copied together before their CRCs are calculated: a call costs more than a copy.
SMALL_BATCH_BYTES = 4096
BACKGROUND_SHARE = 0.15


@dataclass(frozen=True, slots=True)
class Packed:
    """What is known of a segment after one pass over its batches."""

    base_offset: int
    # The first offset after the last batch.
    end_offset: int
    message_count: int
    # Of all batches; -1 if none has a timestamp.
    max_timestamp_ms: int
    body_bytes: int
    body_crc32c: int
    # CRC-64/NVME of the body.
    crc64: int
    header: bytes
    footer: bytes
    index: bytes
    # Whether compressing could make it smaller.
    has_plain_batches: bool

    @property
    def object_bytes(self) -> int:
        return KFS_HEADER_BYTES + self.body_bytes + KFS_FOOTER_BYTES


class NoBatches(ValueError):
    """Nothing to pack. A type of its own: whoever takes this for an empty segment lets go of it."""

    def __init__(self) -> None:
        super().__init__("a segment needs a batch")


def is_compressible(facts: BatchFacts) -> bool:
    """Plain, and with records that clients see: Kafka compresses no control batch."""
    return not facts.attributes & (CODEC_BITS | CONTROL_BIT) and facts.message_count > 0


class Tally:
    """Told of every batch in its order, it knows at the end what Packed has."""

    def __init__(self) -> None:
        self.end_offset = 0
        self.message_count = 0
        self.max_timestamp_ms = -1
        self.body_bytes = 0
        self.body_crc32c = 0
        self.crc64 = 0
        self.has_plain_batches = False
        self._index = IndexBuilder()

    def add(self, batches: list[Bytes]) -> None:
        """The next batches. CorruptFile with the position in the `.kfs`; SegmentTooLarge."""
        end_offset, position, messages = self.end_offset, KFS_HEADER_BYTES + self.body_bytes, 0
        latest_ms, note = self.max_timestamp_ms, self._index.note
        for batch in batches:
            try:
                facts = decode_batch_facts(memoryview(batch))
            except CorruptFile as problem:
                message = f"after offset {end_offset - 1}: {problem.message}"
                raise CorruptFile(message, position=position) from None
            base_offset, batch_end, size, _, _, max_timestamp_ms, count = facts
            if base_offset < end_offset or size != len(batch):
                raise _misplaced(facts, len(batch), end_offset, position)
            note(base_offset, position, count)
            end_offset = batch_end
            position += size
            messages += count
            if max_timestamp_ms > latest_ms:
                latest_ms = max_timestamp_ms
            if not self.has_plain_batches:
                self.has_plain_batches = is_compressible(facts)
        check_segment_size(position - KFS_HEADER_BYTES, self.message_count + messages)
        self._keep(batches, end_offset, messages, latest_ms)

    def _keep(self, batches: list[Bytes], end_offset: int, messages: int, latest_ms: int) -> None:
        self.end_offset = end_offset
        self.message_count += messages
        self.max_timestamp_ms = latest_ms
        for run in _runs(batches):
            self.body_bytes += len(run)
            self.body_crc32c = crc32c(run, self.body_crc32c)
            self.crc64 = crc64_nvme(run, self.crc64)

    def pack(self, created_ms: int) -> Packed:
        """NoBatches if there was none."""
        index = self._index.index
        if not len(index):
            raise NoBatches
        base_offset = index.offsets[0]
        return Packed(
            base_offset=base_offset,
            end_offset=self.end_offset,
            message_count=self.message_count,
            max_timestamp_ms=self.max_timestamp_ms,
            body_bytes=self.body_bytes,
            body_crc32c=self.body_crc32c,
            crc64=self.crc64,
            header=encode_segment_header(SegmentHeader(base_offset, self.message_count, created_ms)),
            footer=encode_segment_footer(SegmentFooter(self.body_crc32c, self.end_offset - 1)),
            index=encode_index(index),
            has_plain_batches=self.has_plain_batches,
        )


def _misplaced(facts: BatchFacts, size: int, end_offset: int, position: int) -> CorruptFile:
    if facts.size != size:
        return CorruptFile(f"{size} bytes for a batch of {facts.size}", position=position)
    message = f"a batch with offset {facts.base_offset} follows offset {end_offset - 1}"
    return CorruptFile(message, position=position)


def survey(batches: Iterable[Bytes], created_ms: int, *, share: float = BACKGROUND_SHARE) -> Packed:
    """Look at all batches of a segment, each as one item. See `Tally` for what it raises."""
    tally, pace = Tally(), Pace(share)
    for group in grouped(batches):
        tally.add(group)
        pace.rest()
    return tally.pack(created_ms)


class Kept:
    """Keeps batches that pass by, many in a piece, so that the second pass need not read them again."""

    def __init__(self) -> None:
        self.pieces: list[Bytes] = []

    def passing(self, batches: Iterable[Bytes]) -> Iterator[Bytes]:
        waiting: list[Bytes] = []
        size = 0
        for batch in batches:
            waiting.append(batch)
            size += len(batch)
            if size >= PIECE_BYTES:
                self.pieces.append(b"".join(waiting))
                waiting, size = [], 0
            yield batch
        self.pieces.append(b"".join(waiting))


def grouped(
    batches: Iterable[Bytes], max_batches: int = GROUP_BATCHES, max_bytes: int = GROUP_BYTES
) -> Iterator[list[Bytes]]:
    """A few at a time: until there are so many, or so many bytes."""
    group: list[Bytes] = []
    size = 0
    for batch in batches:
        group.append(batch)
        size += len(batch)
        if len(group) >= max_batches or size >= max_bytes:
            yield group
            group, size = [], 0
    if group:
        yield group


def _runs(batches: list[Bytes]) -> list[Bytes]:
    if sum(map(len, batches)) < SMALL_BATCH_BYTES * len(batches):
        return [b"".join(batches)]
    return batches


def pieces(
    packed: Packed, batches: Iterable[Bytes], *, share: float = BACKGROUND_SHARE, has_md5: bool = True
) -> Pieces:
    return Pieces(packed, batches, share, has_md5=has_md5)


class Pieces(Iterator[Bytes]):
    """The whole object in pieces of about 1 MiB; `md5_hex`, if wanted, is there once all of them were taken.

    CorruptFile in the place of the last piece if the batches are not those of the survey.
    """

    def __init__(self, packed: Packed, batches: Iterable[Bytes], share: float, *, has_md5: bool) -> None:
        self._md5 = hashlib.md5(usedforsecurity=False) if has_md5 else None
        self._is_whole = False
        self._pieces = self._each(packed, batches, share)

    def __next__(self) -> Bytes:
        return next(self._pieces)

    @property
    def md5_hex(self) -> str:
        """Of the whole object, which is what a store knows a small object's content by."""
        if not self._is_whole or self._md5 is None:
            raise ValueError("the MD5 is known once all pieces were taken, if it was wanted")
        return self._md5.hexdigest()

    def _hashed(self, piece: bytes) -> bytes:
        if self._md5 is not None:
            self._md5.update(piece)
        return piece

    def _each(self, packed: Packed, batches: Iterable[Bytes], share: float) -> Iterator[Bytes]:
        body_bytes = body_crc32c = 0
        yield self._hashed(packed.header)
        for body in _joined(batches, Pace(share)):
            body_bytes += len(body)
            body_crc32c = crc32c(body, body_crc32c)
            yield self._hashed(body)
        if (body_bytes, body_crc32c) != (packed.body_bytes, packed.body_crc32c):
            message = f"{body_bytes} bytes with crc32c {body_crc32c:#010x} are not what was surveyed"
            raise CorruptFile(message, position=KFS_HEADER_BYTES + body_bytes)
        footer = self._hashed(packed.footer)
        self._is_whole = True
        yield footer


def _joined(batches: Iterable[Bytes], pace: Pace) -> Iterator[bytes]:
    """About PIECE_BYTES at a time. CRC and MD5 of so much are calculated without the interpreter."""
    waiting: list[Bytes] = []
    size = 0
    for group in grouped(batches):
        waiting += group
        size += sum(map(len, group))
        pace.rest()
        if size >= PIECE_BYTES:
            yield b"".join(waiting)
            waiting, size = [], 0
            pace.restart()
    if waiting:
        yield b"".join(waiting)
