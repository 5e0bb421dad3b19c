# ruff: noqa: T201 - what an example is for is what it prints
"""Stroma from Python: hand messages out, take acks in any order, let deadlines pass, commit as Kafka does."""

from barbicel.clock import wall_clock_ms
from barbicel.keratin import Log, NewRecord
from barbicel.stroma import Flusher, GroupKey, GroupStore, Storage

WORKERS = GroupKey("orders", 0, "workers")
REPORTS = GroupKey("orders", 0, "reports")

with (
    Log.open("example-data/orders-0") as log,
    GroupStore.open("example-data/groups") as groups,
    Flusher(groups),  # makes what was committed durable within 100 ms
):
    storage = Storage(lambda topic, partition: log, groups)
    storage.open_partition("orders", 0)  # before the first append, each time
    list(groups.recover_deadlines())  # those of an earlier run
    storage.append_batch("orders", 0, [NewRecord(b"ordered"), NewRecord(b"paid"), NewRecord(b"sent")])
    end = log.end_offset

    # Share a queue: hand messages out until a deadline, and take acks in any order.
    offsets = [item.offsets.start for item in storage.fetch_available(WORKERS, end - 3, 3)]
    deadline_ms = wall_clock_ms() + 30_000
    storage.mark_inflight(WORKERS, offsets, deadline_ms)
    storage.ack(WORKERS, [offsets[2]])
    storage.release(WORKERS, [offsets[1]])
    failures = storage.commit()  # one write a group; from here on it survives a kill -9
    print(f"committed, {len(failures)} groups failed; {storage.lag(WORKERS)} messages are not acked")

    # The first one was not acked in time: it is available again, and its deliveries are counted.
    for expired, record, _ in storage.list_expired(deadline_ms):
        if record is not None:
            print(f"expired {bytes(record.payload)!r} after delivery {expired.inflight.epoch}")
    for record, stretch in storage.fetch_available(WORKERS, end - 3, 10):
        print(f"available {bytes(record.payload)!r}: {stretch.end - stretch.start} message")
    storage.flush(WORKERS)

    # Or commit a position, as a Kafka consumer does.
    storage.commit_position(REPORTS, end - 1, leader_epoch=None, metadata=b"report 7")
    storage.commit()
    groups.sync([REPORTS])  # durable now, whatever the Flusher is at
    state = groups.state(REPORTS)
    print(f"reports go on at {state.acked_until}, {state.metadata!r}; lag {storage.lag(REPORTS)}")
