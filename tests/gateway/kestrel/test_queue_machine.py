"""Queues do what plain lists do, whatever clients, Kafka's producers, operators and restarts do to them."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from barbicel.codecs.kafka.compression import Codec
from barbicel.codecs.kafka.new_batch import NewRecord, build_batch
from barbicel.config.queue_settings import QueueSettings
from barbicel.gateway.kestrel import line_reader
from barbicel.gateway.kestrel.line_reader import KEPT_BYTES
from barbicel.gateway.kestrel.session import Session
from tests.gateway.kafka.in_memory import NOW_MS
from tests.gateway.kestrel.in_memory_queues import Asked, InMemoryQueues
from tests.gateway.kestrel.queue_model import Entry, Model, Waiting, master_of
from tests.support.fault_disk import Fate, FaultDisk

# 'k' is a topic that Kafka has made, 'q' is made by whoever uses it first.
NAMES = ["q", "q+a", "q+b", "k", "k+c"]
MASTERS = ["q", "k"]
SESSIONS = 3
FOREVER_MS = 1 << 40
IDLE_MS = 61_000
# Time passes by whole seconds, and ends of time lie between them.
SECONDS = st.sampled_from([1000, 1000, 5000, 25_000, IDLE_MS])
LIFETIMES = st.none() | st.none() | st.sampled_from([-500, 1500, 6500])

SETTINGS = st.fixed_dictionaries(
    {
        "max_items": st.none() | st.integers(1, 4),
        "discard_old_when_full": st.booleans(),
        "delivery_limit": st.sampled_from([0, 0, 2, 3]),
        "open_transaction_timeout_ms": st.sampled_from([None, None, 4500, 20_500]),
        "max_age_ms": st.sampled_from([None, None, None, 7500]),
        "expires_elsewhere": st.booleans(),
        "fanout_only": st.sampled_from([False, False, False, True]),
    }
)


def settings_for(name: str, given: dict[str, Any]) -> QueueSettings:
    fields = {key: value for key, value in given.items() if key != "expires_elsewhere"}
    if given["expires_elsewhere"]:
        fields["expire_to_queue"] = f"{name.replace('+', '_')}_late"
    if name != master_of(name):
        fields["fanout_only"] = False
    return QueueSettings(**fields)


class QueueMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.disk = FaultDisk()
        self.model = Model(NOW_MS)
        self.model.topics.add("k")
        self.model.logs["k"] = []
        self.sessions = [Session() for _ in range(SESSIONS)]
        self.asked: list[tuple[Asked, Waiting]] = []
        self.puts = 0
        self.is_in_agreement = True

    @initialize(
        tail_bytes=st.sampled_from([0, 300, 1 << 20]),
        ahead_bytes=st.sampled_from([100, 1 << 20]),
        budget_bytes=st.sampled_from([0, 1000, 1 << 20]),
        kept_bytes=st.sampled_from([0, 20, 1 << 20]),
    )
    def start(self, tail_bytes: int, ahead_bytes: int, budget_bytes: int, kept_bytes: int) -> None:
        """With little or no memory for the newest data everything is read from the disk, and bit by bit. With
        little of it for all queues together, or for what is open, it is read again and again."""
        self.tail_bytes, self.budget_bytes = tail_bytes, budget_bytes
        line_reader.KEPT_BYTES = kept_bytes
        self.small = {"default_journal_size_bytes": 1 << 20, "max_memory_size_bytes": ahead_bytes}
        self.open()
        self.queues.reactor.result(self.queues.broker.topics.create("k", 1, {"segment.bytes": "1048576"}))

    def open(self) -> None:
        settings = {"tail_partition_bytes": self.tail_bytes, "background_threads": 1}
        self.queues = InMemoryQueues(Path("/data"), self.disk, self.model.now_ms, settings)
        self.queues.queues.ahead.max_bytes = self.budget_bytes
        self.tell_settings()

    def tell_settings(self) -> None:
        tables = {
            name.replace("+", "plus"): {field: getattr(held, field) for field in QueueSettings.__slots__}
            for name, held in self.model.settings.items()
        }
        self.queues.rules(self.small, **{name: {**table, **self.small} for name, table in tables.items()})

    def teardown(self) -> None:
        try:
            self.end()
        finally:
            line_reader.KEPT_BYTES = KEPT_BYTES

    def end(self) -> None:
        if hasattr(self, "queues"):
            try:
                if self.is_in_agreement:  # or it would only hide what has gone wrong
                    self.restart(is_killed=False)
                    self.drain()
            finally:
                self.queues.broker.close()

    def drain(self) -> None:
        """In the end everything is there, once and in order."""
        left = sorted(self.model.lines)
        for name in left:
            while (wanted := self.model.get(name, 0, is_open=False)) is not None:
                assert self.queues.get(name) == wanted.data
            assert self.queues.get(name) is None
            self.queues.quiesce()
            left += sorted(set(self.model.lines).difference(left))  # to which items were moved meanwhile
        self.compare_stats()
        for queue in self.queues.queues.open_queues():
            for reader in queue.readers.values():
                assert reader.line.frontier == queue.partition.end_offset, "or its storage would stay"

    def new_data(self, size: int) -> bytes:
        self.puts += 1
        return b"%d." % self.puts + b"x" * size

    def line_names(self) -> st.SearchStrategy[str]:
        """Queues that clients know, and those to which items were moved."""
        return st.sampled_from(sorted({*NAMES, *self.model.lines}))

    # --- clients ------------------------------------------------------------------------------------

    @rule(
        name=st.sampled_from(NAMES), size=st.integers(0, 40), flags=st.integers(0, 3), lifetime_ms=LIFETIMES
    )
    def put(self, name: str, size: int, flags: int, lifetime_ms: int | None) -> None:
        data = self.new_data(size)
        expiry_ms = None if lifetime_ms is None else self.model.now_ms + lifetime_ms
        stored = self.queues.put(name, data, flags, expiry_ms)
        assert stored == self.model.put(name, data, flags, expiry_ms)

    @rule(data=st.data(), session=st.integers(0, SESSIONS - 1), is_open=st.booleans())
    def get(self, data: st.DataObject, session: int, is_open: bool) -> None:
        self.take(data.draw(self.line_names()), session, is_open=is_open)

    def take(self, name: str, session: int, *, is_open: bool) -> None:
        asked = self.queues.ask(name, is_open=is_open, session=self.sessions[session])
        self.queues.reactor.until(lambda: asked.answers)
        check(asked, self.model.get(name, session, is_open=is_open))

    @rule(data=st.data())
    def peek(self, data: st.DataObject) -> None:
        name = data.draw(self.line_names())
        asked = self.queues.ask(name, is_peek=True)
        self.queues.reactor.until(lambda: asked.answers)
        check(asked, self.model.peek(name))

    @rule(name=st.sampled_from(NAMES), session=st.integers(0, SESSIONS - 1), is_open=st.booleans())
    def wait(self, name: str, session: int, is_open: bool) -> None:
        asked = self.queues.ask(name, is_open=is_open, session=self.sessions[session], timeout_ms=FOREVER_MS)
        self.queues.quiesce()
        self.asked.append((asked, self.model.wait(name, session, is_open=is_open)))

    @precondition(lambda self: any(line.open for line in self.model.lines.values()))
    @rule(data=st.data(), count=st.sampled_from([1, 1, 2]), is_close=st.booleans())
    def end_read(self, data: st.DataObject, count: int, is_close: bool) -> None:
        opened = sorted({(name, one.session) for name, line in self.model.lines.items() for one in line.open})
        name, session = data.draw(st.sampled_from(opened))
        if is_close:
            closed = self.queues.close(name, count, self.sessions[session])
            assert closed == self.model.close(name, session, count)
        else:
            self.abort(name, session)

    def abort(self, name: str, session: int) -> None:
        assert self.queues.abort(name, self.sessions[session])
        self.model.abort(name, self.model.opened(name, session)[0])

    @rule(session=st.integers(0, SESSIONS - 1))
    def disconnect(self, session: int) -> None:
        for asked, waiting in self.asked:
            if waiting.session == session and asked.waiting is not None:
                asked.waiting.cancel()
        self.queues.disconnect(self.sessions[session])
        self.sessions[session] = Session()
        self.model.disconnect(session)

    @rule(name=st.sampled_from(NAMES), sizes=st.lists(st.integers(0, 40), min_size=2, max_size=5))
    def put_some(self, name: str, sizes: list[int]) -> None:
        for size in sizes:
            self.put(name, size, 0, None)
            self.queues.quiesce()

    @rule(data=st.data(), count=st.integers(2, 5))
    def open_some(self, data: st.DataObject, count: int) -> None:
        """By turns, so that they come back in any order."""
        name = data.draw(self.line_names())
        for number in range(count):
            self.take(name, number % SESSIONS, is_open=True)
            self.queues.quiesce()

    @rule(data=st.data(), order=st.permutations(range(SESSIONS)), count=st.integers(1, 3))
    def bounce(self, data: st.DataObject, order: list[int], count: int) -> None:
        """Opened and aborted, again and again, in any order."""
        name = data.draw(self.line_names())
        for _ in range(count):
            self.open_and_abort(name, order)

    def open_and_abort(self, name: str, order: list[int]) -> None:
        for session in range(SESSIONS):
            self.take(name, session, is_open=True)
            self.queues.quiesce()
        for session in order:
            if self.model.opened(name, session):
                self.abort(name, session)
                self.queues.quiesce()

    @rule(name=st.sampled_from(NAMES), is_open=st.booleans())
    def hand_over(self, name: str, is_open: bool) -> None:
        """What one aborts another one waits for."""
        self.take(name, 0, is_open=True)
        self.wait(name, 1, is_open)
        if self.model.opened(name, 0):
            self.abort(name, 0)

    @rule(name=st.sampled_from(NAMES), how=st.sampled_from(["flush", "flush_expired", "delete"]))
    def empty(self, name: str, how: str) -> None:
        assert getattr(self.queues, how)(name) == getattr(self.model, how)(name)

    # --- Kafka --------------------------------------------------------------------------------------

    @rule(
        master=st.sampled_from(MASTERS),
        sizes=st.lists(st.none() | st.integers(0, 40), min_size=1, max_size=6),
        codec=st.sampled_from(list(Codec)),
    )
    def produce(self, master: str, sizes: list[int | None], codec: Codec) -> None:
        if master not in self.model.topics:
            return
        values = [None if size is None else self.new_data(size) for size in sizes]
        records = [NewRecord(self.model.now_ms, b"key", value) for value in values]
        self.queues.produce(master, build_batch(records, codec=codec))
        self.queues.quiesce()
        self.model.produce(master, values)

    # --- time, storage and operators ------------------------------------------------------------------

    @rule(ms=SECONDS)
    def pass_time(self, ms: int) -> None:
        self.queues.advance(ms)
        self.model.pass_time(ms)

    @rule()
    def sweep(self) -> None:
        """A round does not wait for the disk: what has to come from there expires in the next one."""
        for _ in range(2):
            self.queues.upkeep._expire_all()
            self.queues.quiesce()
            self.model.sweep()

    @rule()
    def trim(self) -> None:
        """Everything that all groups are past goes, and what was read ahead is forgotten after a while."""
        for master in sorted(self.model.topics):
            partition = self.queues.broker.topics.partition(master, 0)
            assert partition is not None
            partition.log.roll()
        self.queues.reactor.result(self.queues.upkeep._trim_all())

    @rule(name=st.sampled_from(NAMES), given=SETTINGS)
    def reload(self, name: str, given: dict[str, Any]) -> None:
        # Each line has a place of its own for what expires, or the order there would be anybody's guess.
        heirs = [one for one in NAMES if master_of(one) == name and one not in self.model.settings]
        for one in [name, *heirs] if given["expires_elsewhere"] else [name]:
            self.model.settings[one] = settings_for(one, given)
        self.tell_settings()
        self.sweep()

    @rule(is_killed=st.booleans())
    def restart(self, is_killed: bool) -> None:
        self.queues.quiesce()
        if is_killed:
            self.disk, before = self.disk.crash(Fate.KEEP, Random(0)), self.disk
            self.queues.broker.close()
            assert before is not self.disk
        else:
            self.queues.broker.close()
        self.open()
        self.queues.open_all()
        self.sessions = [Session() for _ in range(SESSIONS)]
        self.asked.clear()
        self.model.restart()

    # --- what always holds ----------------------------------------------------------------------------

    @invariant()
    def agrees(self) -> None:
        if not hasattr(self, "queues"):
            return
        self.is_in_agreement = False
        self.queues.quiesce()
        assert self.queues.queues.names() == sorted(self.model.lines)
        self.compare_stats()
        self.compare_waiting()
        self.is_in_agreement = True

    def compare_stats(self) -> None:
        for name in self.model.lines:
            wanted = self.model.stats(name)
            found = self.queues.queues.queue_stats(name)
            assert {field: getattr(found, field) for field in wanted} == wanted, name

    def compare_waiting(self) -> None:
        for asked, waiting in self.asked:
            if waiting.got:
                check(asked, waiting.got[0])
            else:
                assert asked.answers == []
        for number, session in enumerate(self.sessions):
            for name in self.model.lines:
                assert session.open_count(name) == len(self.model.opened(name, number))


def check(asked: Asked, wanted: Entry | None) -> None:
    if wanted is None:
        assert asked.data is None
    else:
        assert asked.data == wanted.data
        assert asked.answers[0].flags == wanted.flags


QueueMachine.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestQueues = QueueMachine.TestCase
