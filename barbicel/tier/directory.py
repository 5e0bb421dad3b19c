"""Objects as the files of a directory, for one machine or a shared file system.

An object's file holds its content and nothing else (its name is in `directory_names`). What is beside:

    .barbicel/LOCK                         held for the moment of a change, by one process of all
    .barbicel/writers/<writer>/            of an open store that writes: its temporaries, LOCK while it lives
    .barbicel/metadata/<SHA-256 of a key>  the metadata that an object was created with, bound to its etag

The order of every write: temporary → write → fsync → under the lock: condition, metadata, rename → fsync of
the object's directory. A crash leaves the old object or the new one, and at worst a temporary, perhaps as a
second name of the new one: what a dead writer has left is removed by the first write of the next one. An etag
is the file's identity, so what is put there by hand is an object too.
"""

from __future__ import annotations

import errno
import hashlib
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import chain
from urllib.parse import quote

from barbicel.clock import Clock, wall_clock_ms
from barbicel.disk import TICK_MS, Bytes, Disk, File, parent, read_file, replace_file
from barbicel.errors import (
    DiskError,
    ObjectChanged,
    ObjectExists,
    ObjectMissing,
    StoreError,
    StoreRefused,
)
from barbicel.tier.directory_changes import METADATA_ENDING, Changes
from barbicel.tier.directory_names import OWN_DIRECTORY, key_of, path_of
from barbicel.tier.given import Given
from barbicel.tier.object_store import ObjectInfo, check_key, check_metadata, check_range, directory_of

__all__ = ["DirectoryObjects"]

METADATA_FILE_BYTES_MAX = 64 << 10
READ_BYTES = 1 << 20
_CHANGES = ("put", "delete")
_MISSING = (errno.ENOENT, errno.ENOTDIR)
_REFUSED = frozenset({errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.ENAMETOOLONG})


class DirectoryObjects:
    """An `ObjectStore`. Reading changes nothing, and needs no directory that can be written."""

    knows_md5 = False
    streams_headed = True

    def __init__(
        self,
        root: str,
        *,
        disk: Disk,
        clock: Clock = wall_clock_ms,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._root = disk.resolve(root)
        self.url = f"file://{quote(self._root)}"
        self._own = f"{self._root}/{OWN_DIRECTORY}"
        self._disk = disk
        self._clock = clock
        self._sleep = sleep
        self._changes = Changes(self._own, disk=disk, sleep=sleep)

    def put_new(
        self, key: str, pieces: Sequence[Bytes], metadata: Mapping[str, str] | None = None
    ) -> ObjectInfo:
        path = self._path(key)
        check_metadata(metadata or {})

        def condition() -> None:
            if self._disk.exists(path):
                raise ObjectExists("there is such an object already", path=key)

        return self._write(key, [pieces], condition, metadata or {})

    def replace(self, key: str, pieces: Sequence[Bytes], etag: str) -> ObjectInfo:
        def condition() -> None:
            if self._info(key).etag != etag:
                raise ObjectChanged("another writer has changed it", path=key)

        return self._write(key, [pieces], condition, {})

    def put_large(self, key: str, pieces: Iterator[Bytes]) -> ObjectInfo:
        return self._write(key, ([piece] for piece in pieces), lambda: None, {})

    def put_headed(
        self, key: str, head_bytes: int, pieces: Iterator[Sequence[Bytes]], head: Callable[[], Bytes]
    ) -> ObjectInfo:
        return self._write(key, chain([[bytes(head_bytes)]], pieces), lambda: None, {}, head)

    def get(self, key: str, start: int = 0, length: int | None = None) -> bytes:
        check_range(key, start, length)
        with self._opened(key) as file:
            size = file.size()
            end = size if length is None else start + length
            if start > size or end > size:
                raise StoreError("the range does not lie within the object", path=key)
            data = file.pread(end - start, start)
        if len(data) != end - start:
            raise StoreError(f"{len(data)} bytes came of {end - start}", path=key, is_passing=True)
        return data

    def head(self, key: str) -> ObjectInfo:
        return self._info(key)

    def metadata(self, key: str) -> Mapping[str, str]:
        with self._asking("head", key):
            while True:
                etag = self._info(key).etag
                found = self._read_metadata(key, etag)
                if self._info(key).etag == etag:
                    return found

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        directory = directory_of(prefix)
        with self._asking("list", prefix):
            self._need_root()
            # Of a key below it, because a directory's own name may be written in parts.
            start = parent(f"{self._root}/{path_of(f'{directory}/a.a')}") if directory else self._root
            keys = sorted((key for key in self._keys(start) if key.startswith(prefix)), key=str.encode)
        return self._infos(keys)

    def delete(self, key: str) -> None:
        path = self._path(key)
        with self._asking("delete", key), self._changes.changing():
            if self._disk.exists(path):
                self._let_the_clock_tick(path)
                self._disk.unlink(path)
                self._disk.sync_directory(parent(path))
            self._forget_metadata(key)
            self._remove_empty_directories(parent(path))

    def proves(self, info: ObjectInfo, md5_hex: str) -> bool:
        """By reading it back: what a disk says of a file is no more than that it was written."""
        md5 = hashlib.md5(usedforsecurity=False)
        with self._opened(info.key) as file:
            for position in range(0, file.size(), READ_BYTES):
                md5.update(file.pread(READ_BYTES, position))
        return md5.hexdigest() == md5_hex and self.head(info.key).etag == info.etag

    def close(self) -> None:
        self._changes.close()

    # Reading

    def _path(self, key: str) -> str:
        check_key(key)
        return f"{self._root}/{path_of(key)}"

    @contextmanager
    def _opened(self, key: str) -> Iterator[File]:
        path = self._path(key)
        with self._asking("get", key):
            file = self._disk.open(path, "read")
            try:
                yield file
            finally:
                file.close()

    def _info(self, key: str) -> ObjectInfo:
        """Of one file, although its name may stand for another one in the next moment."""
        path = self._path(key)
        with self._asking("head", key):
            while True:
                etag = self._disk.identity(path)
                size, modified_ms = self._disk.size(path), self._disk.modified_ms(path)
                if size is None:
                    raise ObjectMissing("there is no such object", path=key)
                if self._disk.identity(path) == etag:
                    return ObjectInfo(key, size, etag, modified_ms)

    def _infos(self, keys: Sequence[str]) -> Iterator[ObjectInfo]:
        for key in keys:
            with suppress(ObjectMissing):  # deleted since
                yield self.head(key)

    def _keys(self, directory: str) -> Iterator[str]:
        try:
            entries = self._disk.list(directory)
        except DiskError as error:
            if error.errno in _MISSING:
                return
            raise
        for name, _, is_directory in entries:
            path = f"{directory}/{name}"
            if is_directory and not name.startswith("."):
                yield from self._keys(path)
            elif not is_directory and (key := key_of(path.removeprefix(f"{self._root}/"))) is not None:
                yield key

    def _need_root(self) -> None:
        if not self._disk.exists(self._root):
            raise StoreRefused("there is no such directory", path=self.url, hint="is it mounted?")

    @contextmanager
    def _asking(self, operation: str, key: str) -> Iterator[None]:
        try:
            yield
        except DiskError as error:
            if error.errno in _MISSING and operation not in _CHANGES:
                self._need_root()
                raise ObjectMissing("there is no such object", path=key) from error
            text = f"{operation} failed: {error}"
            if error.errno in _REFUSED:
                raise StoreRefused(text, path=key, hint=error.hint) from error
            # A disk that is full, or a file server that is away, may be mended while we wait.
            raise StoreError(text, path=key, is_passing=True) from error

    # Writing

    def _write(
        self,
        key: str,
        appends: Iterable[Sequence[Bytes]],
        condition: Callable[[], None],
        metadata: Mapping[str, str],
        head: Callable[[], Bytes] = bytes,
    ) -> ObjectInfo:
        path, given = self._path(key), Given(appends)
        try:
            with (
                self._asking("put", key),
                self._changes.temporary(given, partial(given.asking, head)) as temporary,
            ):
                return self._publish(temporary, path, key, condition, metadata)
        except StoreError:
            if given.error is not None:
                raise given.error from None
            raise

    def _publish(
        self, temporary: str, path: str, key: str, condition: Callable[[], None], metadata: Mapping[str, str]
    ) -> ObjectInfo:
        etag, size = self._disk.identity(temporary), self._disk.size(temporary) or 0
        modified_ms = self._disk.modified_ms(temporary)
        with self._changes.changing():
            condition()
            self._write_metadata(key, etag, metadata, f"{temporary}{METADATA_ENDING}")
            if self._disk.exists(path):
                self._let_the_clock_tick(path)
            self._disk.make_directory(parent(path))
            self._disk.rename(temporary, path)
            self._disk.sync_directory(parent(path))
        return ObjectInfo(key, size, etag, modified_ms)

    def _let_the_clock_tick(self, path: str) -> None:
        """A file that is removed in the tick it was written in could give its identity to another."""
        if abs(self._clock() - self._disk.modified_ms(path)) <= TICK_MS:
            self._sleep(TICK_MS / 1000)

    def _remove_empty_directories(self, directory: str) -> None:
        while directory != self._root and self._disk.exists(directory) and not self._disk.names(directory):
            self._disk.remove_directory(directory)
            directory = parent(directory)
            self._disk.sync_directory(directory)

    # Metadata

    def _metadata_path(self, key: str) -> str:
        return f"{self._own}/metadata/{hashlib.sha256(key.encode()).hexdigest()}"

    def _write_metadata(self, key: str, etag: str, metadata: Mapping[str, str], temporary: str) -> None:
        """Before the object: bound to an etag that no object has, it says nothing."""
        path = self._metadata_path(key)
        if not metadata:
            return
        self._disk.make_directory(parent(path))
        text = json.dumps({"key": key, "etag": etag, "metadata": dict(metadata)})
        replace_file(self._disk, temporary, path, [text.encode()])

    def _read_metadata(self, key: str, etag: str) -> Mapping[str, str]:
        path = self._metadata_path(key)
        if not self._disk.exists(path):
            return {}
        try:
            found = json.loads(read_file(self._disk, path, METADATA_FILE_BYTES_MAX))
            bound, metadata = found["etag"], found["metadata"]
            return {str(name): str(metadata[name]) for name in metadata} if bound == etag else {}
        except (ValueError, KeyError, TypeError) as error:
            raise StoreError("the object's metadata is damaged", path=path) from error

    def _forget_metadata(self, key: str) -> None:
        path = self._metadata_path(key)
        if self._disk.exists(path):
            self._disk.unlink(path)
