"""Disks that fail and machines that stop: who is answered is answered truly, and nothing is lost."""

from __future__ import annotations

import errno
import logging
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest

from barbicel.errors import BarbicelError, CorruptLog, DiskError
from barbicel.gateway.kestrel.session import Session
from barbicel.stroma import GroupKey
from tests.gateway.kafka.in_memory import batch
from tests.gateway.kestrel.in_memory_queues import InMemoryQueues, in_memory_queues
from tests.support.fault_disk import Call, Fate, FaultDisk

DATA = Path("/data")
SMALL = {"default_journal_size_bytes": 1 << 20}
GROUP_FILE = "q-0_kestrel."
CHILD_FILE = "q-0_kestrel%2Ba."


def opened(disk: FaultDisk, **settings: Any) -> Any:
    return in_memory_queues(DATA, disk, background_threads=1, **settings)


@pytest.fixture
def disk() -> FaultDisk:
    return FaultDisk()


@pytest.fixture
def queues(disk: FaultDisk) -> Iterator[InMemoryQueues]:
    with opened(disk) as queues:
        queues.rules(SMALL)
        yield queues


def numbered(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


def put_all(queues: InMemoryQueues, name: str, items: list[bytes]) -> None:
    for data in items:
        assert queues.put(name, data)


# --- events that cannot be written ------------------------------------------------------------------------


def test_a_get_whose_ack_is_not_written_fails_and_the_item_comes_again(
    disk: FaultDisk, queues: InMemoryQueues
) -> None:
    put_all(queues, "q", numbered(3))
    put_all(queues, "other", numbered(1))
    disk.fail("write", errno.ENOSPC, path_contains=GROUP_FILE)
    failed, other = queues.ask("q"), queues.ask("other")
    queues.reactor.until(lambda: failed.answers and other.answers)
    with pytest.raises(DiskError):
        _ = failed.data
    assert other.data == b"0"
    assert queues.get_all("q") == numbered(3)


def test_what_was_got_behind_an_error_is_not_acked_for_those_before(
    disk: FaultDisk, queues: InMemoryQueues
) -> None:
    """A frontier covers all that lies before it: the items that went with an error would be lost."""
    put_all(queues, "q", numbered(6))
    disk.fail("write", errno.ENOSPC, path_contains=GROUP_FILE)
    first = [queues.ask("q", session=Session()) for _ in range(2)]
    queues.reactor.advance(0)  # they are being written
    second = [queues.ask("q", session=Session()) for _ in range(2)]
    queues.reactor.until(lambda: all(asked.answers for asked in first + second))
    assert all(isinstance(asked.answers[0], DiskError) for asked in first + second)
    assert queues.get_all("q") == numbered(6)


def test_after_a_restart_nothing_is_missing_either(disk: FaultDisk) -> None:
    with opened(disk) as queues:
        put_all(queues, "q", numbered(6))
        disk.fail("write", errno.ENOSPC, path_contains=GROUP_FILE)
        asked = [queues.ask("q", session=Session()) for _ in range(2)]
        queues.reactor.advance(0)
        asked += [queues.ask("q", session=Session()) for _ in range(2)]
        queues.reactor.until(lambda: all(one.answers for one in asked))
        queues.quiesce()
    with opened(disk) as queues:
        assert queues.get_all("q") == numbered(6)


@pytest.mark.parametrize("act", ["close", "abort"])
def test_a_close_or_abort_that_is_not_written_says_so(
    disk: FaultDisk, queues: InMemoryQueues, act: str
) -> None:
    put_all(queues, "q", numbered(3))
    assert queues.get("q", is_open=True) == b"0"
    disk.fail("write", errno.ENOSPC, path_contains=GROUP_FILE)
    with pytest.raises(DiskError):
        getattr(queues, act)("q")
    assert queues.session.open_count("q") == 0
    assert queues.get_all("q") == numbered(3)


def test_other_open_reads_of_the_queue_come_again_too(disk: FaultDisk, queues: InMemoryQueues) -> None:
    """The queue is read anew from its files, where nobody has anything open."""
    put_all(queues, "q", numbered(3))
    worker = Session()
    assert queues.get("q", is_open=True, session=worker) == b"0"
    disk.fail("write", errno.ENOSPC, path_contains=GROUP_FILE)
    with pytest.raises(DiskError):
        queues.get("q")
    assert worker.open_count("q") == 0
    assert queues.close("q", session=worker) == 0
    assert queues.get_all("q") == numbered(3)


def test_children_lose_nothing_by_their_masters_error(disk: FaultDisk, queues: InMemoryQueues) -> None:
    queues.get("q+a")
    put_all(queues, "q", numbered(6))
    assert queues.get("q+a") == b"0"
    assert queues.get("q+a", is_open=True) == b"1"
    disk.fail("write", errno.ENOSPC, path_contains=GROUP_FILE)
    master = queues.ask("q", session=Session())
    queues.reactor.advance(0)
    child = queues.ask("q+a", session=Session())
    queues.reactor.until(lambda: master.answers and child.answers)
    got = [] if isinstance(child.answers[0], DiskError) else [child.data]
    queues.disconnect()
    assert got + queues.get_all("q+a") == [*got, b"1", *numbered(6)[2:]]
    assert queues.get_all("q") == numbered(6)


def test_who_waits_at_a_queue_that_fails_is_answered_once(disk: FaultDisk, queues: InMemoryQueues) -> None:
    put_all(queues, "q", numbered(1))
    assert queues.get("q", is_open=True) == b"0"
    waiting = queues.ask("q", timeout_ms=1000, session=Session())
    disk.fail("write", errno.ENOSPC, path_contains=GROUP_FILE)
    with pytest.raises(DiskError):
        queues.close("q")
    queues.advance(1000)
    assert len(waiting.answers) == 1
    assert queues.get_all("q") == [b"0"]


def test_a_flush_that_is_not_written_says_so(disk: FaultDisk, queues: InMemoryQueues) -> None:
    for name in ("p", "q", "r"):
        put_all(queues, name, numbered(3))
    disk.fail("write", errno.ENOSPC, path_contains=GROUP_FILE)
    told: list[Any] = []
    queues.queues.flush_all(told.append)
    queues.reactor.until(lambda: told)
    assert isinstance(told[0], DiskError)
    assert queues.get_all("q") == numbered(3)
    assert queues.get_all("p") == queues.get_all("r") == []


@pytest.mark.parametrize("operation", ["write", "fdatasync", "create", "rename", "fsync", "truncate"])
@pytest.mark.parametrize("after", range(0, 12, 2))
def test_whatever_call_fails_each_item_is_got_once(disk: FaultDisk, operation: Any, after: int) -> None:
    with opened(disk) as queues:
        queues.rules(SMALL)
        queues.get("q+a")
        put_all(queues, "q", numbered(8))
        disk.fail(operation, errno.EIO, path_contains="/groups/", after=after, partial=5, times=2)
        for name in ("q", "q+a"):
            assert get_stubbornly(queues, name) == numbered(8)
        disk._faults.clear()
        queues.broker.offsets.store.maintain()


def get_stubbornly(queues: InMemoryQueues, name: str) -> list[bytes]:
    """Every other one opened and closed. What is answered with an error is asked for again."""
    got: list[bytes] = []
    for attempt in range(40):
        is_open = attempt % 2 == 0
        try:
            data = queues.get(name, is_open=is_open)
            if is_open and data is not None and not queues.close(name):
                continue
        except BarbicelError:
            queues.disconnect()
            continue
        if data is None:
            return got
        got.append(data)
    raise AssertionError(f"only {got}")


# --- items that cannot be written -------------------------------------------------------------------------


def test_a_put_that_finds_no_room_fails_and_the_others_go_on(disk: FaultDisk, queues: InMemoryQueues) -> None:
    put_all(queues, "q", numbered(3))
    put_all(queues, "other", numbered(1))
    disk.fail("write", errno.ENOSPC, path_contains="/topics/q-")
    told: list[Any] = []
    for data in (b"x", b"y"):
        queues.queues.put("q", data, 0, None, told.append)
    queues.reactor.until(lambda: len(told) == 2)
    assert all(isinstance(one, BarbicelError) for one in told)
    assert queues.put("other", b"1")
    assert queues.get("q") == b"0"


def test_a_queue_that_takes_no_writes_says_so_and_is_read_until_it_is_empty(
    disk: FaultDisk, caplog: pytest.LogCaptureFixture
) -> None:
    with opened(disk) as queues:
        queues.rules(SMALL, q={"max_items": 5})
        put_all(queues, "q", numbered(3))
        disk.fail("write", errno.EIO, path_contains="/topics/q-")
        for _ in range(5):
            with pytest.raises(BarbicelError):
                queues.put("q", b"x")
        assert "takes no writes" in caplog.text
        assert queues.stats("q").items == 3
        assert queues.get_all("q") == numbered(3)
    with opened(disk) as queues:
        queues.rules(SMALL, q={"max_items": 5})
        assert [queues.put("q", b"x") for _ in range(6)] == [True] * 5 + [False]


def test_a_disk_that_was_full_takes_items_again(disk: FaultDisk) -> None:
    with opened(disk) as queues:
        put_all(queues, "q", numbered(3))
        disk.fail("write", errno.ENOSPC, path_contains="/topics/q-")
        with pytest.raises(BarbicelError):
            queues.put("q", b"x")
        assert queues.put("q", b"3")
        assert queues.get_all("q") == [*numbered(3), b"3"]


def test_an_item_that_cannot_be_moved_is_there_after_a_restart(
    disk: FaultDisk, caplog: pytest.LogCaptureFixture
) -> None:
    with opened(disk) as queues:
        queues.rules(SMALL, q={"max_age_ms": 1000, "expire_to_queue": "late"})
        put_all(queues, "q", numbered(2))
        queues.advance(2000)
        disk.fail("create", errno.ENOSPC, path_contains="/topics/late", times=100)
        assert queues.get("q") is None
        queues.quiesce()
        assert "could not be moved" in caplog.text
    disk._faults.clear()
    with opened(disk, now_ms=queues.now_ms) as queues:
        assert queues.get_all("q") == numbered(2)


def test_a_queue_of_errors_may_have_a_name_that_is_too_long(
    queues: InMemoryQueues, caplog: pytest.LogCaptureFixture
) -> None:
    name = "q" * 245
    queues.rules({**SMALL, "delivery_limit": 1})
    put_all(queues, name, numbered(2))
    assert queues.get(name, is_open=True) == b"0"
    queues.abort(name)
    assert queues.get(name) == b"1"
    assert "could not be moved" in caplog.text


# --- damage ---------------------------------------------------------------------------------------------


def damage(disk: FaultDisk, topic: str, text: bytes) -> None:
    """Change the item that holds this."""
    for path, data in disk.files().items():
        if f"/topics/{topic}-" in path and path.endswith(".log") and text in data:
            disk.put(path, data.replace(text, bytes(len(text))))
            return
    raise AssertionError(f"{text!r} is nowhere")


@pytest.fixture
def damaged(disk: FaultDisk) -> FaultDisk:
    with opened(disk) as queues:
        queues.rules(SMALL)
        queues.get("q+a")
        for name in ("q", "other"):
            put_all(queues, name, [b"item %d" % number for number in range(6)])
        log = queues.broker.topics.partition("q", 0)
        assert log is not None
        log.log.roll()
    damage(disk, "q", b"item 3")
    return disk


def test_what_lies_before_the_damage_is_given_and_then_it_is_told(
    damaged: FaultDisk, caplog: pytest.LogCaptureFixture
) -> None:
    with opened(damaged) as queues:
        for name in ("q", "q+a"):
            assert [queues.get(name) for _ in range(3)] == [b"item 0", b"item 1", b"item 2"]
            for _ in range(2):
                with pytest.raises(CorruptLog):
                    queues.get(name)
        assert len(queues.get_all("other")) == 6
        assert queues.put("q", b"more")
        with pytest.raises(CorruptLog):
            queues.get("q")
    assert caplog.text.count("could not be counted") == 2


def test_those_who_wait_are_told_of_the_damage(damaged: FaultDisk) -> None:
    with opened(damaged) as queues:
        asked = [queues.ask("q", timeout_ms=1000, session=Session()) for _ in range(5)]
        queues.reactor.until(lambda: all(one.answers for one in asked))
        assert [one.data for one in asked[:3]] == [b"item 0", b"item 1", b"item 2"]
        assert all(isinstance(one.answers[0], CorruptLog) for one in asked[3:])


def test_expired_items_before_the_damage_are_flushed_once(damaged: FaultDisk) -> None:
    with opened(damaged) as queues:
        queues.rules({"max_age_ms": 1000})
        queues.advance(5000)
        with pytest.raises(CorruptLog):
            queues.flush_expired("q")
        with pytest.raises(CorruptLog):
            queues.flush_expired("q")
        assert queues.flush_expired("other") == 6


def test_a_damaged_queue_can_be_flushed_and_deleted(damaged: FaultDisk) -> None:
    with opened(damaged) as queues:
        queues.flush("q")
        assert queues.get("q") is None
        queues.delete("q")
        queues.delete("q+a")
        assert queues.put("q", b"new")
        assert queues.get_all("q") == [b"new"]


# --- power cuts -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("fate", list(Fate))
def test_what_is_stored_survives_and_a_child_gets_what_came_after_it(disk: FaultDisk, fate: Fate) -> None:
    with opened(disk, durability="fsync") as queues:
        queues.rules(SMALL)
        assert queues.put("q", b"before")
        assert queues.get("q+a") is None
        assert queues.put("q", b"after")
        assert queues.put("q+a", b"only here")
        found = disk.crash(fate, Random(1))
    with opened(found) as queues:
        assert queues.get_all("q") == [b"before", b"after"]
        assert queues.get_all("q+a") == [b"after", b"only here"]


@pytest.mark.parametrize("fate", list(Fate))
def test_what_is_closed_and_synced_does_not_come_back(disk: FaultDisk, fate: Fate) -> None:
    with opened(disk, durability="fsync") as queues:
        queues.rules(SMALL)
        put_all(queues, "q", numbered(5))
        assert queues.get("q") == b"0"
        for _ in range(3):
            queues.get("q", is_open=True)
        queues.close("q")
        assert queues.abort("q")
        queues.broker.offsets.store.sync([GroupKey("q", 0, "kestrel")])
        found = disk.crash(fate, Random(1))
    with opened(found) as queues:
        assert queues.get_all("q") == [b"2", b"3", b"4"]


@pytest.mark.parametrize("fate", list(Fate))
def test_a_queue_that_was_deleted_is_gone_after_a_power_cut(disk: FaultDisk, fate: Fate) -> None:
    with opened(disk, durability="fsync") as queues:
        queues.rules(SMALL)
        queues.get("q+a")
        put_all(queues, "q", numbered(2))
        queues.delete("q")
        put_all(queues, "p", numbered(2))
        queues.delete("p")
        found = disk.crash(fate, Random(1))
    with opened(found) as queues:
        assert queues.queues.names() == ["q+a"]
        assert queues.get("p") is None
        assert queues.get("q") is None
        assert queues.get_all("q+a") == numbered(2)


def test_less_of_the_log_than_was_read_means_that_it_is_read_again(disk: FaultDisk) -> None:
    """Without fsync the log's end may go, and the acks of it stay: new items must not take their place."""
    with opened(disk, durability="write", flush_ms=60_000) as queues:
        queues.rules(SMALL)
        put_all(queues, "q", numbered(1))
        partition = queues.broker.topics.partition("q", 0)
        assert partition is not None
        partition.log.sync()
        put_all(queues, "q", numbered(5)[1:])
        assert queues.get_all("q") == numbered(5)
        queues.broker.offsets.store.sync([GroupKey("q", 0, "kestrel")])
        found = disk.crash(Fate.DROP, Random(1))
    with opened(found) as queues:
        put_all(queues, "q", [b"new 1", b"new 2"])
        assert queues.get_all("q") == [b"new 1", b"new 2"]


class Moment(NamedTuple):
    """A disk as a crash leaves it, and what clients knew: the least before it, the most after it."""

    disk: FaultDisk
    stored: int
    asked_to_store: int
    asked_for: int
    call: Call


class Campaign:
    """Crashes at every call to the disk while items go through a queue and its child."""

    def __init__(self, disk: FaultDisk, fate: Fate) -> None:
        self._disk = disk
        self._fate = fate
        self._random = Random(7)
        self._mutex = threading.Lock()
        self.stored = self.asked_to_store = 0
        self.asked_for = 0
        self.moments: list[Moment] = []

    def observe(self, call: Call) -> None:
        with self._mutex:
            stored = self.stored
            found = self._disk.crash(self._fate, self._random)
            self.moments.append(Moment(found, stored, self.asked_to_store, self.asked_for, call))

    def run(self, queues: InMemoryQueues) -> None:
        for number in range(8):
            self.asked_to_store += 1
            assert queues.put("q", b"%d" % number)
            self.stored += 1
            if number % 2:
                self.asked_for += 1
                self._read(queues, is_open=number % 4 == 1)
                self._give_back(queues)

    def _give_back(self, queues: InMemoryQueues) -> None:
        partition = queues.broker.topics.partition("q", 0)
        assert partition is not None
        partition.log.roll()
        queues.reactor.result(queues.upkeep._trim_all())

    def _read(self, queues: InMemoryQueues, *, is_open: bool) -> None:
        for name in ("q", "q+a"):
            assert queues.get(name, is_open=is_open) is not None
            if is_open:
                assert queues.close(name) == 1


@pytest.mark.parametrize("fate", list(Fate))
def test_at_no_moment_a_crash_loses_what_was_stored(disk: FaultDisk, fate: Fate) -> None:
    with opened(disk, durability="fsync") as queues:
        queues.rules(SMALL)
        queues.get("q+a")
        queues.get("q")
        campaign = Campaign(disk, fate)
        disk.observer = campaign.observe
        campaign.run(queues)
        disk.observer = None
    assert len(campaign.moments) > 40
    for moment in campaign.moments[::2]:
        check_after(moment)


def check_after(moment: Moment) -> None:
    """There is all that was stored, perhaps what was being stored, and any part of what was asked for."""
    allowed = [
        numbered(count)[first:]
        for count in range(moment.stored, moment.asked_to_store + 1)
        for first in range(moment.asked_for + 1)
    ]
    with opened(moment.disk) as queues:
        for name in ("q", "q+a"):
            assert queues.get_all(name) in allowed, (name, moment)
        assert queues.put("q", b"next")
        assert queues.get_all("q") == queues.get_all("q+a") == [b"next"]


# --- the topic goes -----------------------------------------------------------------------------------------


def test_a_topic_that_goes_in_the_middle_of_everything(queues: InMemoryQueues) -> None:
    queues.get("q+a")
    put_all(queues, "q", numbered(4))
    worker = Session()
    queues.get("q", is_open=True, session=worker)
    waiting = queues.ask("q+b", timeout_ms=1000, session=Session())
    told: list[Any] = []
    acts: list[Callable[[], object]] = [
        lambda: queues.queues.put("q", b"x", 0, None, told.append),
        lambda: queues.queues.take(Session(), "q", is_open=True, timeout_ms=None, done=told.append),
        lambda: queues.queues.take(Session(), "q+a", is_open=False, timeout_ms=None, done=told.append),
        lambda: queues.queues.flush_expired("q", told.append),
    ]
    for act in acts:
        act()
    queues.queues.close_oldest(worker, "q")
    queues.queues.settled(told.append)
    queues.reactor.result(queues.broker.topics.delete("q"))
    for act in acts:
        act()
    queues.reactor.until(lambda: len(told) == 9)
    queues.quiesce()
    queues.advance(1000)
    assert (len(told), len(waiting.answers)) == (9, 1)
    queues.disconnect(worker)
    queues.flush("q")
    assert queues.put("q", b"new")
    assert queues.get_all("q") == [b"new"]


def test_a_producer_of_a_topic_that_goes(queues: InMemoryQueues, caplog: pytest.LogCaptureFixture) -> None:
    """What it appended is still being counted."""
    queues.get("q")
    queues.produce("q", batch(b"a", b"b"))
    queues.reactor.result(queues.broker.topics.delete("q"))
    queues.quiesce()
    assert queues.get("q") is None
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]
