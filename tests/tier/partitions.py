"""A partition for tests of the tier: a log that is a list, and a store that fails on demand."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import NamedTuple, TypeVar

from barbicel.codecs.kafka.compression import Codec
from barbicel.codecs.kafka.record_batch import decode_header
from barbicel.disk import Bytes, Disk
from barbicel.errors import CorruptLog, StoreError
from barbicel.tier.cold_reader import ColdReader
from barbicel.tier.directory import DirectoryObjects
from barbicel.tier.keys import Keys
from barbicel.tier.local_log import LocalSegment
from barbicel.tier.manifest_log.settings import ManifestSettings
from barbicel.tier.manifest_log.stream import ManifestStream
from barbicel.tier.object_store import ObjectInfo, ObjectStore
from barbicel.tier.pace import Foreground
from barbicel.tier.tiered_partition import Policy, Tier, TieredPartition
from tests.support.mortal_disk import MortalDisk

__all__ = ["KEYS", "TOPIC_DIR", "Crash", "How", "PlainLog", "Rig", "ScriptedStore"]

KEYS = Keys("cluster")
TOPIC_DIR = "orders-AAAAAAAAAAAAAAAAAAAAAA"
STREAM = f"{TOPIC_DIR}-0"

T = TypeVar("T")


class Crash(BaseException):
    """The end of the process, as far as a test can make it."""


class How(Enum):
    """What becomes of a call: whether it is done, and what its caller hears of it."""

    FAILS = "nothing is done"
    IS_LOST = "it is done, and the answer is lost"
    CRASHES_BEFORE = "the process ends before"
    CRASHES_AFTER = "the process ends after"


class Kind(NamedTuple):
    """What a store is good at, which decides how a segment gets there."""

    knows_md5: bool
    streams_headed: bool


BUCKET = Kind(knows_md5=True, streams_headed=False)
DIRECTORY = Kind(knows_md5=False, streams_headed=True)


class ScriptedStore:
    """A directory, or what behaves like a bucket. The call number `strike_at`, from 0, goes wrong."""

    def __init__(self, root: Path, kind: Kind = BUCKET) -> None:
        root.mkdir(parents=True)
        self.knows_md5, self.streams_headed = kind
        self.inner = DirectoryObjects(str(root), disk=MortalDisk())
        self.url = self.inner.url
        self.calls: list[str] = []
        self.strike_at: int | None = None
        self.how = How.FAILS
        self.refuses: Callable[[str, str], bool] = lambda operation, key: False

    def _do(self, operation: str, key: str, function: Callable[[], T]) -> T:
        number = len(self.calls)
        self.calls.append(f"{operation} {key}")
        if self.refuses(operation, key):
            raise StoreError(f"{operation} refused by the test", path=key, is_passing=True)
        if number != self.strike_at:
            return function()
        if self.how is How.CRASHES_BEFORE:
            raise Crash
        if self.how is How.FAILS:
            raise StoreError("struck by the test", path=key, is_passing=True)
        function()
        if self.how is How.CRASHES_AFTER:
            raise Crash
        raise StoreError("the answer is lost", path=key, is_passing=True)

    def put_new(
        self, key: str, pieces: Sequence[Bytes], metadata: Mapping[str, str] | None = None
    ) -> ObjectInfo:
        return self._do("put_new", key, lambda: self.inner.put_new(key, pieces, metadata))

    def replace(self, key: str, pieces: Sequence[Bytes], etag: str) -> ObjectInfo:
        return self._do("replace", key, lambda: self.inner.replace(key, pieces, etag))

    def put_large(self, key: str, pieces: Iterator[Bytes]) -> ObjectInfo:
        return self._do("put_large", key, lambda: self.inner.put_large(key, pieces))

    def put_headed(
        self, key: str, head_bytes: int, pieces: Iterator[Sequence[Bytes]], head: Callable[[], Bytes]
    ) -> ObjectInfo:
        return self._do("put_headed", key, lambda: self.inner.put_headed(key, head_bytes, pieces, head))

    def get(self, key: str, start: int = 0, length: int | None = None) -> bytes:
        return self._do("get", key, lambda: self.inner.get(key, start, length))

    def head(self, key: str) -> ObjectInfo:
        return self._do("head", key, lambda: self.inner.head(key))

    def metadata(self, key: str) -> Mapping[str, str]:
        return self._do("metadata", key, lambda: self.inner.metadata(key))

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        return self._do("list", prefix, lambda: iter(list(self.inner.list(prefix))))

    def delete(self, key: str) -> None:
        self._do("delete", key, lambda: self.inner.delete(key))

    def proves(self, info: ObjectInfo, md5_hex: str) -> bool:
        return self._do("proves", info.key, lambda: self.inner.proves(info, md5_hex))

    def close(self) -> None:
        self.inner.close()

    def keys(self, ending: str = "") -> Sequence[str]:
        return [info.key for info in self.inner.list("") if info.key.endswith(ending)]


class PlainLog:
    """Segments of batches; all but the last are sealed."""

    path = "/log"

    def __init__(self, segments: Sequence[Sequence[bytes]]) -> None:
        self.segments = [list(batches) for batches in segments]
        self.start_offset = self._segment(self.segments[0]).base_offset
        # Base offsets of segments that cannot be read, and of those of which a repair has left nothing.
        self.damaged: set[int] = set()
        self.lost: set[int] = set()

    @property
    def end_offset(self) -> int:
        return self._segment(self.segments[-1]).end_offset

    @property
    def active_bytes(self) -> int:
        return sum(map(len, self.segments[-1]))

    def _segment(self, batches: Sequence[bytes]) -> LocalSegment:
        first, last = decode_header(memoryview(batches[0])), decode_header(memoryview(batches[-1]))
        return LocalSegment(
            first.base_offset, last.base_offset + last.last_offset_delta + 1, sum(map(len, batches))
        )

    def sealed(self) -> list[LocalSegment]:
        return [self._segment(batches) for batches in self.segments[:-1]]

    def max_timestamp_ms(self, segment: LocalSegment) -> int:
        if segment.base_offset in self.damaged:
            return -1
        times = [decode_header(memoryview(batch)).max_timestamp for batch in self.batches(segment)]
        return max(times, default=-1)

    def batches(self, segment: LocalSegment) -> Iterator[bytes]:
        for batches in self.segments:
            if self._segment(batches).base_offset == segment.base_offset:
                if segment.base_offset in self.damaged:
                    raise CorruptLog(
                        "damaged by the test",
                        first_offset=segment.base_offset,
                        end_offset=segment.end_offset,
                        path=self.path,
                    )
                yield from batches if segment.base_offset not in self.lost else ()

    def drop_before(self, offset: int) -> None:
        self.segments = [
            batches
            for number, batches in enumerate(self.segments)
            if number == len(self.segments) - 1 or self._segment(batches).end_offset > offset
        ]
        self.start_offset = max(self.start_offset, offset)

    def seal(self) -> None: ...

    def seal_if_due(self) -> None: ...


class Rig:
    """A partition on a directory, which can be opened again and again."""

    def __init__(self, path: Path, log: PlainLog, *, codec: Codec = Codec.NONE, kind: Kind = BUCKET) -> None:
        self.now_ms = 1_700_000_100_000
        self.directory = str(path / "tier")
        self.store = ScriptedStore(path / "store", kind)
        self.log = log
        self.disk: Disk = MortalDisk()
        self.foreground: Foreground | None = None
        self.is_hurried = False
        self.check_store: Callable[[], None] = lambda: None
        self._codec = codec

    def open(self, *, store: ObjectStore | None = None) -> TieredPartition:
        self.disk.make_directory(self.directory)
        tier = Tier(
            store=store or self.store,
            keys=KEYS,
            reader=ColdReader(store or self.store, segment_cache_bytes=1 << 20, threads=1),
            disk=self.disk,
            clock=lambda: self.now_ms,
            codec=self._codec,
            first_back_off_ms=100,
            longest_back_off_ms=1000,
            foreground=self.foreground,
            is_hurried=lambda: self.is_hurried,
            check_store=self.check_store,
        )
        stream = ManifestStream.open(
            self.directory,
            stream_id=STREAM,
            disk=self.disk,
            clock=lambda: self.now_ms,
            settings=ManifestSettings(chunk_capacity_bytes=16 << 10),
        )
        partition = TieredPartition(tier, stream, self.directory, TOPIC_DIR, 0)
        partition.attach(self.log)
        return partition

    def settle(self, partition: TieredPartition, policy: Policy, passes: int = 4) -> None:
        """As many passes as it takes, each long after the one before."""
        for _ in range(passes):
            self.now_ms += 10_000
            partition.work(policy, has_store=True)
