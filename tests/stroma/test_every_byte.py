"""Every byte of a small directory of groups cut or flipped: the right state, a prefix, or a clear error."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from barbicel.codecs.stroma_events import (
    DELTA_HEADER_BYTES,
    Ack,
    BumpAckedUntil,
    Commit,
    Event,
    MarkInflight,
    Release,
    Reset,
    encode_event,
)
from barbicel.errors import BarbicelError, CorruptGroup
from barbicel.stroma import GroupKey
from barbicel.stroma.layout import StoreLayout
from tests.stroma.builders import HISTORY, KEY, LONG_KEY, NOW_MS, OTHER, ROOT, open_store, plan_on, view_on
from tests.stroma.model import PlainGroup, View, applied, view_of
from tests.support.fault_disk import Fate, FaultDisk

# What is in each group's snapshot, and what its delta adds; None where there is no snapshot.
GROUPS: dict[GroupKey, tuple[tuple[Event, ...] | None, tuple[Event, ...]]] = {
    KEY: (
        HISTORY,
        (Ack(2), Commit(20, None, None), MarkInflight(22, NOW_MS + 5, 1), Release(22, 1), Ack(25)),
    ),
    OTHER: (None, (BumpAckedUntil(9), MarkInflight(11, NOW_MS + 9, 2), Commit(3, 1, b"rewound"), Ack(4))),
    LONG_KEY: ((Ack(1), Ack(3)), (Ack(0), Reset(), Ack(7))),
}
FILES = {key: StoreLayout(ROOT).files(key) for key in GROUPS}


def states_of(key: GroupKey) -> list[View]:
    """What the group may be found to be: the snapshot and none, some or all of the delta."""
    compacted, added = GROUPS[key]
    return [applied([*(compacted or ()), *added[:count]]) for count in range(len(added) + 1)]


STATES = {key: states_of(key) for key in GROUPS}


@pytest.fixture(scope="module")
def sound() -> FaultDisk:
    disk = FaultDisk()
    with open_store(disk) as store:
        for key, (compacted, added) in GROUPS.items():
            if compacted is not None:
                store.record(key, compacted)
                store.compact(key)
            store.record(key, added)
            store.commit()
    return disk


def variants(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Cut at every byte, and every byte with one bit and with all bits flipped; and where that was done."""
    for position in range(len(data)):
        yield position, data[:position]
        for mask in (0x01, 0x80, 0xFF):
            flipped = bytearray(data)
            flipped[position] ^= mask
            yield position, bytes(flipped)


def whole_events_before(key: GroupKey, position: int) -> int:
    """How many of the delta's events lie before a byte."""
    end, count = DELTA_HEADER_BYTES, 0
    for event in GROUPS[key][1]:
        end += len(encode_event(event))
        count += end <= position
    return count


def check_hurt_delta(disk: FaultDisk, key: GroupKey, position: int, data: bytes) -> bool:
    """The events before the damage, the cut reported; or an error if the header is hurt."""
    if position < DELTA_HEADER_BYTES:
        return check_refused(disk, key, FILES[key].delta)
    count = whole_events_before(key, position)
    torn = plan_on(disk, key).torn
    boundary = DELTA_HEADER_BYTES + sum(len(encode_event(event)) for event in GROUPS[key][1][:count])
    if len(data) == boundary:
        assert torn is None  # nothing tells a file that was cut between two events from a shorter one
    else:
        assert torn is not None
        assert (torn.position, torn.end_position) == (boundary, len(data))
    check_usable(disk, key, STATES[key][count])
    if torn is not None:
        assert disk.files()[f"{FILES[key].delta}.torn-{NOW_MS}"] == data[boundary:]
    return True


def check_refused(disk: FaultDisk, key: GroupKey, path: str) -> bool:
    before = disk.files()
    store = open_store(disk)
    with pytest.raises(CorruptGroup) as caught:
        store.record(key, [Ack(30)])
    assert path in str(caught.value)
    store.close()
    del before[f"{ROOT}/LOCK"]
    assert {name: disk.files()[name] for name in before} == before
    return False


def check_usable(disk: FaultDisk, key: GroupKey, expected: View) -> None:
    """It is in this state, takes an event, and keeps it."""
    model = PlainGroup.of(expected)
    model.apply(Ack(30))
    with open_store(disk) as store:
        assert view_of(store.state(key)) == expected
        store.record(key, [Ack(30)])
    assert view_on(disk, key) == model.view()


def check(disk: FaultDisk, path: str, position: int, data: bytes) -> bool:
    """Whether everything could be used."""
    with open_store(disk) as store:
        assert set(store.groups()) <= set(GROUPS)
        assert set(store.recover_deadlines()) <= set(GROUPS)
        for key, files in FILES.items():
            if path not in (files.snapshot, files.delta):
                assert view_of(store.state(key)) == STATES[key][-1]
    for key, files in FILES.items():
        if path == files.snapshot:
            return check_refused(disk, key, path)
        if path == files.delta:
            return check_hurt_delta(disk, key, position, data)
    return True


def test_the_groups_are_what_they_should_be(sound: FaultDisk) -> None:
    for key, states in STATES.items():
        assert view_on(sound, key) == states[-1]
        # Or a state that is one event off would not be noticed.
        assert len(set(states)) == len(states)
    assert all(files.delta in sound.files() for files in FILES.values())


@pytest.mark.parametrize(
    ("key", "suffix"),
    [
        (KEY, "snap"),
        (KEY, "delta"),
        (OTHER, "delta"),
        (LONG_KEY, "snap"),
        (LONG_KEY, "delta"),
        (LONG_KEY, "name"),
    ],
    ids=["snap", "delta", "only delta", "hashed snap", "hashed delta", "name"],
)
def test_no_cut_or_flipped_byte_gives_a_wrong_state(sound: FaultDisk, key: GroupKey, suffix: str) -> None:
    path = f"{ROOT}/{FILES[key].stem}.{suffix}"
    outcomes: list[bool] = []
    for position, data in variants(sound.files()[path]):
        disk = sound.crash(Fate.KEEP, Random(0))
        disk.put(path, data)
        try:
            outcomes.append(check(disk, path, position, data))
        except BarbicelError as error:
            raise AssertionError(f"byte {position} of {path}: {error}") from error
    assert len(outcomes) == 4 * len(sound.files()[path])
    # A delta is survived but for its header; a snapshot never is, for what it says is not known.
    usable = {"snap": 0, "name": len(outcomes), "delta": len(outcomes) - 4 * DELTA_HEADER_BYTES}
    assert sum(outcomes) == usable[suffix]
