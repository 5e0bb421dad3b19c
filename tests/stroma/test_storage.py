"""Messages and their consumption together, on the offsets inside records that span many of them."""

from __future__ import annotations

import errno
from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barbicel.codecs.keratin_record import Record
from barbicel.codecs.stroma_events import Event, MarkInflight, Release
from barbicel.codecs.stroma_format import MAX_EPOCH
from barbicel.codecs.stroma_snapshot import Inflight
from barbicel.errors import CorruptLog, OffsetOutOfRange
from barbicel.keratin import Ack, Log, LogSettings, NewRecord
from barbicel.keratin.layout import Layout
from barbicel.keratin.recovery import plan_recovery
from barbicel.keratin.repair import apply_plan
from barbicel.stroma import GroupKey, Storage
from barbicel.stroma.storage import Available
from barbicel.stroma.store import Expired
from tests.stroma.builders import KEY, LONG_KEY, NOW_MS, OTHER, events, open_store
from tests.stroma.model import PlainGroup, View, view_of
from tests.support.fault_disk import Fate, FaultDisk

# The offsets of the records are 0-2, 3, 4-7, 8, 9-13, 14.
SPANS = (3, 1, 4, 1, 5, 1)
STARTS = (0, 3, 4, 8, 9, 14)
END = 15
SETTINGS = LogSettings(preallocate_max_bytes=0)
LATER = NOW_MS + 1000


class Shop:
    """A store of groups and a log a partition, all on one disk."""

    def __init__(self, disk: FaultDisk | None = None, *, fill: bool = True) -> None:
        self.disk = disk or FaultDisk()
        self._logs: dict[tuple[str, int], Log] = {}
        self.groups = open_store(self.disk)
        self.storage = Storage(self.log, self.groups)
        if fill:
            self.storage.append_batch("topic", 0, new_records())

    def log(self, topic: str, partition: int) -> Log:
        if (topic, partition) not in self._logs:
            self._logs[topic, partition] = Log.open(
                f"/logs/{topic}-{partition}", disk=self.disk, settings=SETTINGS, clock=lambda: NOW_MS
            )
        return self._logs[topic, partition]

    def close(self) -> None:
        self.groups.close()
        for log in self._logs.values():
            log.close()


def new_records() -> list[NewRecord]:
    return [NewRecord(b"record %d" % start, span=span) for start, span in zip(STARTS, SPANS, strict=True)]


def parts(found: list[Available]) -> list[tuple[int, int, int]]:
    """The record's offset and which of its offsets."""
    return [(item.record.offset, *item.offsets) for item in found]


def offsets_of(found: list[Available]) -> list[int]:
    return [offset for item in found for offset in range(*item.offsets)]


@pytest.fixture
def shop() -> Shop:
    return Shop()


class TestFetchAvailable:
    def test_gives_every_record_with_its_offsets(self, shop: Shop) -> None:
        found = shop.storage.fetch_available(KEY, 0, 100)
        assert parts(found) == [
            (start, start, start + span) for start, span in zip(STARTS, SPANS, strict=True)
        ]
        assert bytes(found[2].record.payload) == b"record 4"

    def test_passes_over_what_is_acked_or_inflight(self, shop: Shop) -> None:
        shop.storage.ack(KEY, [0, 1, 3, 5, 9, 13])
        shop.storage.mark_inflight(KEY, [6, 8, 11])
        assert parts(shop.storage.fetch_available(KEY, 0, 100)) == [
            (0, 2, 3),
            (4, 4, 5),
            (4, 7, 8),
            (9, 10, 11),
            (9, 12, 13),
            (14, 14, 15),
        ]

    def test_fetches_a_record_once_however_many_parts(
        self, shop: Shop, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        shop.storage.ack(KEY, [1, 5, 10, 12])
        fetched: list[int] = []
        plain = Log.fetch

        def fetch(log: Log, offset: int) -> Record:
            fetched.append(offset)
            return plain(log, offset)

        monkeypatch.setattr(Log, "fetch", fetch)
        assert len(shop.storage.fetch_available(KEY, 0, 100)) == 10
        assert fetched == [0, 3, 4, 8, 9, 14]
        fetched.clear()
        assert offsets_of(shop.storage.fetch_available(KEY, 0, 2)) == [0, 2]
        assert fetched == [0]
        assert shop.storage.fetch_available(KEY, 0, 0) == []
        assert fetched == [0]

    def test_begins_where_it_is_told_to(self, shop: Shop) -> None:
        assert parts(shop.storage.fetch_available(KEY, 6, 100))[0] == (4, 6, 8)
        assert parts(shop.storage.fetch_available(KEY, END, 100)) == []
        assert parts(shop.storage.fetch_available(KEY, END + 9, 100)) == []

    @pytest.mark.parametrize("max_offsets", range(END + 3))
    def test_gives_as_many_as_are_wanted(self, shop: Shop, max_offsets: int) -> None:
        shop.storage.ack(KEY, [1, 5, 6])
        expected = [offset for offset in range(END) if offset not in (1, 5, 6)][:max_offsets]
        assert offsets_of(shop.storage.fetch_available(KEY, 0, max_offsets)) == expected

    def test_stops_before_too_many_bytes_but_not_before_the_first(self, shop: Shop) -> None:
        sizes = [record.size for record in shop.log("topic", 0).scan(0)]
        for max_bytes, count in ((0, 1), (sizes[0], 1), (sum(sizes[:2]), 2), (sum(sizes[:3]) - 1, 2)):
            found = shop.storage.fetch_available(KEY, 0, 100, max_bytes)
            assert [item.record.offset for item in found] == list(STARTS[:count])
        assert len(shop.storage.fetch_available(KEY, 0, 100, sum(sizes))) == len(SPANS)

    def test_counts_a_records_bytes_once_however_many_parts(self, shop: Shop) -> None:
        shop.storage.ack(KEY, [0, 1, 2, 3, 5, 10, 12])
        size = shop.log("topic", 0).fetch(4).size
        assert parts(shop.storage.fetch_available(KEY, 0, 100, size)) == [(4, 4, 5), (4, 6, 8)]

    @given(st.lists(events, max_size=30), st.integers(0, END), st.integers(0, END + 1))
    def test_gives_what_the_model_has(self, made: list[Event], start: int, limit: int) -> None:
        shop, model = Shop(), PlainGroup()
        shop.groups.record(KEY, made)
        for event in made:
            model.apply(event)
        found = shop.storage.fetch_available(KEY, start, limit)
        assert offsets_of(found) == model.available(start, END)[:limit]
        for record, offsets in found:
            assert record.offset <= offsets.start < offsets.end <= record.end_offset
        assert shop.storage.lag(KEY) == sum(not model.is_acked(offset) for offset in range(END))


class TestHandingOut:
    def test_a_delivery_counts_until_it_is_acked(self, shop: Shop) -> None:
        storage = shop.storage
        for delivery in (1, 2, 3):
            storage.mark_inflight(KEY, [5, 6], LATER + delivery)
            assert shop.groups.state(KEY).inflight[5] == Inflight(LATER + delivery, delivery)
            storage.commit()
            found = storage.list_expired(LATER + delivery)
            assert [(item.expired, offset_of(item.record)) for item in found] == [
                (Expired(KEY, offset, Inflight(LATER + delivery, delivery)), 4) for offset in (5, 6)
            ]
            assert storage.list_expired(LATER + delivery) == []
        storage.ack(KEY, [5])
        assert 5 not in offsets_of(storage.fetch_available(KEY, 0, 100))
        assert 6 in offsets_of(storage.fetch_available(KEY, 0, 100))

    def test_what_is_released_by_hand_counts_too(self, shop: Shop) -> None:
        shop.storage.mark_inflight(KEY, [5], LATER)
        shop.groups.record(KEY, [Release(5, 1)])
        shop.storage.mark_inflight(KEY, [5], LATER)
        assert shop.groups.state(KEY).inflight == {5: Inflight(LATER, 2)}

    def test_without_a_deadline_it_never_expires(self, shop: Shop) -> None:
        shop.storage.mark_inflight(KEY, [5])
        shop.storage.commit()
        assert shop.storage.list_expired(1 << 62) == []
        assert shop.groups.next_deadline_ms() is None

    def test_a_limit_leaves_the_rest(self, shop: Shop) -> None:
        shop.storage.mark_inflight(KEY, range(10), LATER)
        shop.storage.commit()
        first = shop.storage.list_expired(LATER, 4)
        rest = shop.storage.list_expired(LATER)
        assert sorted(item.expired.offset for item in first + rest) == list(range(10))
        assert len(first) == 4

    def test_flush_is_the_end_of_all(self, shop: Shop) -> None:
        shop.storage.mark_inflight(KEY, [3, 4], LATER)
        shop.storage.ack(KEY, [9])
        shop.storage.flush(KEY)
        assert (shop.storage.lag(KEY), shop.storage.fetch_available(KEY, 0, 9)) == (0, [])
        shop.storage.append_batch("topic", 0, [NewRecord(b"more", span=2)])
        assert offsets_of(shop.storage.fetch_available(KEY, 0, 9)) == [END, END + 1]
        assert shop.storage.lag(KEY) == 2


def offset_of(record: Record | None) -> int | None:
    return None if record is None else record.offset


class TestGivingBackAndCommitting:
    def test_what_is_released_counts_and_what_is_cleared_does_not(self, shop: Shop) -> None:
        storage = shop.storage
        storage.mark_inflight(KEY, [3, 4, 5], LATER)
        storage.release(KEY, [3, 9])
        storage.clear_inflight(KEY, [4, 9])
        state = shop.groups.state(KEY)
        assert state.inflight == {5: Inflight(LATER, 1)}
        assert state.releases == {3: 1}
        assert [state.next_epoch(offset) for offset in (3, 4, 5)] == [2, 1, 2]
        assert storage.commit() == {}

    def test_a_committed_position_is_kafkas(self, shop: Shop) -> None:
        storage = shop.storage
        storage.ack(KEY, [0, 1, 7])
        storage.commit_position(KEY, 9, 4, b"node-7")
        state = shop.groups.state(KEY)
        assert (state.acked_until, state.leader_epoch, state.metadata) == (9, 4, b"node-7")
        storage.commit_position(KEY, 2)
        assert (state.acked_until, state.is_committed, state.leader_epoch, state.metadata) == (
            2,
            True,
            None,
            None,
        )
        storage.commit_position(KEY, END + 100)  # as Kafka allows
        assert storage.lag(KEY) == 0
        storage.reset(KEY)
        assert (state.acked_until, state.is_committed) == (0, False)

    def test_a_delivery_count_stops_at_the_last_number(self, shop: Shop) -> None:
        shop.groups.record(KEY, [MarkInflight(5, LATER, MAX_EPOCH)])
        shop.storage.mark_inflight(KEY, [5], LATER)
        assert shop.groups.state(KEY).inflight == {5: Inflight(LATER, MAX_EPOCH)}

    def test_nothing_beyond_the_logs_end_is_acked_or_handed_out(self, shop: Shop) -> None:
        """The message that comes there would never be delivered."""
        for use in (shop.storage.ack, shop.storage.mark_inflight):
            for offset in (END, END + 5):
                with pytest.raises(OffsetOutOfRange, match=f"offset {offset} is outside"):
                    use(KEY, [3, offset])
        assert view_of(shop.groups.state(KEY)) == View()
        shop.storage.append_batch("topic", 0, [NewRecord(b"more")])
        assert END in offsets_of(shop.storage.fetch_available(KEY, END, 9))
        shop.storage.ack(KEY, [END])

    def test_asking_for_the_lag_changes_nothing(self, shop: Shop) -> None:
        shop.log("topic", 0).truncate_before(6)
        before = shop.disk.files()
        assert shop.storage.lag(KEY) == END - 6
        assert shop.storage.commit() == {}
        assert not shop.groups.exists(KEY)
        assert shop.disk.files() == before
        shop.storage.ack(KEY, [0, 2, 7, 8])
        assert shop.storage.lag(KEY) == END - 6 - 2


class TestRecordsThatCannotBeHad:
    """A flipped bit in record 4 to 7, which nobody has repaired yet."""

    @pytest.fixture
    def shop(self) -> Shop:
        shop = Shop()
        position = shop.log("topic", 0).fetch(4).position
        shop.log("topic", 0).roll()
        path = "/logs/topic-0/segments/00000000000000000000.log"
        data = bytearray(shop.disk.files()[path])
        data[position + 40] ^= 0xFF
        shop.disk.put(path, bytes(data))
        return shop

    def test_what_lies_before_the_damage_is_handed_out(self, shop: Shop) -> None:
        assert offsets_of(shop.storage.fetch_available(KEY, 0, 100)) == [0, 1, 2, 3]
        with pytest.raises(CorruptLog, match="offsets 4 to 7"):
            shop.storage.fetch_available(KEY, 4, 100)
        shop.storage.ack(KEY, [4, 5, 6, 7])
        assert offsets_of(shop.storage.fetch_available(KEY, 0, 100))[-1] == 14

    def test_what_has_expired_is_told_whole(self, shop: Shop) -> None:
        gone = GroupKey("gone", 0, "group")
        shop.storage.mark_inflight(KEY, [1, 5, 8], LATER)
        shop.groups.record(gone, [MarkInflight(0, LATER - 1, 1)])
        shop.storage.commit()

        def logs(topic: str, partition: int) -> Log:
            if topic == "gone":
                raise KeyError(topic)
            return shop.log(topic, partition)

        found = Storage(logs, shop.groups).list_expired(LATER)
        told = {item.expired.offset: (offset_of(item.record), type(item.error)) for item in found}
        assert told == {
            0: (None, KeyError),
            1: (0, type(None)),
            5: (None, CorruptLog),
            8: (8, type(None)),
        }


class TestGroupsAndPartitions:
    def test_two_groups_of_one_log_know_nothing_of_each_other(self, shop: Shop) -> None:
        shop.storage.ack(KEY, range(10))
        shop.storage.mark_inflight(OTHER, [0, 12], LATER)
        assert offsets_of(shop.storage.fetch_available(KEY, 0, 100)) == [10, 11, 12, 13, 14]
        assert offsets_of(shop.storage.fetch_available(OTHER, 0, 3)) == [1, 2, 3]
        assert (shop.storage.lag(KEY), shop.storage.lag(OTHER)) == (5, 15)

    def test_a_group_reads_each_partition_for_itself(self, shop: Shop) -> None:
        elsewhere = GroupKey("topic", 1, KEY.group)
        shop.storage.append_batch("topic", 1, [NewRecord(b"elsewhere")], Ack.AFTER_WRITE)
        shop.storage.ack(KEY, [0])
        found = shop.storage.fetch_available(elsewhere, 0, 100)
        assert [bytes(item.record.payload) for item in found] == [b"elsewhere"]
        assert bytes(shop.storage.fetch_by_offset("topic", 0, 6).payload) == b"record 4"
        with pytest.raises(OffsetOutOfRange):
            shop.storage.fetch_by_offset("topic", 1, 1)

    def test_writes_that_fail_are_told_with_their_groups(self, shop: Shop) -> None:
        for key in (KEY, OTHER, LONG_KEY):
            shop.storage.commit_position(key, 1)
        shop.disk.fail("write", errno.EIO, path_contains=".delta", times=2)
        failures = shop.storage.commit()
        assert list(failures) == [KEY, OTHER]
        assert all("write failed" in str(error) for error in failures.values())
        assert offsets_of(shop.storage.fetch_available(KEY, 0, 1)) == [0]


class TestALogThatLostItsBeginning:
    def test_what_retention_took_is_neither_available_nor_lag(self, shop: Shop) -> None:
        shop.storage.ack(KEY, [0, 8])
        shop.log("topic", 0).truncate_before(6)
        assert parts(shop.storage.fetch_available(KEY, 0, 100))[:2] == [(4, 6, 8), (9, 9, 14)]
        assert shop.storage.lag(KEY) == END - 6 - 1

    def test_what_is_handed_out_and_trimmed_expires_without_a_record(self, shop: Shop) -> None:
        shop.storage.mark_inflight(KEY, [2, 6], LATER)
        shop.storage.commit()
        shop.log("topic", 0).truncate_before(4)
        found = shop.storage.list_expired(LATER)
        assert [(item.expired.offset, offset_of(item.record)) for item in found] == [(2, None), (6, 4)]


class TestALogThatWasRepaired:
    """Record 4 to 7 was damaged, and a repair gave it up."""

    @pytest.fixture
    def shop(self) -> Shop:
        shop = Shop()
        record = shop.log("topic", 0).fetch(4)
        shop.log("topic", 0).roll()
        shop.close()
        path = "/logs/topic-0/segments/00000000000000000000.log"
        data = bytearray(shop.disk.files()[path])
        data[record.position + 40] ^= 0xFF
        shop.disk.put(path, bytes(data))
        plan = plan_recovery(shop.disk, Layout("/logs/topic-0"), SETTINGS, deep=True)
        assert plan.damage
        apply_plan(shop.disk, plan, NOW_MS, accept_loss=True)
        return Shop(shop.disk, fill=False)

    def test_what_is_lost_does_not_block(self, shop: Shop) -> None:
        assert parts(shop.storage.fetch_available(KEY, 0, 100)) == [
            (0, 0, 3),
            (3, 3, 4),
            (8, 8, 9),
            (9, 9, 14),
            (14, 14, 15),
        ]
        assert offsets_of(shop.storage.fetch_available(KEY, 5, 2)) == [8, 9]
        shop.storage.ack(KEY, [4, 6])
        assert offsets_of(shop.storage.fetch_available(KEY, 3, 2)) == [3, 8]

    def test_what_is_lost_is_asked_for_once(self, shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
        shop.storage.ack(KEY, [5])
        fetched: list[int] = []
        plain = Log.fetch

        def fetch(log: Log, offset: int) -> Record:
            fetched.append(offset)
            return plain(log, offset)

        monkeypatch.setattr(Log, "fetch", fetch)
        shop.storage.fetch_available(KEY, 0, 100)
        assert fetched == [0, 3, 4, 8, 9, 14]

    def test_what_was_handed_out_and_lost_expires_without_a_record(self, shop: Shop) -> None:
        shop.storage.mark_inflight(KEY, [5, 9], LATER)
        shop.storage.commit()
        found = shop.storage.list_expired(LATER)
        assert [(item.expired.offset, offset_of(item.record)) for item in found] == [(5, None), (9, 9)]


@pytest.mark.parametrize("seed", range(6))
def test_across_crashes_every_message_is_delivered_and_none_after_its_ack_was_synced(seed: int) -> None:
    random, shop, now_ms = Random(seed), Shop(), NOW_MS
    delivered: Counter[int] = Counter()
    done: set[int] = set()  # acked, and synced
    for _ in range(200):
        now_ms += 100
        found = offsets_of(shop.storage.fetch_available(KEY, 0, random.randrange(1, 6)))
        assert not done & set(found)
        delivered.update(found)
        shop.storage.mark_inflight(KEY, found, now_ms + 250)
        acked = [offset for offset in found if random.random() < 0.4]
        shop.storage.ack(KEY, acked)
        shop.storage.commit()
        if random.random() < 0.3:
            shop.groups.sync([KEY])
            state = shop.groups.state(KEY)
            done |= {offset for offset in delivered if state.is_acked(offset)}
        expired = shop.storage.list_expired(now_ms)
        assert all(offset_of(item.record) in STARTS for item in expired)
        if random.random() < 0.2:
            shop = Shop(shop.disk.crash(random.choice(list(Fate)), random), fill=False)
            list(shop.groups.recover_deadlines())
    assert set(delivered) == set(range(END))
    assert shop.storage.lag(KEY) == 0
