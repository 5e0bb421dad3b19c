"""What opening a log does about what it finds: torn tails, stale manifests, missing files, damage."""

from __future__ import annotations

import errno
from array import array
from random import Random

import pytest

from barbicel.codecs.keratin_format import (
    FileHeader,
    Manifest,
    decode_manifest,
    encode_log_header,
    encode_manifest,
)
from barbicel.errors import CorruptFile, CorruptLog, DiskError, LogStopped, OffsetsLost
from barbicel.keratin import Ack, Log, LogSettings, NewRecord
from barbicel.keratin.layout import Layout
from barbicel.keratin.recovery import plan_recovery
from barbicel.keratin.repair import apply_plan
from barbicel.keratin.retention import RetentionRules
from barbicel.keratin.salvage import salvage
from tests.support.fault_disk import Call, Fate, FaultDisk

ROOT = "/log"
MANIFEST = f"{ROOT}/manifest.bin"
SETTINGS = LogSettings(
    segment_max_bytes=1000,
    index_stride_bytes=200,
    preallocate_min_bytes=4096,
    preallocate_max_bytes=4096,
)


def open_log(disk: FaultDisk) -> Log:
    return Log.open(ROOT, disk=disk, settings=SETTINGS, clock=lambda: 1000)


def payloads(log: Log) -> list[bytes]:
    return [bytes(record.payload) for record in log.scan(log.start_offset)]


def segment(base_offset: int, suffix: str = "log") -> str:
    return f"{ROOT}/segments/{base_offset:020d}.{suffix}"


def filled(count: int = 30) -> tuple[FaultDisk, list[bytes]]:
    """A closed log of several segments whose record number N says so."""
    disk = FaultDisk()
    contents = [b"record %03d " % number + b"x" * 60 for number in range(count)]
    with open_log(disk) as log:
        for content in contents:
            log.append([NewRecord(content)])
        assert len(log.segments) >= 2
    return disk, contents


def bases(disk: FaultDisk) -> list[int]:
    return sorted(int(path[-24:-4]) for path in disk.files() if path.endswith(".log"))


def remove(disk: FaultDisk, path: str) -> None:
    disk.unlink(path)
    disk.sync_directory(path.rpartition("/")[0])


def change(disk: FaultDisk, path: str, position: int, data: bytes) -> None:
    content = bytearray(disk.files()[path])
    content[position : position + len(data)] = data
    disk.put(path, bytes(content))


def test_a_hole_with_whole_records_behind_it_is_cut_and_reported() -> None:
    disk = FaultDisk()
    log = open_log(disk)
    log.append([NewRecord(b"safe")])
    sound_end = log.fetch(0).position + log.fetch(0).size
    for number in range(4):
        log.append([NewRecord(b"after %d" % number)], Ack.AFTER_WRITE)
    hole = log.fetch(1)
    stranded = log.fetch(2).position
    end = log.fetch(4).position + log.fetch(4).size
    found = disk.crash(Fate.KEEP, Random(0))
    change(found, segment(0), hole.position, bytes(hole.size))
    cut = found.files()[segment(0)][sound_end:end]
    log = open_log(found)
    torn = log.found.segments[-1].torn
    assert torn is not None
    assert (torn.position, torn.end_position) == (hole.position, end)
    assert [(run.first_offset, run.end_offset) for run in torn.whole_records] == [(2, 5)]
    assert "whole records of offsets 2 to 4" in "\n".join(log.found.actions)
    assert found.files()[f"{segment(0)}.torn-1000"] == cut
    assert payloads(log) == [b"safe"]
    # A record of the same size must not bring back the ones that were cut behind it.
    assert log.append([NewRecord(b"fresh 0")]).base_offset == 1
    assert hole.position + hole.size == stranded
    for fate in Fate:
        again = open_log(found.crash(fate, Random(1)))
        assert payloads(again) == [b"safe", b"fresh 0"]


def test_two_torn_tails_in_the_same_millisecond_are_both_kept() -> None:
    disk = FaultDisk()
    with open_log(disk) as log:
        log.append([NewRecord(b"safe")])
    for garbage in (b"first garbage", b"second garbage"):
        disk.put(segment(0), disk.files()[segment(0)] + garbage)
        open_log(disk).close()
    kept = sorted(data for path, data in disk.files().items() if ".torn-" in path)
    assert kept == [b"first garbage", b"second garbage"]


def test_zeros_behind_the_last_record_are_a_clean_end() -> None:
    disk = FaultDisk()
    log = open_log(disk)
    log.append([NewRecord(b"a")])
    found = disk.crash(Fate.KEEP, Random(0))
    assert len(found.files()[segment(0)]) % 4096 == 0
    log = open_log(found)
    assert log.found.segments[-1].torn is None
    assert not [path for path in found.files() if ".torn-" in path]
    assert payloads(log) == [b"a"]


@pytest.mark.parametrize("damage", [None, b"", b"garbage", b"\0" * 80])
def test_a_missing_or_corrupt_manifest_is_rebuilt(damage: bytes | None) -> None:
    disk, contents = filled()
    sound = decode_manifest(disk.files()[MANIFEST])
    if damage is None:
        remove(disk, MANIFEST)
    else:
        disk.put(MANIFEST, damage)
    log = open_log(disk)
    assert log.found.manifest_problem is not None
    assert payloads(log) == contents
    log.close()
    rebuilt = decode_manifest(disk.files()[MANIFEST])
    assert rebuilt.segments == sound.segments
    assert (rebuilt.next_offset, rebuilt.clean_shutdown) == (sound.next_offset, True)
    if damage is not None:
        assert disk.files()[f"{MANIFEST}.corrupt-1000"] == damage


def test_a_manifest_that_contradicts_itself_is_not_believed() -> None:
    disk, contents = filled()
    sound = decode_manifest(disk.files()[MANIFEST])
    liars: list[Manifest] = [
        sound.but(active_base_offset=sound.active_base_offset + 1),
        sound.but(next_offset=0),
        sound.but(log_start_offset=sound.next_offset + 1),
        sound.but(segments=sound.segments[1:] + sound.segments[:1]),
    ]
    for liar in liars:
        disk.put(MANIFEST, encode_manifest(liar))
        log = open_log(disk)
        assert log.found.manifest_problem is not None
        assert payloads(log) == contents
        log.close()


@pytest.mark.parametrize("suffix", ["idx", "tidx"])
@pytest.mark.parametrize("how", ["missing", "empty", "shortened", "foreign"])
def test_index_files_are_rebuilt_byte_for_byte(suffix: str, how: str) -> None:
    disk, contents = filled()
    sound = disk.files()
    for base in bases(disk):
        path = segment(base, suffix)
        if how == "missing":
            remove(disk, path)
        else:
            replacements = {"empty": b"", "shortened": sound[path][:-7], "foreign": b"KIDX" * 30}
            disk.put(path, replacements[how])
    log = open_log(disk)
    assert payloads(log) == contents
    assert [bytes(log.fetch(offset).payload) for offset in range(30)] == contents
    log.close()
    active = bases(disk)[-1]
    assert disk.files()[segment(active, suffix)] == sound[segment(active, suffix)]
    # Sealed ones at once if one is missing; otherwise their reader does without until a repair.
    apply_plan(disk, plan_recovery(disk, Layout(ROOT), SETTINGS, deep=True), 2000)
    assert {path: data for path, data in disk.files().items() if path in sound} == sound


def test_recovery_reads_only_what_the_manifest_cannot_vouch_for() -> None:
    """The bytes read at open depend on the tail, not on how much lies before it."""
    read: dict[int, int] = {}
    for count in (60, 600):
        disk = FaultDisk()
        log = open_log(disk)
        for number in range(count):
            log.append([NewRecord(b"%d" % number + b"x" * 60)])
        log.checkpoint()
        log.append([NewRecord(b"tail")])
        found = disk.crash(Fate.KEEP, Random(0))
        found.observe_reads = True
        calls: list[Call] = []
        found.observer = calls.append
        assert open_log(found).end_offset == count + 1
        opened = {call.path for call in calls if call.operation == "open"}
        read[count] = len([path for path in opened if path.endswith(".log")])
    assert read[60] == read[600] == 1


def test_a_missing_segment_is_damage_with_its_exact_offsets() -> None:
    disk, contents = filled()
    gone = bases(disk)[1]
    end = bases(disk)[2]
    remove(disk, segment(gone))
    log = open_log(disk)
    assert [(item.path, item.first_offset, item.end_offset) for item in log.damage] == [
        (segment(gone), gone, end)
    ]
    assert [bytes(log.fetch(offset).payload) for offset in range(gone)] == contents[:gone]
    assert [bytes(record.payload) for record in log.scan(end)] == contents[end:]
    for offset in (gone, end - 1):
        with pytest.raises(CorruptLog, match=f"offsets {gone} to {end - 1} cannot be read"):
            log.fetch(offset)
    with pytest.raises(LogStopped):
        log.append([NewRecord(b"no")])


def test_a_missing_active_segment_is_damage_whatever_it_held() -> None:
    disk, contents = filled()
    active = bases(disk)[-1]
    remove(disk, segment(active))
    assert [(item.first_offset, item.end_offset) for item in open_log(disk).damage] == [(active, 30)]
    disk, contents = filled()
    log = open_log(disk)
    log.roll()
    log.append([NewRecord(b"answered")])
    found = disk.crash(Fate.KEEP, Random(0))
    remove(found, segment(30))
    log = open_log(found)
    assert "whatever was appended from offset 30 on is lost" in str(log.damage[0])
    assert payloads(log) == contents
    with pytest.raises(LogStopped):
        log.append([NewRecord(b"no")])


def test_the_manifest_of_another_log_destroys_nothing() -> None:
    disk, _ = filled()
    other, _ = filled()
    with open_log(other) as log:
        log.append([NewRecord(b"more")])
        log.truncate_before(31)
    disk.put(MANIFEST, other.files()[MANIFEST])
    before = disk.files()
    assert open_log(disk).damage
    assert disk.files() == before
    plan = plan_recovery(disk, Layout(ROOT), SETTINGS, deep=True)
    apply_plan(disk, plan, 1, accept_loss=True)
    assert all(disk.files()[path] == data for path, data in before.items() if path.endswith(".log"))


@pytest.mark.parametrize("base", [10**13, (1 << 64) - 1, 31, 5000])
def test_a_copy_of_a_segment_under_a_far_away_name_is_not_part_of_the_log(base: int) -> None:
    disk, contents = filled()
    disk.put(segment(base), disk.files()[segment(0)])
    with open_log(disk) as log:
        assert not log.damage
        assert log.found.foreign == (segment(base),)
        assert payloads(log) == contents
        assert log.append([NewRecord(b"next")]).base_offset == 30


def test_a_sound_segment_that_is_too_far_away_is_not_part_of_the_log() -> None:
    disk, contents = filled()
    disk.put(segment(10**13), encode_log_header(FileHeader(10**13, 0)))
    with open_log(disk) as log:
        assert not log.damage
        assert log.found.foreign == (segment(10**13),)
        assert payloads(log) == contents


def test_without_a_manifest_nobody_guesses_which_of_two_logs_is_meant() -> None:
    disk, contents = filled()
    disk.put(segment(10**13), encode_log_header(FileHeader(10**13, 0)))
    remove(disk, MANIFEST)
    log = open_log(disk)
    assert "belongs to another log" in str(log.damage[0])
    assert payloads(log) == contents
    log.close()
    plan = plan_recovery(disk, Layout(ROOT), SETTINGS, deep=True)
    before = disk.files()
    with pytest.raises(CorruptFile, match="move the files of the other log away first"):
        apply_plan(disk, plan, 1, accept_loss=True)
    assert disk.files() == before


def test_damage_below_what_was_vouched_for_is_not_a_torn_tail() -> None:
    disk, contents = filled()
    active = bases(disk)[-1]
    with open_log(disk) as log:
        hurt = log.fetch(active + 1)
    change(disk, segment(active), hurt.position + 20, b"\xff")
    before = disk.files()
    log = open_log(disk)
    # Reopening trusts what the manifest vouches for; reading does not.
    assert log.end_offset == 30
    with pytest.raises(CorruptLog) as caught:
        log.fetch(active + 1)
    assert (caught.value.first_offset, caught.value.end_offset) == (active + 1, active + 2)
    assert bytes(log.fetch(active + 2).payload) == contents[active + 2]
    assert {path: data for path, data in disk.files().items() if path in before} == before


def test_a_repair_gives_up_exactly_what_is_lost_and_says_so() -> None:
    disk, contents = filled()
    first, second, third = bases(disk)[:3]
    with open_log(disk) as log:
        hurt = log.fetch(second + 2)
    change(disk, segment(second), hurt.position + 40, b"\xff\xff")
    remove(disk, segment(first))
    damaged = disk.files()[segment(second)]
    layout = Layout(ROOT)
    plan = plan_recovery(disk, layout, SETTINGS, deep=True)
    with pytest.raises(ValueError, match="only on purpose"):
        apply_plan(disk, plan, 2000)
    apply_plan(disk, plan, 2000, accept_loss=True)
    assert disk.files()[f"{segment(second)}.corrupt-2000"] == damaged
    assert not plan_recovery(disk, layout, SETTINGS, deep=True).actions
    log = open_log(disk)
    assert not log.damage
    assert payloads(log) == contents[second : second + 2] + contents[second + 3 :]
    for offset, lost in ((0, (0, second)), (second + 2, (second + 2, second + 3))):
        with pytest.raises(OffsetsLost) as caught:
            log.fetch(offset)
        assert (caught.value.first_offset, caught.value.end_offset) == lost
    assert log.append([NewRecord(b"goes on")]).base_offset == 30
    assert third < 30


def test_a_repair_that_is_interrupted_anywhere_can_be_repeated() -> None:
    disk, contents = filled()
    first, second = bases(disk)[:2]
    with open_log(disk) as log:
        hurt = log.fetch(first + 1)
    change(disk, segment(first), hurt.position + 40, b"\xff\xff")
    remove(disk, segment(second))
    states: list[FaultDisk] = []
    rng = Random(7)
    disk.observer = lambda _: states.extend(disk.crash(fate, rng) for fate in Fate)
    layout = Layout(ROOT)
    apply_plan(disk, plan_recovery(disk, layout, SETTINGS, deep=True), 2000, accept_loss=True)
    assert len(states) > 50
    third = bases(disk)[2]
    expected = contents[:1] + contents[2:second] + contents[third:]
    for state in states:
        apply_plan(state, plan_recovery(state, layout, SETTINGS, deep=True), 3000, accept_loss=True)
        assert payloads(open_log(state)) == expected


def test_salvage_leaves_the_source_alone_and_keeps_offsets() -> None:
    disk, contents = filled()
    second = bases(disk)[1]
    with open_log(disk) as log:
        hurt = log.fetch(second)
    change(disk, segment(second), hurt.position + 40, b"\xff\xff")
    before = disk.files()
    found = salvage(disk, Layout(ROOT), Layout("/saved"), 2000)
    assert [(item.first_offset, item.end_offset) for item in found.damage] == [(second, second + 1)]
    assert {path: data for path, data in disk.files().items() if path.startswith(ROOT)} == before
    saved = Log.open("/saved", disk=disk, settings=SETTINGS)
    assert payloads(saved) == contents[:second] + contents[second + 1 :]
    assert not [path for path in disk.files() if path.startswith("/saved") and ".corrupt-" in path]


def test_a_read_only_open_changes_nothing_and_reads_up_to_the_torn_tail() -> None:
    disk = FaultDisk()
    log = open_log(disk)
    log.append([NewRecord(b"a")])
    found = disk.crash(Fate.KEEP, Random(0))
    end = log.fetch(0).position + log.fetch(0).size
    change(found, segment(0), end, b"torn")
    before = found.files()
    found.read_only = True
    log = Log.open(ROOT, disk=found, read_only=True)
    assert payloads(log) == [b"a"]
    with pytest.raises(LogStopped, match="reading only"):
        log.append([NewRecord(b"no")])
    log.close()
    assert found.files() == before


def test_salvage_goes_round_what_the_disk_cannot_read() -> None:
    disk, contents = filled()
    first, second = bases(disk)[:2]
    disk.fail("read", errno.EIO, path_contains=segment(first)[-24:], times=2)
    found = salvage(disk, Layout(ROOT), Layout("/saved"), 2000)
    lost = [(item.first_offset, item.end_offset) for item in found.damage if item.end_offset > first]
    assert lost == [(first, second)]
    assert payloads(Log.open("/saved", disk=disk, settings=SETTINGS)) == contents[second:]


def test_without_a_manifest_an_orphaned_index_tells_of_the_segment_that_is_gone() -> None:
    for number in (0, 1, -1):
        disk, contents = filled()
        gone = bases(disk)[number]
        remove(disk, segment(gone))
        remove(disk, MANIFEST)
        log = open_log(disk)
        (damage,) = log.damage
        assert (damage.path, damage.first_offset) == (segment(gone), gone)
        assert damage.end_offset > gone
        log.close()
        plan = plan_recovery(disk, Layout(ROOT), SETTINGS, deep=True)
        apply_plan(disk, plan, 2000, accept_loss=True)
        assert not plan_recovery(disk, Layout(ROOT), SETTINGS, deep=True).actions
        log = open_log(disk)
        kept = [content for offset, content in enumerate(contents) if not gone <= offset < damage.end_offset]
        if number == -1:
            kept = contents[:gone]  # how many there were behind the last entry nobody knows
        assert payloads(log) == kept
        assert log.append([NewRecord(b"next")]).base_offset == max(
            damage.end_offset, len(contents) * (number != -1)
        )


def test_zeros_behind_a_sealed_segment_are_cut_and_announced() -> None:
    disk, contents = filled()
    disk.put(segment(0), disk.files()[segment(0)] + bytes(100))
    with open_log(disk) as log:
        assert payloads(log) == contents
    plan = plan_recovery(disk, Layout(ROOT), SETTINGS)
    assert "zeros behind a sealed segment" in plan.actions[0]
    apply_plan(disk, plan, 2000)
    assert not plan_recovery(disk, Layout(ROOT), SETTINGS, deep=True).actions


def test_a_roll_that_fails_at_the_manifest_leaves_no_file_open() -> None:
    disk = FaultDisk()
    log = open_log(disk)
    log.append([NewRecord(b"a")])
    disk.observe_reads = True
    calls: list[Call] = []
    disk.observer = calls.append
    disk.fail("rename", errno.EIO, path_contains="manifest")
    with pytest.raises(DiskError):
        log.roll()
    log.close()
    opened = [call.path for call in calls if call.operation == "open"]
    closed = [call.path for call in calls if call.operation == "close"]
    assert segment(1) in opened
    assert all(closed.count(path) >= opened.count(path) for path in opened)
    disk.observer = None
    assert payloads(open_log(disk)) == [b"a"]


def test_an_append_of_nothing_changes_nothing() -> None:
    disk, _ = filled()
    before = disk.files()
    log = open_log(disk)
    assert log.append([]) == (30, 0)
    assert {path: data for path, data in disk.files().items() if path in before} == before


def test_retention_passes_by_a_segment_that_cannot_be_read() -> None:
    """Its age is not known, so it stays, and nobody's retention fails by it."""
    disk, _ = filled()
    change(disk, segment(0), 20, b"\xff")
    log = Log.open(ROOT, disk=disk, settings=SETTINGS, clock=lambda: 10**15)
    assert log.retain(RetentionRules(max_age_ms=1)) == 0
    assert segment(0) in disk.files()


def test_evidence_beside_a_missing_segment_does_not_stand_in_for_it() -> None:
    disk, _ = filled()
    remove(disk, segment(0))
    disk.put(f"{segment(0)}.corrupt-77", b"evidence")
    assert [(item.path, item.first_offset) for item in open_log(disk).damage] == [(segment(0), 0)]


def test_a_write_that_fails_beside_a_sync_makes_no_lost_append_look_durable() -> None:
    """What the failed write takes back may hold what is just being synced: then that append fails too."""
    disk = FaultDisk()
    log = open_log(disk)
    log.append([NewRecord(b"safe")])
    log.write([NewRecord(b"being synced")])

    def fail_a_write(call: Call) -> None:
        if call.operation == "fdatasync":
            disk.observer = None
            disk.fail("write", errno.EIO, path_contains=".log")
            with pytest.raises(DiskError):
                log.write([NewRecord(b"refused")])

    disk.observer = fail_a_write
    with pytest.raises(LogStopped):
        log.sync()
    assert payloads(log) == [b"safe"]
    for fate in Fate:
        assert payloads(open_log(disk.crash(fate, Random(0)))) == [b"safe"]


@pytest.mark.parametrize("beside", ["append", "roll", "close"])
def test_after_a_failed_sync_nobody_syncs_that_file_again(beside: str) -> None:
    """Whoever waited for the sync that failed must not take the next one's success for theirs."""
    disk = FaultDisk()
    log = open_log(disk)
    log.append([NewRecord(b"safe")])
    log.write([NewRecord(b"doomed")])
    steps = {"append": lambda: log.append([NewRecord(b"too")]), "roll": log.roll, "close": log.close}
    disk.fail("fdatasync", errno.EIO, path_contains=".log")
    active = log._active
    assert active is not None
    with pytest.raises(DiskError), log._only_sync:
        active.sync()
    with pytest.raises(LogStopped, match="a sync has failed"):
        steps[beside]()
    assert payloads(open_log(disk.crash(Fate.DROP, Random(0)))) == [b"safe"]


def test_what_is_not_plain_bytes_is_refused_before_anybody_is_hurt() -> None:
    log = open_log(FaultDisk())
    for record in (
        NewRecord(memoryview(array("I", [1, 2]))),
        NewRecord(memoryview(b"abcdef")[::2]),
        NewRecord("text"),  # type: ignore[arg-type]  # that is the point
        NewRecord(b"", timestamp_ms=1.5),  # type: ignore[arg-type]  # that is the point
    ):
        with pytest.raises(TypeError):
            log.append([record])
    assert log.append([NewRecord(memoryview(b"fine"))]).base_offset == 0
