"""A log against a plain list: any order of appends, rolls, trims, restarts and crashes."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from barbicel.codecs.keratin_format import LOG_HEADER_BYTES, SealedSegment
from barbicel.codecs.keratin_record import Record
from barbicel.errors import OffsetOutOfRange
from barbicel.keratin import Ack, Appended, Log, NewRecord
from barbicel.keratin.retention import RetentionRules
from tests.keratin.builders import ManualClock, open_log
from tests.support.fault_disk import Fate, FaultDisk

MAX_OPEN_SEGMENTS = 2
SEGMENT_MAX_BYTES = 1200


@dataclass(frozen=True)
class Stored:
    """A record as the log must give it back."""

    offset: int
    span: int
    timestamp_ms: int
    headers: bytes
    payload: bytes
    size: int

    @classmethod
    def of(cls, offset: int, record: NewRecord, now_ms: int) -> Stored:
        timestamp_ms = now_ms if record.timestamp_ms is None else record.timestamp_ms
        return cls(
            offset, record.span, timestamp_ms, bytes(record.headers), bytes(record.payload), record.size
        )

    @classmethod
    def found(cls, record: Record) -> Stored:
        return cls(
            record.offset,
            record.span,
            record.timestamp_ms,
            bytes(record.headers),
            bytes(record.payload),
            record.size,
        )

    @property
    def end_offset(self) -> int:
        return self.offset + self.span


fractions = st.floats(0, 1)
new_records = st.builds(
    NewRecord,
    payload=st.one_of(
        st.binary(max_size=30),
        st.integers(100, SEGMENT_MAX_BYTES + 300).map(lambda size: b"K" * size),
    ),
    headers=st.binary(max_size=4),
    timestamp_ms=st.one_of(st.none(), st.integers(0, 2000)),
    span=st.sampled_from((1, 1, 2, 7)),
)


class LogMachine(RuleBasedStateMachine):
    """`stored` holds every record that was ever appended and not lost to a power cut, trimmed ones too."""

    disk: FaultDisk
    log: Log

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock(1000)
        self.stored: list[Stored] = []
        self.start = 0
        # Everything below survives a power cut.
        self.durable_end = 0

    @property
    def end(self) -> int:
        return self.stored[-1].end_offset if self.stored else 0

    @property
    def readable(self) -> list[Stored]:
        return [record for record in self.stored if record.end_offset > self.start]

    def within(self, fraction: float) -> int:
        """An offset of the log, its end included."""
        return self.start + round(fraction * (self.end - self.start))

    @initialize()
    def create(self) -> None:
        self.disk = FaultDisk()
        self.open()

    def open(self) -> None:
        self.log = open_log(
            self.disk,
            clock=self.clock,
            segment_max_bytes=SEGMENT_MAX_BYTES,
            segment_max_age_ms=500,
            index_stride_bytes=150,
            max_open_segments=MAX_OPEN_SEGMENTS,
            checkpoint_bytes=1500,
        )
        assert not self.log.damage

    # What changes the log

    @rule(elapsed_ms=st.integers(-50, 400))
    def let_time_pass(self, elapsed_ms: int) -> None:
        self.clock.now_ms = max(0, self.clock.now_ms + elapsed_ms)

    @rule(records=st.lists(new_records, max_size=6), ack=st.sampled_from(Ack))
    def append(self, records: list[NewRecord], ack: Ack) -> None:
        base = offset = self.end
        for record in records:
            self.stored.append(Stored.of(offset, record, self.clock.now_ms))
            offset += record.span
        assert self.log.append(records, ack) == Appended(base, offset - base)
        if ack is Ack.AFTER_FSYNC:
            self.durable_end = offset

    @rule()
    def roll(self) -> None:
        self.log.roll()
        self.durable_end = self.end

    @rule()
    def roll_if_due(self) -> None:
        self.log.roll_if_due()

    @rule()
    def checkpoint(self) -> None:
        self.log.checkpoint()
        self.durable_end = self.end

    @rule(fraction=fractions)
    def truncate_before(self, fraction: float) -> None:
        offset = self.within(fraction)
        assert self.log.truncate_before(offset) == offset
        self.start = offset
        self.durable_end = max(self.durable_end, offset)

    @rule(max_bytes=st.integers(0, 5000))
    def retain_bytes(self, max_bytes: int) -> None:
        sealed = self.log.segments
        active_base = sealed[-1].end_offset if sealed else None
        active_bytes = self.bytes_from(active_base) if active_base is not None else 0
        kept = list(sealed)
        while kept and sum(segment.log_bytes for segment in kept[1:]) + active_bytes >= max_bytes:
            kept.pop(0)
        self.check_retained(RetentionRules(max_bytes=max_bytes), sealed, len(sealed) - len(kept))

    def bytes_from(self, base_offset: int) -> int:
        """Of a segment that nothing follows."""
        return LOG_HEADER_BYTES + sum(record.size for record in self.stored if record.offset >= base_offset)

    @rule(max_age_ms=st.integers(0, 1500))
    def retain_age(self, max_age_ms: int) -> None:
        oldest_kept_ms = self.clock.now_ms - max_age_ms
        active_base = self.log.segments[-1].end_offset if self.log.segments else self.log_base()
        if self.end > active_base and self.max_timestamp_ms(active_base, self.end) < oldest_kept_ms:
            self.log.roll()  # what must happen anyway, so that it is listed
        sealed = self.log.segments
        count = 0
        while count < len(sealed) and (
            self.max_timestamp_ms(sealed[count].base_offset, sealed[count].end_offset) < oldest_kept_ms
        ):
            count += 1
        self.check_retained(RetentionRules(max_age_ms=max_age_ms), sealed, count)

    def log_base(self) -> int:
        """Where the only segment begins."""
        names = [entry.name for entry in self.disk.list(f"{self.log.path}/segments")]
        return min(int(name[:20]) for name in names if name.endswith(".log"))

    def max_timestamp_ms(self, first: int, end: int) -> int:
        return max(record.timestamp_ms for record in self.stored if first <= record.offset < end)

    def check_retained(self, rules: RetentionRules, sealed: tuple[SealedSegment, ...], count: int) -> None:
        expected = max(self.start, sealed[count - 1].end_offset) if count else self.start
        assert self.log.retain(rules) == expected
        assert self.log.segments == sealed[count:]
        self.start = expected

    # What ends it

    @rule()
    def reopen(self) -> None:
        self.log.close()
        self.durable_end = self.end
        self.open()

    @rule()
    def be_killed(self) -> None:
        """Everything that was answered is found."""
        self.disk = self.disk.crash(Fate.KEEP, Random(0))
        self.open()
        self.durable_end = self.end

    @rule(fate=st.sampled_from((Fate.DROP, Fate.TEAR)), seed=st.integers(0, 1 << 16))
    def lose_power(self, fate: Fate, seed: int) -> None:
        """Everything that was synced is found, and of the rest nothing behind a hole."""
        self.disk = self.disk.crash(fate, Random(seed))
        self.open()
        assert self.durable_end <= self.log.end_offset <= self.end
        self.stored = [record for record in self.stored if record.end_offset <= self.log.end_offset]
        self.durable_end = self.end

    # What must hold

    @invariant()
    def its_range_is_right(self) -> None:
        if hasattr(self, "log"):
            assert (self.log.start_offset, self.log.end_offset) == (self.start, self.end)
            assert self.log.open_handles <= MAX_OPEN_SEGMENTS
            for outside in (self.start - 1, self.end):
                try:
                    self.log.fetch(outside)
                except OffsetOutOfRange:
                    continue
                raise AssertionError(f"{outside} can be fetched")

    @precondition(lambda self: self.start < self.end)
    @rule(fraction=fractions)
    def fetch(self, fraction: float) -> None:
        offset = min(self.within(fraction), self.end - 1)
        expected = next(record for record in self.stored if record.end_offset > offset)
        assert Stored.found(self.log.fetch(offset)) == expected

    @rule(
        fraction=fractions,
        max_bytes=st.none() | st.integers(0, 3000),
        max_records=st.none() | st.integers(1, 20),
    )
    def scan(self, fraction: float, max_bytes: int | None, max_records: int | None) -> None:
        offset = self.within(fraction)
        expected = [record for record in self.stored if record.end_offset > offset][:max_records]
        while max_bytes is not None and len(expected) > 1 and sum(r.size for r in expected) > max_bytes:
            expected.pop()
        found = self.log.scan(offset, max_bytes=max_bytes, max_records=max_records)
        assert [Stored.found(record) for record in found] == expected

    @rule(timestamp_ms=st.integers(0, 2500))
    def find_by_time(self, timestamp_ms: int) -> None:
        first = next((record for record in self.readable if record.timestamp_ms >= timestamp_ms), None)
        hit = self.log.offset_for_time(timestamp_ms)
        # The log may start inside the record; then either of the two offsets stands for it.
        found = None if hit is None else (hit.timestamp_ms, max(hit.offset, self.start))
        assert found == (None if first is None else (first.timestamp_ms, max(first.offset, self.start)))

    def teardown(self) -> None:
        if hasattr(self, "log"):
            assert [Stored.found(record) for record in self.log.scan(self.start)] == self.readable
            self.log.close()


TestLog = LogMachine.TestCase
TestLog.settings = settings(
    max_examples=60,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
