"""One sealed segment on its way into the object store: surveyed, perhaps compressed, uploaded, verified.

The manifest has each step before the next begins, and says UploadDone only when both objects were verified:
from then on the segment may leave the disk. Whatever fails before is tried again from the beginning; the keys
are this segment's alone, so that what an earlier try left is taken as it is, or replaced.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias, TypeVar

from crc32c import crc32c

from barbicel.clock import Clock
from barbicel.codecs.aof2_events import SegmentDescribed
from barbicel.codecs.aof2_manifest import ManifestRecord
from barbicel.codecs.kafka.compression import Codec
from barbicel.codecs.kfs import KFS_FOOTER_BYTES, KFS_HEADER_BYTES
from barbicel.disk import Bytes, Disk
from barbicel.errors import (
    BarbicelError,
    CorruptFile,
    CorruptLog,
    DiskError,
    ForeignManifest,
    NotVerified,
    ObjectExists,
    ObjectMissing,
    StoreError,
)
from barbicel.tier import transitions
from barbicel.tier.keys import TopicKeys
from barbicel.tier.local_log import LocalLog, LocalSegment
from barbicel.tier.manifest_log.stream import ManifestStream
from barbicel.tier.object_store import ObjectInfo, ObjectStore
from barbicel.tier.one_pass import OnePass, PlainBatches
from barbicel.tier.packing import Kept, NoBatches, Packed, pieces, survey
from barbicel.tier.transitions import Reason
from barbicel.tier.warm import open_warm, read_warm, remove_warm, warm_path, write_warm
from barbicel.tier.whole_segment import check_whole

__all__ = ["GiveWay", "NothingToUpload", "Offload", "UploadStopped"]

Piece = TypeVar("Piece")

# Up to this size an object is put at once, and only if there is none of its key. A larger one goes in parts,
# which stay in a bucket, unseen, if the process is killed meanwhile: so the usual segment is none of those.
PUT_AT_ONCE_BYTES = 64 << 20
READ_BACK_BYTES = 8 << 20


# Waits, if it has to, before so many bytes are sent. Raises UploadStopped if none shall be any more.
GiveWay: TypeAlias = Callable[[int], None]


class NothingToUpload(BarbicelError):
    """A segment without a batch: a repair has given up all that it held."""


class UploadStopped(BarbicelError):
    """The server stops, or the topic is deleted. Nothing has failed: a restart begins this segment anew."""


@dataclass(frozen=True)
class Offload:
    """What all segments of one partition have in common. One segment at a time."""

    store: ObjectStore
    keys: TopicKeys
    partition: int
    stream: ManifestStream
    log: LocalLog
    disk: Disk
    # Where warm artifacts are.
    directory: str
    codec: Codec
    clock: Clock
    check_store: Callable[[], None] = lambda: None
    # Raises UploadStopped once nothing more shall be uploaded.
    check_open: Callable[[], None] = lambda: None
    # Base offsets whose keys were found free, or have something of an earlier try of this disk.
    own: set[int] = field(default_factory=set)

    def copy(self, segment: LocalSegment, give_way: GiveWay = lambda _: None) -> None:
        """On return the store has the segment, verified, and the manifest says so durably.

        `give_way` is asked before anything is sent: once for what is put at once, for what is larger again
        and again. Raises NothingToUpload, UploadStopped, ForeignManifest, or another BarbicelError; then the
        manifest says that it failed, and why.
        """
        base_offset = segment.base_offset
        key = self.keys.segment(self.partition, base_offset)
        try:
            self._check_own(base_offset, key)
            self._note_opened(base_offset)
            packed, info = self._copy_body(segment, key, give_way)
            index_info = self._upload_index(self.keys.index(self.partition, base_offset), packed.index)
            self.check_store()
        except (NothingToUpload, UploadStopped, ForeignManifest):
            raise
        except BarbicelError as error:
            self._note_opened(base_offset)
            self._commit(transitions.upload_failed(base_offset, key, _reason(error)))
            raise
        self._done(segment, packed, info, index_info)

    def _check_own(self, base_offset: int, key: str) -> None:
        """Raises ForeignManifest if another server has uploaded a segment of this offset, and all of it.

        What a server that is lost did not finish is nobody's. Nothing is in the manifest before: it must not
        go on where the other one's does.
        """
        if base_offset in self.own:
            return
        try:
            self.store.head(self.keys.index(self.partition, base_offset))
            check_whole(partial(self.store.get, key), self.store.head(key).size)
        except (ObjectMissing, CorruptFile):
            self.own.add(base_offset)
            return
        raise ForeignManifest(
            "the object store has a segment of this offset that is not from this disk",
            path=key,
            hint="this directory is an older copy, or another server uses the namespace: see docs/tiering.md",
        )

    def _note_opened(self, base_offset: int) -> None:
        entry = self.stream.catalogue.segment(base_offset)
        if entry is None or not entry.is_opened:
            self.stream.append(transitions.opened(base_offset))

    def _done(self, segment: LocalSegment, packed: Packed, info: ObjectInfo, index_info: ObjectInfo) -> None:
        entry = self.stream.catalogue.segment(segment.base_offset)
        described = SegmentDescribed(
            # Up to the next segment, whatever was lost at this one's end.
            end_offset=segment.end_offset,
            max_timestamp_ms=packed.max_timestamp_ms,
            message_count=packed.message_count,
            object_bytes=packed.object_bytes,
            object_crc32c=packed.body_crc32c,
            index_bytes=index_info.size,
            is_recompressed=entry is not None and entry.segment_crc64 != packed.crc64,
        )
        self._commit(*transitions.uploaded(segment.base_offset, info.key, info.etag, described))
        remove_warm(self.disk, warm_path(self.directory, segment.base_offset))

    def _commit(self, *records: ManifestRecord) -> None:
        self.stream.append(*records)
        self.stream.commit()

    def _copy_body(self, segment: LocalSegment, key: str, give_way: GiveWay) -> tuple[Packed, ObjectInfo]:
        """What `copy` does of all but the index and the last word."""
        if segment.size_bytes <= PUT_AT_ONCE_BYTES:
            # Before it is read: nothing is held in memory while it waits.
            give_way(segment.size_bytes)
            give_way = _at_once
        if self.store.streams_headed:
            with suppress(PlainBatches):
                return self._copy_in_one_pass(segment, key, give_way)
        packed, batches = self._prepare(segment)
        self._commit(transitions.uploading(segment.base_offset, key))
        return packed, self._upload(key, packed, batches, give_way)

    def _batches(self, segment: LocalSegment) -> Iterator[Bytes]:
        """Nobody who stops a server waits until a large segment is read, or compressed."""
        check_open = self.check_open
        for batch in self.log.batches(segment):
            check_open()
            yield batch

    # --- in one pass ----------------------------------------------------------------------------------

    def _copy_in_one_pass(
        self, segment: LocalSegment, key: str, give_way: GiveWay
    ) -> tuple[Packed, ObjectInfo]:
        """Raises PlainBatches if it has to be compressed; then nothing was done."""
        passing = OnePass(self._batches(segment), self.clock, may_be_plain=self.codec is Codec.NONE)

        def head() -> bytes:
            # The object comes to be when this returns, and the manifest has to know of it before.
            self._note_sealed(segment, passing.packed)
            self._commit(transitions.uploading(segment.base_offset, key))
            return passing.packed.header

        groups = _patiently(iter(passing), give_way, lambda group: sum(map(len, group)))
        try:
            info = self.store.put_headed(key, KFS_HEADER_BYTES, groups, head)
        except NoBatches:
            raise self._nothing() from None
        return passing.packed, self._verified(info, None, passing.packed)

    def _note_sealed(self, segment: LocalSegment, plain: Packed) -> None:
        entry = self.stream.catalogue.segment(segment.base_offset)
        if entry is None or not entry.is_sealed:
            self.stream.append(
                transitions.sealed(segment.base_offset, segment.end_offset, segment.size_bytes, plain.crc64)
            )

    def _nothing(self) -> NothingToUpload:
        return NothingToUpload("a segment without a batch", path=self.log.path)

    # --- in two passes --------------------------------------------------------------------------------

    def _prepare(self, segment: LocalSegment) -> tuple[Packed, Callable[[], Iterable[Bytes]]]:
        """The object, and its batches, as often as they are wanted."""
        # What is put at once is in memory for that anyway.
        kept = Kept() if segment.size_bytes <= PUT_AT_ONCE_BYTES else None
        found = self._batches(segment)
        try:
            plain = survey(found if kept is None else kept.passing(found), self.clock())
        except NoBatches:
            raise self._nothing() from None
        self._note_sealed(segment, plain)
        if self.codec is not Codec.NONE and plain.has_plain_batches:
            del kept
            return self._warm(segment, plain)
        if kept is None:
            return plain, lambda: self._batches(segment)
        return plain, lambda: kept.pieces

    def _warm(self, segment: LocalSegment, plain: Packed) -> tuple[Packed, Callable[[], Iterable[Bytes]]]:
        base_offset = segment.base_offset
        path = warm_path(self.directory, base_offset)
        if self.disk.exists(path):
            # Of an earlier try. One that is damaged is made anew.
            try:
                artifact = open_warm(self.disk, path)
            except CorruptFile:
                remove_warm(self.disk, path)
            else:
                if (artifact.packed.message_count, artifact.packed.end_offset) == (
                    plain.message_count,
                    plain.end_offset,
                ):
                    return artifact.packed, lambda: read_warm(self.disk, artifact)
                remove_warm(self.disk, path)
        self._commit(transitions.compressing(base_offset, job_id=base_offset & 0xFFFF_FFFF))
        try:
            artifact = write_warm(
                self.disk,
                self.directory,
                self._batches(segment),
                self.codec,
                self.clock(),
                base_offset=base_offset,
            )
        except UploadStopped:
            raise
        except BarbicelError as error:
            self._commit(transitions.compression_failed(base_offset, _reason(error)))
            raise
        self._commit(transitions.compressed(base_offset, artifact.packed.object_bytes))
        return artifact.packed, lambda: read_warm(self.disk, artifact)

    # --- uploading and verifying ----------------------------------------------------------------------

    def _upload(
        self, key: str, packed: Packed, batches: Callable[[], Iterable[Bytes]], give_way: GiveWay
    ) -> ObjectInfo:
        sent = pieces(packed, batches(), has_md5=self.store.knows_md5)
        patient = _patiently(sent, give_way, len)
        if packed.object_bytes > PUT_AT_ONCE_BYTES:
            info = self.store.put_large(key, patient)
        else:
            info = self._put(key, list(patient))
        return self._verified(info, sent.md5_hex if self.store.knows_md5 else None, packed)

    def _put(self, key: str, content: list[Bytes]) -> ObjectInfo:
        """The key is this segment's alone: what is there is of an earlier try, perhaps of other bytes."""
        try:
            return self.store.put_new(key, content)
        except ObjectExists:
            return self.store.replace(key, content, self.store.head(key).etag)

    def _verified(self, info: ObjectInfo, md5_hex: str | None, packed: Packed) -> ObjectInfo:
        if info.size != packed.object_bytes:
            raise NotVerified(f"{info.size} bytes were stored of {packed.object_bytes}", path=info.key)
        if md5_hex is not None and self.store.proves(info, md5_hex):
            return info
        if _crc32c_of(self._read_back(info)) != packed.body_crc32c:
            raise NotVerified("the crc32c of what was stored does not match", path=info.key)
        if self.store.head(info.key).etag != info.etag:
            raise NotVerified("the object was changed while it was verified", path=info.key)
        return info

    def _read_back(self, info: ObjectInfo) -> Iterator[bytes]:
        end = info.size - KFS_FOOTER_BYTES
        for start in range(KFS_HEADER_BYTES, end, READ_BACK_BYTES):
            yield self.store.get(info.key, start, min(READ_BACK_BYTES, end - start))

    def _upload_index(self, key: str, index: bytes) -> ObjectInfo:
        info = self._put(key, [index])
        md5_hex = hashlib.md5(index, usedforsecurity=False).hexdigest()
        if not self.store.proves(info, md5_hex) and self.store.get(key) != index:
            raise NotVerified("the index that was stored is another one", path=key)
        return info


def _at_once(_: int) -> None:
    """For what has waited already."""


def _patiently(pieces: Iterator[Piece], give_way: GiveWay, size: Callable[[Piece], int]) -> Iterator[Piece]:
    """Each of them when there was time for it. A store gives up what it has when this raises."""
    for piece in pieces:
        give_way(size(piece))
        yield piece


def _crc32c_of(parts: Iterator[bytes]) -> int:
    crc = 0
    for part in parts:
        crc = crc32c(part, crc)
    return crc


def _reason(error: BarbicelError) -> Reason:
    if isinstance(error, NotVerified):
        return Reason.NOT_VERIFIED
    if isinstance(error, StoreError):
        return Reason.STORE_AWAY if error.is_passing else Reason.STORE_REFUSED
    if isinstance(error, CorruptLog | CorruptFile):
        return Reason.DAMAGED
    return Reason.DISK if isinstance(error, DiskError) else Reason.STORE_AWAY
