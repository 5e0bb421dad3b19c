"""What the tests of the manifest log share: a clock, small streams, a store that fails on demand."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from barbicel.codecs.aof2_events import SegmentDescribed, encode_event
from barbicel.codecs.aof2_manifest import ManifestRecord
from barbicel.codecs.aof2_payloads import (
    LocalEvicted,
    SealSegment,
    SegmentOpened,
    UploadDone,
    UploadStarted,
)
from barbicel.disk import Bytes, Disk
from barbicel.errors import StoreError
from barbicel.tier.directory import DirectoryObjects
from barbicel.tier.keys import Keys
from barbicel.tier.manifest_log.settings import ManifestSettings
from barbicel.tier.manifest_log.stream import ManifestStream
from barbicel.tier.object_store import ObjectInfo, ObjectStore
from tests.support.fault_disk import FaultDisk

TOPIC = "orders-AAAAAAAAAAAAAAAAAAAAAA"
STREAM = f"{TOPIC}-3"
ROOT = f"/data/tier/{STREAM}"
KEYS = Keys("cluster")
# No rotation by time, and no snapshot, unless a test asks for one.
QUIET = ManifestSettings(
    chunk_capacity_bytes=16 << 10,
    rotation_period_ms=1 << 40,
    snapshot_records=1 << 40,
    snapshot_chunks=1 << 40,
)
SEGMENT_OFFSETS = 100


@dataclass
class Clock:
    now_ms: int = 1_700_000_000_000

    def __call__(self) -> int:
        return self.now_ms


def opened(
    disk: Disk,
    clock: Clock | None = None,
    settings: ManifestSettings = QUIET,
    *,
    directory: str = ROOT,
    read_only: bool = False,
) -> ManifestStream:
    return ManifestStream.open(
        directory,
        stream_id=STREAM,
        disk=disk,
        clock=clock or Clock(),
        settings=settings,
        read_only=read_only,
    )


def segment_key(segment_id: int) -> str:
    return KEYS.topic(TOPIC).segment(3, segment_id)


def begun(segment_id: int) -> list[ManifestRecord]:
    """A segment that is sealed in the local log."""
    return [
        ManifestRecord(SegmentOpened(segment_id, 1), segment_id, segment_id),
        ManifestRecord(SealSegment(5000, 77), segment_id, segment_id + SEGMENT_OFFSETS - 1),
    ]


def described(segment_id: int, object_bytes: int = 10, index_bytes: int = 5) -> ManifestRecord:
    event = SegmentDescribed(
        segment_id + SEGMENT_OFFSETS, 5, SEGMENT_OFFSETS, object_bytes, 1, index_bytes, False
    )
    return ManifestRecord(encode_event(event), segment_id, segment_id)


def uploaded(segment_id: int, etag: str = "etag") -> list[ManifestRecord]:
    key = segment_key(segment_id)
    return [
        ManifestRecord(UploadStarted(key), segment_id, segment_id),
        described(segment_id),
        ManifestRecord(UploadDone(key, etag), segment_id, segment_id),
    ]


def tiered(segment_id: int) -> list[ManifestRecord]:
    """The whole way of a segment into the store, up to its eviction."""
    return [
        *begun(segment_id),
        *uploaded(segment_id),
        ManifestRecord(LocalEvicted(5000), segment_id, 4999),
    ]


def put_segment(store: ObjectStore, segment_id: int) -> str:
    """The objects that `tiered` and `uploaded` speak of; returns the segment's etag."""
    info = store.put_new(segment_key(segment_id), [bytes(10)])
    store.put_new(KEYS.topic(TOPIC).index(3, segment_id), [bytes(5)])
    return info.etag


def fill(stream: ManifestStream, chunks: int, first: int = 0) -> None:
    """So many sealed chunks, a tiered segment in each."""
    for number in range(first, first + chunks):
        stream.append(*tiered(number * SEGMENT_OFFSETS))
        stream.seal()


def a_store() -> FlakyStore:
    disk = FaultDisk()
    disk.make_directory("/store")
    return FlakyStore(DirectoryObjects("/store", disk=disk))


@dataclass
class FlakyStore:
    """A store that counts what it is asked, and fails where it is told to."""

    inner: ObjectStore
    knows_md5: bool = field(default=True, init=False)
    streams_headed: bool = field(default=False, init=False)
    # Operation and part of a key → how many times it fails still; negative for always.
    failing: dict[tuple[str, str], int] = field(default_factory=dict)
    # Those that fail although they were done.
    is_done_all_the_same: bool = False
    # What is put is kept with its last byte changed, and no proof is given.
    lies: bool = False
    asked: list[tuple[str, str]] = field(default_factory=list)
    url: str = "flaky:"

    def _strikes(self, operation: str, key: str) -> bool:
        self.asked.append((operation, key))
        for (wanted, part), times in self.failing.items():
            if wanted == operation and part in key and times:
                self.failing[wanted, part] = times - 1
                return True
        return False

    def _fail(self, key: str) -> StoreError:
        return StoreError("the store is away", path=key, is_passing=True)

    def put_new(
        self, key: str, pieces: Sequence[Bytes], metadata: Mapping[str, str] | None = None
    ) -> ObjectInfo:
        strikes = self._strikes("put", key)
        if strikes and not self.is_done_all_the_same:
            raise self._fail(key)
        if self.lies:
            data = b"".join(pieces)
            pieces = [data[:-1], bytes([data[-1] ^ 1])]
        info = self.inner.put_new(key, pieces, metadata)
        if strikes:
            raise self._fail(key)
        return info

    def replace(self, key: str, pieces: Sequence[Bytes], etag: str) -> ObjectInfo:
        return self.inner.replace(key, pieces, etag)

    def put_large(self, key: str, pieces: Iterator[Bytes]) -> ObjectInfo:
        if self._strikes("put", key):
            raise self._fail(key)
        return self.inner.put_large(key, pieces)

    def put_headed(
        self, key: str, head_bytes: int, pieces: Iterator[Sequence[Bytes]], head: Callable[[], Bytes]
    ) -> ObjectInfo:
        return self.inner.put_headed(key, head_bytes, pieces, head)

    def get(self, key: str, start: int = 0, length: int | None = None) -> bytes:
        if self._strikes("get", key):
            raise self._fail(key)
        return self.inner.get(key, start, length)

    def head(self, key: str) -> ObjectInfo:
        if self._strikes("head", key):
            raise self._fail(key)
        return self.inner.head(key)

    def metadata(self, key: str) -> Mapping[str, str]:
        return self.inner.metadata(key)

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        if self._strikes("list", prefix):
            raise self._fail(prefix)
        return self.inner.list(prefix)

    def delete(self, key: str) -> None:
        if self._strikes("delete", key):
            raise self._fail(key)
        self.inner.delete(key)

    def proves(self, info: ObjectInfo, md5_hex: str) -> bool:
        return not self.lies and self.inner.proves(info, md5_hex)

    def close(self) -> None:
        self.inner.close()

    def present(self, prefix: str = "") -> set[str]:
        return {info.key for info in self.inner.list(prefix)}
