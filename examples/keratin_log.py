# ruff: noqa: T201 - what an example is for is what it prints
"""Keratin from Python: append, fetch, scan and find by time. README.md shows this file."""

from barbicel.keratin import Ack, Log, NewRecord, Writer

with Log.open("example-data/log") as log, Writer() as writer:
    # Returns when both records survive a power cut.
    first = writer.append(log, [NewRecord(b"ordered"), NewRecord(b"paid", headers=b"EUR")])
    # Returns sooner: survives a kill -9 now, and a power cut about 100 ms later.
    writer.append(log, [NewRecord(b"sent")], Ack.AFTER_WRITE)

    record = log.fetch(first.base_offset + 1)
    print(f"offset {record.offset}: {bytes(record.payload)!r}, headers {bytes(record.headers)!r}")

    for record in log.scan(first.base_offset):
        print(f"scanned {record.offset}: {bytes(record.payload)!r}")

    hit = log.offset_for_time(record.timestamp_ms)
    if hit is not None:
        print(f"first record at or after {record.timestamp_ms} ms: offset {hit.offset}")
    print(f"the log holds offsets {log.start_offset} to {log.end_offset - 1}")
