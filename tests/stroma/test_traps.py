"""The mistakes that public implementations of this design made, and what damage must never look like.

The numbers are those of the list of traps; the others concern the log.
"""

from __future__ import annotations

import pytest
from crc32c import crc32c

from barbicel.codecs.stroma_events import DELTA_HEADER_BYTES, Ack, Event, MarkInflight, Release, encode_event
from barbicel.codecs.stroma_snapshot import Inflight
from barbicel.errors import BarbicelError, CorruptGroup, UnknownVersion
from barbicel.stroma import GroupKey
from barbicel.stroma import recovery as recovery_module
from tests.stroma.builders import (
    DELTA,
    HISTORY,
    KEY,
    LONG_KEY,
    NOW_MS,
    ROOT,
    SNAP,
    after_power_cut,
    check_goes_on,
    crash_states,
    filled,
    flipped,
    open_store,
    plan_on,
    view_on,
)
from tests.stroma.model import View, applied, view_of
from tests.support.fault_disk import FaultDisk


class TestTrap07:
    """A snapshot's position is no number that could be one off: its generation voids a delta, or does not."""

    def test_trap_07_with_no_snapshot_event_0_counts(self) -> None:
        for count in range(1, len(HISTORY) + 1):
            assert view_on(filled(HISTORY[:count])) == applied(HISTORY[:count])
        assert view_on(filled((Ack(0),))) == View(acked_until=1)

    def test_trap_07_wherever_the_compaction_comes_every_event_counts_once(self) -> None:
        for cut in range(len(HISTORY) + 1):
            disk = filled(HISTORY[:cut], HISTORY[cut:], compact_after=0)
            assert view_on(disk) == applied(HISTORY)
            with open_store(disk) as store:
                assert view_of(store.state(KEY)) == applied(HISTORY)

    def test_trap_07_a_compaction_after_every_event(self) -> None:
        disk = FaultDisk()
        store = open_store(disk)
        for count, event in enumerate(HISTORY, 1):
            store.record(KEY, [event])
            store.commit()
            store.compact(KEY)
            assert view_on(after_power_cut(disk)) == applied(HISTORY[:count])
        assert plan_on(disk).generation == len(HISTORY) + 1

    @pytest.mark.parametrize("key", [KEY, LONG_KEY], ids=["plain name", "hashed name"])
    @pytest.mark.parametrize("compacted_before", [False, True], ids=["first", "second"])
    def test_trap_07_a_crash_anywhere_in_a_compaction(self, key: GroupKey, compacted_before: bool) -> None:
        """With events that are not written yet: an old delta replayed on them would move the position."""
        written, pending = HISTORY[:4], HISTORY[4:]
        disk = filled(written, compact_after=0 if compacted_before else None, key=key)
        store = open_store(disk)
        store.record(key, pending)
        states = crash_states(disk, lambda: store.compact(key))
        assert len(states) > 20
        found = [view_on(state, key) for _, state in states]
        assert set(found) == {applied(written), applied(HISTORY)}
        # From the snapshot on there is one answer.
        assert found.index(applied(HISTORY)) < len(found) - 15
        assert set(found[-3:]) == {applied(HISTORY)}
        for view, (_, state) in zip(found, states, strict=True):
            check_goes_on(state, key, view)


class TestTrap08:
    SCATTERED: tuple[Event, ...] = (Ack(2), Ack(3), Ack(7), MarkInflight(5, NOW_MS, 2), Release(6, 4))
    EXPECTED = View(0, ((2, 4), (7, 8)), ((5, Inflight(NOW_MS, 2)),), ((6, 4),))

    def test_trap_08_a_compaction_keeps_acks_out_of_order(self) -> None:
        disk = filled(self.SCATTERED, compact_after=0)
        assert plan_on(disk).events == ()
        with open_store(after_power_cut(disk)) as store:
            assert view_of(store.state(KEY)) == self.EXPECTED
            store.record(KEY, [Ack(0), Ack(1)])
            assert store.state(KEY).acked_until == 4

    def test_trap_08_and_so_do_ten_more_and_ten_thousand_ranges(self) -> None:
        disk = FaultDisk()
        store = open_store(disk)
        store.record(KEY, [Ack(2 * number + 1) for number in range(10_000)])
        for _ in range(10):
            store.compact(KEY)
        found = view_on(after_power_cut(disk))
        assert found == View(0, tuple((2 * number + 1, 2 * number + 2) for number in range(10_000)))

    def test_trap_08_an_eviction_keeps_them_too(self) -> None:
        store = open_store(FaultDisk(), max_open_groups=1)
        store.record(KEY, self.SCATTERED)
        store.compact(KEY)
        store.state(LONG_KEY)
        assert store.open_groups == 1
        assert view_of(store.state(KEY)) == self.EXPECTED


class TestDamageIsNeverEmpty:
    """The group's first turn is in the snapshot, its second in the delta."""

    @pytest.fixture
    def disk(self) -> FaultDisk:
        return filled(HISTORY[:6], HISTORY[6:], compact_after=0)

    def check_refused(self, disk: FaultDisk, *, says: str) -> None:
        before = disk.files()
        store = open_store(disk)
        for made in ([], [Ack(0)]):
            with pytest.raises(CorruptGroup, match=says) as caught:
                store.record(KEY, made)
            assert caught.value.key == KEY
            assert "barbicel group repair" in str(caught.value)
        assert store.commit() == {}
        assert list(store.recover_deadlines()) == [KEY]
        store.close()
        del before[f"{ROOT}/LOCK"]
        assert {path: disk.files()[path] for path in before} == before
        assert disk.files().keys() - before.keys() == {f"{ROOT}/LOCK"}

    @pytest.mark.parametrize("position", [0, 20, 60, 76, 90, -1])
    def test_a_corrupt_snapshot_is_an_error(self, disk: FaultDisk, position: int) -> None:
        data = disk.files()[SNAP]
        disk.put(SNAP, flipped(data, position % len(data)))
        self.check_refused(disk, says=SNAP)

    @pytest.mark.parametrize("size", [0, 1, 75, 76, 100])
    def test_a_cut_snapshot_is_an_error(self, disk: FaultDisk, size: int) -> None:
        disk.put(SNAP, disk.files()[SNAP][:size])
        self.check_refused(disk, says=SNAP)

    def test_a_missing_snapshot_is_an_error_if_the_delta_continues_it(self, disk: FaultDisk) -> None:
        disk.unlink(SNAP)
        self.check_refused(disk, says=f"{DELTA} continues a snapshot of generation 1, which is missing")

    def test_another_groups_snapshot_is_an_error(self, disk: FaultDisk) -> None:
        other = GroupKey("topic", 1, "group")
        disk.put(SNAP, filled(HISTORY, compact_after=0, key=other).files()[f"{ROOT}/topic-1_group.snap"])
        self.check_refused(disk, says="another group")

    def test_a_snapshot_older_than_the_one_that_the_delta_continues_is_an_error(
        self, disk: FaultDisk
    ) -> None:
        old = disk.files()[SNAP]
        with open_store(disk) as store:
            store.compact(KEY)
            store.record(KEY, [Ack(3)])
        disk.put(SNAP, old)
        self.check_refused(disk, says=f"{DELTA} continues a snapshot of generation 2, which is missing")

    def test_a_delta_without_its_header_is_an_error(self, disk: FaultDisk) -> None:
        disk.put(DELTA, flipped(disk.files()[DELTA], 12))
        self.check_refused(disk, says=DELTA)

    def test_a_newer_programs_snapshot_is_not_touched(self, disk: FaultDisk) -> None:
        data = bytearray(disk.files()[SNAP])
        data[8:10] = (2).to_bytes(2, "big")
        data[72:76] = crc32c(bytes(data[:72])).to_bytes(4, "big")
        disk.put(SNAP, bytes(data))
        with pytest.raises(UnknownVersion) as caught:
            open_store(disk).state(KEY)
        assert caught.value.path == SNAP
        assert disk.files()[SNAP] == data

    def test_a_newer_programs_event_is_not_touched(self, disk: FaultDisk) -> None:
        framed = b"\0\1\0\x63\0\0\0\0\0\0"
        event = b"KE" + framed + crc32c(framed).to_bytes(4, "big")
        disk.put(DELTA, disk.files()[DELTA] + event + encode_event(Ack(9)))
        before = disk.files()[DELTA]
        with pytest.raises(UnknownVersion, match="event type 99") as caught:
            open_store(disk).state(KEY)
        assert (caught.value.path, caught.value.position) == (DELTA, len(before) - len(event) - 24)
        assert disk.files()[DELTA] == before

    def test_an_event_for_an_offset_that_cannot_be_is_an_error_that_names_the_file(
        self, disk: FaultDisk
    ) -> None:
        """The last of 64 bits: nothing fits behind it."""
        payload = b"\0\1\0\2\0\0\0\0\0\x08" + b"\xff" * 8
        disk.put(DELTA, disk.files()[DELTA] + b"KE" + payload + crc32c(payload).to_bytes(4, "big"))
        try:
            state = open_store(disk).state(KEY)
        except BarbicelError as error:
            assert DELTA in str(error)
        else:
            assert state.is_acked((1 << 64) - 1)

    def test_a_file_too_large_to_read_is_refused_and_not_cut(
        self, disk: FaultDisk, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(recovery_module, "MAX_FILE_BYTES", DELTA_HEADER_BYTES + 30)
        disk = filled(HISTORY)
        before = disk.files()[DELTA]
        with pytest.raises(BarbicelError, match=DELTA):
            open_store(disk).state(KEY)
        assert disk.files()[DELTA] == before
