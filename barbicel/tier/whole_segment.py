"""All of a `.kfs` checked, in bounded memory: header, every batch, the CRC of the body, footer.

The one check that leaves no doubt: a batch's own CRC does not cover its base offset and its leader epoch, the
body's does.
"""

from __future__ import annotations

from collections.abc import Iterator

from crc32c import crc32c

from barbicel.codecs.kfs import (
    KFS_FOOTER_BYTES,
    KFS_HEADER_BYTES,
    SegmentFooter,
    SegmentHeader,
    decode_segment_footer,
    decode_segment_header,
)
from barbicel.errors import CorruptFile
from barbicel.tier.body import CHUNK_BYTES, ReadRange, SoundBatch, sound_batches, split_batches
from barbicel.tier.packing import BACKGROUND_SHARE, Packed, survey

__all__ = ["check_whole", "read_ends", "whole_batches"]


def read_ends(read: ReadRange, object_bytes: int) -> tuple[SegmentHeader, SegmentFooter]:
    """The header and the footer, each as it says. Raises CorruptFile."""
    if object_bytes <= KFS_HEADER_BYTES + KFS_FOOTER_BYTES:
        raise CorruptFile(f"{object_bytes} bytes are too few for a segment", position=0)
    header = decode_segment_header(read(0, KFS_HEADER_BYTES))
    footer_at = object_bytes - KFS_FOOTER_BYTES
    footer = decode_segment_footer(read(footer_at, KFS_FOOTER_BYTES), footer_at)
    return header, footer


def whole_batches(
    read: ReadRange, object_bytes: int, *, chunk_bytes: int = CHUNK_BYTES
) -> Iterator[SoundBatch]:
    """All batches, streamed. That header or footer describe others is known, and raised, at the end only."""
    header, footer = read_ends(read, object_bytes)
    footer_at = object_bytes - KFS_FOOTER_BYTES
    crc = messages = last_offset = 0
    for batch in sound_batches(
        read, KFS_HEADER_BYTES, footer_at, from_offset=header.base_offset, chunk_bytes=chunk_bytes
    ):
        yield batch
        crc = crc32c(batch.data, crc)
        messages += batch.facts.message_count
        last_offset = batch.facts.end_offset - 1
    if (crc, last_offset) != footer:
        raise CorruptFile("the footer does not describe the batches", position=footer_at)
    if messages != header.message_count:
        raise CorruptFile(f"{messages} messages, the header says {header.message_count}", position=0)


def check_whole(
    read: ReadRange, object_bytes: int, *, share: float = BACKGROUND_SHARE, chunk_bytes: int = CHUNK_BYTES
) -> Packed:
    """What the segment is. Raises CorruptFile with a position unless all of it agrees."""
    header, footer = read_ends(read, object_bytes)
    footer_at = object_bytes - KFS_FOOTER_BYTES

    def batches() -> Iterator[memoryview]:
        for batch in split_batches(read, KFS_HEADER_BYTES, footer_at, chunk_bytes=chunk_bytes):
            yield batch.data

    packed = survey(batches(), header.created_ms, share=share)
    if packed.body_crc32c != footer.body_crc32c:
        raise CorruptFile("the body's crc32c does not match", position=footer_at)
    if packed.end_offset - 1 != footer.last_offset:
        message = f"last offset {footer.last_offset}, the last batch ends with {packed.end_offset - 1}"
        raise CorruptFile(message, position=footer_at)
    if (packed.base_offset, packed.message_count) != (header.base_offset, header.message_count):
        message = (
            f"{header.message_count} messages from offset {header.base_offset} on, "
            f"the batches have {packed.message_count} from {packed.base_offset} on"
        )
        raise CorruptFile(message, position=0)
    return packed
