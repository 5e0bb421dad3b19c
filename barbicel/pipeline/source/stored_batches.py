"""The batches of a stretch, wherever it lies: whole, their records' or their own CRC checked, in order.

Whatever is wrong is an error that names the file or the object, the position and the offsets.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

from barbicel.codecs.kafka.record_batch import decode_header
from barbicel.codecs.keratin_format import LOG_HEADER_BYTES
from barbicel.disk import Disk
from barbicel.pipeline.source.objects import check_base_offset, open_object
from barbicel.pipeline.source.options import Options
from barbicel.pipeline.source.segment_cursor import SegmentCursor
from barbicel.pipeline.source.shapes import LogStretch, ObjectStretch
from barbicel.pipeline.source.stored_batch import StoredBatch, lost

__all__ = ["log_batches", "object_batches"]


def log_batches(
    disk: Disk, stretch: LogStretch, from_offset: int, end_offset: int, hint: tuple[int, int] | None = None
) -> Iterator[StoredBatch]:
    """The batches of a segment file that hold any of the offsets, past those that a repair gave up.

    Raises CorruptLog, DiskError (ENOENT: the segment is gone).
    """
    hint = hint or (stretch.base_offset, LOG_HEADER_BYTES)
    with closing(disk.open(stretch.path, "read")) as file:
        cursor = SegmentCursor(file, stretch, from_offset, end_offset, hint)
        yield from cursor.batches(fail_on_data_loss=False)


def object_batches(
    disk: Disk, stretch: ObjectStretch, from_offset: int, end_offset: int, options: Options
) -> Iterator[StoredBatch]:
    """The batches of a .kfs object that hold any of the offsets.

    Raises CorruptFile, CorruptObject, OffsetsLost, StoreError (ObjectMissing: it is gone).
    """
    with open_object(disk, stretch.store_url, stretch.key, options.store_options) as segment:
        check_base_offset(segment, stretch.base_offset)
        # All of it is read past the index, and the sum of all of it is checked.
        is_whole = from_offset <= segment.header.base_offset and end_offset > segment.footer.last_offset
        reached = from_offset
        for data in segment.batches() if is_whole else segment.read(from_offset):
            header = decode_header(data)
            if header.base_offset >= end_offset:
                if is_whole:
                    continue  # an offset that cannot be: the sum at the end tells that it is damage
                break
            if header.base_offset > reached and options.fail_on_data_loss:
                raise lost(reached, header.base_offset, segment.url)
            if header.end_offset > from_offset:
                yield StoredBatch(header, data, None)
            reached = max(reached, header.end_offset)
        if reached < end_offset and options.fail_on_data_loss:
            raise lost(reached, end_offset, segment.url)
