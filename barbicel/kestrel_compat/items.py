"""A Kestrel item as a Kafka record, and back.

The record's value is the item's data and its timestamp the time at which it was added. What Kafka has no
field for travels as headers, which Kafka consumers see and other producers may write:

    kestrel-expiry-ms   ASCII decimal, milliseconds since the epoch
    kestrel-flags       ASCII decimal, the flags that a memcache client gave
    kestrel-for         the name of a Stroma group; repeated for several. Only these groups get the item.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from barbicel.codecs.kafka.error_codes import ErrorCode
from barbicel.codecs.kafka.new_batch import NewRecord
from barbicel.codecs.kafka.record_batch import BadBatch, BatchHeader, decode_header
from barbicel.codecs.kafka.records import Headers, each_record, open_batch

__all__ = [
    "EXPIRY_HEADER",
    "FLAGS_HEADER",
    "FOR_HEADER",
    "MAX_HEADERS",
    "MAX_OPENED_BYTES",
    "MAX_RECORDS",
    "Audience",
    "Item",
    "Mark",
    "Stretch",
    "Unreadable",
    "decode_stretch",
    "new_record",
    "parse_number",
]

EXPIRY_HEADER = b"kestrel-expiry-ms"
FLAGS_HEADER = b"kestrel-flags"
FOR_HEADER = b"kestrel-for"
MAX_FLAGS = 2**32 - 1
MAX_NUMBER_CHARS = 20
# Beyond this a compressed batch is not opened, and its items are passed over.
MAX_OPENED_BYTES = 64 << 20
# Of a record, and of a batch. Compressed, millions take a few kilobytes, and as objects gigabytes. No client
# makes such batches of messages: a megabyte, which most may send, holds 150,000 of the smallest.
MAX_HEADERS = 100_000
MAX_RECORDS = 250_000

# The groups that an item is for; None is all of them.
Audience: TypeAlias = frozenset[str] | None


class Item(NamedTuple):
    offset: int
    data: bytes
    flags: int
    expiry_ms: int | None
    added_ms: int

    def deadline_ms(self, max_age_ms: int | None) -> int | None:
        """When it is too old to be given to anybody."""
        return _deadline_ms(self.expiry_ms, self.added_ms, max_age_ms)

    @property
    def mark(self) -> Mark:
        return Mark(self.offset, len(self.data), self.expiry_ms, self.added_ms)


class Mark(NamedTuple):
    """Stands for an item whose data is in the log alone, to be read again when somebody asks for it."""

    offset: int
    size: int
    expiry_ms: int | None
    added_ms: int

    def deadline_ms(self, max_age_ms: int | None) -> int | None:
        return _deadline_ms(self.expiry_ms, self.added_ms, max_age_ms)

    @property
    def mark(self) -> Mark:
        return self


def _deadline_ms(expiry_ms: int | None, added_ms: int, max_age_ms: int | None) -> int | None:
    if max_age_ms is None:
        return expiry_ms
    oldest_ms = added_ms + max_age_ms
    return oldest_ms if expiry_ms is None else min(expiry_ms, oldest_ms)


class Unreadable(NamedTuple):
    """A batch of which no items can be had, or not all."""

    base_offset: int
    end_offset: int
    reason: str


class Stretch(NamedTuple):
    """What there is between two offsets. Offsets without an item are nobody's."""

    start_offset: int
    end_offset: int
    items: list[Item]
    # Of the items that are not for everybody, by their offsets.
    audiences: dict[int, frozenset[str]]
    unreadable: list[Unreadable]


def new_record(
    data: bytes, flags: int, expiry_ms: int | None, audience: Audience, added_ms: int
) -> NewRecord:
    if not flags and expiry_ms is None and audience is None:
        return _new(NewRecord, (added_ms, None, data, ()))
    headers: list[tuple[bytes, bytes | None]] = []
    if expiry_ms is not None:
        headers.append((EXPIRY_HEADER, b"%d" % max(0, expiry_ms)))  # before 1970 is over, too
    if flags:
        headers.append((FLAGS_HEADER, b"%d" % flags))
    if audience is not None:
        # With nobody left there is still the header, or it would be for everybody.
        headers += [(FOR_HEADER, group.encode()) for group in sorted(audience) or [""]]
    return NewRecord(added_ms, None, data, tuple(headers))


def decode_stretch(
    batches: Sequence[memoryview], from_offset: int, max_bytes: int, enough_bytes: int
) -> Stretch:
    """The items of whole batches, from an offset in or before the first of them on.

    Records without a value, and what clients never see, are no items. `max_bytes` is how large a batch may be
    when it is decompressed. Producers' batches are stored unopened, so what is inside can be anything: the
    stretch ends behind the batch with which `enough_bytes` were opened, or as many records as one may have.
    The first one is always in it.
    """
    stretch = Stretch(from_offset, from_offset, [], {}, [])
    opened_bytes = opened_records = 0
    for batch in batches:
        header = decode_header(batch)
        stretch = stretch._replace(end_offset=max(stretch.end_offset, header.end_offset))
        if header.is_control:
            continue
        # What is not compressed is no larger inside than it is here.
        most_bytes = max_bytes if header.codec else max(max_bytes, len(batch))
        try:
            opened_bytes += _decode_items(batch, header, most_bytes, stretch)
        except BadBatch as error:
            stretch.unreadable.append(Unreadable(header.base_offset, header.end_offset, error.message))
            opened_bytes += max_bytes if header.codec else len(batch)  # it took the time, if not the memory
        opened_records += header.records_count
        if opened_bytes >= enough_bytes or opened_records >= MAX_RECORDS:
            break
    return stretch


def _decode_items(batch: memoryview, header: BatchHeader, max_bytes: int, stretch: Stretch) -> int:
    """How many bytes were inside. Its memory is free again, but for the items'."""
    count = header.records_count
    if count > MAX_RECORDS:
        raise BadBatch(ErrorCode.INVALID_RECORD, f"{count} records in a batch; {MAX_RECORDS} are read")
    from_offset, items = stretch.start_offset, stretch.items
    header, inside = open_batch(batch, max_bytes)
    for offset, timestamp_ms, _, value, headers in each_record(header, inside, MAX_HEADERS):
        if value is None or offset < from_offset:
            continue
        if not headers:
            items.append(_new(Item, (offset, value, 0, None, timestamp_ms)))
            continue
        item, audience = _with_headers(offset, timestamp_ms, value, headers)
        items.append(item)
        if audience is not None:
            stretch.audiences[offset] = audience
    return len(inside)


# The tuple's own constructor is Python, and this is done for every item.
_new = tuple.__new__


def _with_headers(offset: int, added_ms: int, data: bytes, headers: Headers) -> tuple[Item, Audience]:
    flags, expiry_ms = 0, None
    groups: list[str] = []
    for key, value in headers:
        if key == EXPIRY_HEADER:
            expiry_ms = parse_number(value)
        elif key == FLAGS_HEADER:
            flags = _flags(value)
        elif key == FOR_HEADER and value is not None:
            groups.append(value.decode("utf-8", "replace"))
    return Item(offset, data, flags, expiry_ms, added_ms), frozenset(groups) if groups else None


def _flags(value: bytes | None) -> int:
    """Some clients think that they have a sign."""
    is_negative = value is not None and value.startswith(b"-")
    number = parse_number(value[1:] if value is not None and is_negative else value)
    if number is None or number > MAX_FLAGS:
        return 0
    return -number if is_negative else number


def parse_number(value: bytes | None) -> int | None:
    """None for what is no number: anybody can write headers, and an item is not lost for them."""
    if value is None or not value.isdigit() or len(value) > MAX_NUMBER_CHARS:
        return None
    return int(value)
