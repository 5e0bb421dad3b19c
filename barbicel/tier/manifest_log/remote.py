"""A stream's manifest as the object store has it: chunks, bundles of chunks, and snapshots.

A bundle is sealed chunks one behind the other, byte for byte: each says by its committed_len where the next
one begins. Nothing from the store is believed before its CRCs are checked, or read before its size is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from barbicel.codecs.aof2_manifest import (
    CHUNK_HEADER_BYTES,
    CHUNK_MAX_BYTES,
    FLAG_SEALED,
    decode_chunk_header,
    encode_chunk_header,
)
from barbicel.codecs.manifest_snapshot import SNAPSHOT_MAX_BYTES
from barbicel.errors import CorruptFile, CorruptManifest
from barbicel.tier.keys import Keys, parse_chunk_key, parse_snapshot_key
from barbicel.tier.manifest_log.layout import parse_bundle_name
from barbicel.tier.manifest_log.replay import Replayed, replay
from barbicel.tier.object_store import ObjectInfo, ObjectStore

__all__ = ["Bundle", "RemoteSource", "as_object", "replay_remote", "split_bundle"]

BUNDLE_MAX_BYTES = 1 << 28


class Bundle(NamedTuple):
    """An object that holds all chunks from the first to the last."""

    first_index: int
    last_index: int
    info: ObjectInfo

    def holds(self, chunk_index: int) -> bool:
        return self.first_index <= chunk_index <= self.last_index


def as_object(chunk: bytes, chunk_index: int) -> bytes:
    """A sealed chunk as it is uploaded: without the bit that says that it was."""
    header = decode_chunk_header(chunk, chunk_index)._replace(flags=FLAG_SEALED)
    return encode_chunk_header(header) + chunk[CHUNK_HEADER_BYTES : header.committed_len]


def split_bundle(data: bytes, first_index: int, last_index: int) -> Iterator[tuple[int, bytes]]:
    """The chunks of a bundle; their CRCs are for whoever reads them. Raises CorruptManifest."""
    position = 0
    for index in range(first_index, last_index + 1):
        header = decode_chunk_header(data[position : position + CHUNK_HEADER_BYTES], index)
        end = position + header.committed_len
        if end > len(data):
            raise CorruptManifest("the bundle ends within the chunk", chunk_index=index, position=len(data))
        yield index, data[position:end]
        position = end
    if position != len(data):
        raise CorruptManifest(f"{len(data) - position} bytes too many in a bundle", position=position)


class RemoteSource:
    """The objects of one stream as a source of replay, as they were when it was made."""

    def __init__(self, store: ObjectStore, keys: Keys, stream_id: str) -> None:
        self._store = store
        self._keys = keys
        self._stream_id = stream_id
        self.chunk_objects: dict[int, ObjectInfo] = {}
        self.bundles: list[Bundle] = []
        # Keys of what is called a bundle and cannot be one.
        self.unbelievable: list[str] = []
        self.snapshot_objects: dict[int, ObjectInfo] = {}
        prefix = keys.manifest(stream_id)
        for info in store.list(prefix):
            if (chunk := parse_chunk_key(info.key)) is not None:
                self.chunk_objects[chunk[1]] = info
            elif (snapshot := parse_snapshot_key(info.key)) is not None:
                self.snapshot_objects[snapshot[1]] = info
            elif (ends := parse_bundle_name(info.key.removeprefix(prefix))) is not None:
                self._add_bundle(Bundle(*ends, info))
        # The bundle that was read last, as its neighbours are read next.
        self._open_bundle: tuple[Bundle, dict[int, bytes]] | None = None

    def _add_bundle(self, bundle: Bundle) -> None:
        """A name is no proof: an object too small for its chunks would make a row of them out of nothing."""
        if bundle.last_index - bundle.first_index < bundle.info.size // CHUNK_HEADER_BYTES:
            self.bundles.append(bundle)
        else:
            self.unbelievable.append(bundle.info.key)

    @property
    def chunks(self) -> Sequence[int]:
        bundled = (range(bundle.first_index, bundle.last_index + 1) for bundle in self.bundles)
        return sorted(set(self.chunk_objects).union(*bundled))

    @property
    def snapshots(self) -> Sequence[int]:
        return sorted(self.snapshot_objects)

    def bundle_of(self, chunk_index: int) -> Bundle | None:
        return next((bundle for bundle in self.bundles if bundle.holds(chunk_index)), None)

    def read_chunk(self, chunk_index: int) -> bytes:
        info = self.chunk_objects.get(chunk_index)
        if info is not None:
            return self._get(info, CHUNK_MAX_BYTES)
        bundle = self.bundle_of(chunk_index)
        if bundle is None:
            raise CorruptManifest("the chunk is missing", chunk_index=chunk_index)
        return self.read_bundle(bundle)[chunk_index]

    def read_bundle(self, bundle: Bundle) -> dict[int, bytes]:
        """Its chunks by their index."""
        if self._open_bundle is None or self._open_bundle[0] != bundle:
            data = self._get(bundle.info, BUNDLE_MAX_BYTES)
            self._open_bundle = bundle, dict(split_bundle(data, bundle.first_index, bundle.last_index))
        return self._open_bundle[1]

    def read_snapshot(self, snapshot_id: int) -> bytes:
        return self._get(self.snapshot_objects[snapshot_id], SNAPSHOT_MAX_BYTES)

    def _get(self, info: ObjectInfo, limit_bytes: int) -> bytes:
        if info.size > limit_bytes:
            raise CorruptFile(f"{info.size} bytes are too many", path=info.key, position=limit_bytes)
        return self._store.get(info.key)

    def chunk_name(self, chunk_index: int) -> str:
        bundle = None if chunk_index in self.chunk_objects else self.bundle_of(chunk_index)
        return self._keys.chunk(self._stream_id, chunk_index) if bundle is None else bundle.info.key

    def snapshot_name(self, snapshot_id: int) -> str:
        return self._keys.snapshot(self._stream_id, snapshot_id)


def replay_remote(store: ObjectStore, keys: Keys, stream_id: str) -> Replayed:
    """The catalogue as far as the store knows it. Raises CorruptManifest, UnknownVersion, StoreError."""
    return replay(RemoteSource(store, keys, stream_id), stream_id)
