"""Objects in an S3 bucket, through obstore: the only module that knows that library.

Each call waits in the caller's thread. obstore tries a failed request again, at most `tries` times in all and
within `retry_ms`, so that a caller's own back-off rules. A request that was tried again, or whose answer was
lost, may have been done: every conditional put carries an id of its own as metadata, and on a conflict or a
lost answer what is there is looked at. If it has that id, the put has succeeded.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple
from uuid import uuid4

import obstore
from obstore.exceptions import BaseError
from obstore.store import S3Store

from barbicel.clock import wall_clock_ms
from barbicel.disk import Bytes
from barbicel.errors import ObjectChanged, ObjectExists, ObjectMissing, StoreError, StoreRefused
from barbicel.tier.object_store import ObjectInfo, check_key, check_metadata, check_range, directory_of
from barbicel.tier.parts import Parts
from barbicel.tier.s3_errors import store_error
from barbicel.tier.s3_settings import S3Settings

if TYPE_CHECKING:
    from obstore import GetOptions, GetResult, ObjectMeta, PutMode, PutResult
    from obstore.store import S3Config

__all__ = ["S3Objects"]

WRITER = "barbicel-writer"
# obstore's names for headers of HTTP, which it gives among the metadata, and what is ours.
NOT_METADATA = frozenset(
    {
        "Cache-Control",
        "Content-Disposition",
        "Content-Encoding",
        "Content-Language",
        "Content-Type",
        "Storage-Class",
        WRITER,
    }
)
CONFLICT_TRIES = 3
LIST_PAGE = 1000
PROOFS_MAX = 1024


class _Found(NamedTuple):
    info: ObjectInfo
    metadata: Mapping[str, str]


class S3Objects:
    """An `ObjectStore`. Its memory for `put_large` is bounded by (parts_at_once + 2) parts."""

    knows_md5 = True
    streams_headed = False

    def __init__(self, settings: S3Settings) -> None:
        self.url = f"s3://{settings.bucket}" + (f"/{settings.prefix}" if settings.prefix else "")
        self._settings = settings
        self._store = _connect(settings)
        self._proofs: OrderedDict[tuple[str, str], str] = OrderedDict()
        self._mutex = threading.Lock()

    def put_new(
        self, key: str, pieces: Sequence[Bytes], metadata: Mapping[str, str] | None = None
    ) -> ObjectInfo:
        check_key(key)
        check_metadata(metadata or {})
        writer = uuid4().hex
        for _ in range(CONFLICT_TRIES):
            try:
                return self._put(key, pieces, "create", {**(metadata or {}), WRITER: writer})
            except StoreError as error:
                found = self._after(key, error)
                if found is not None and found.metadata.get(WRITER) == writer:
                    return found.info
                if found is not None:
                    raise ObjectExists("there is such an object already", path=key) from error
        raise StoreError("others create and delete it all the time", path=key, is_passing=True)

    def replace(self, key: str, pieces: Sequence[Bytes], etag: str) -> ObjectInfo:
        check_key(key)
        writer = uuid4().hex
        try:
            return self._put(key, pieces, {"e_tag": etag}, {WRITER: writer})
        except StoreError as error:
            found = self._after(key, error)
            if found is None:
                raise ObjectMissing("there is no such object", path=key) from error
            if found.metadata.get(WRITER) == writer:
                return found.info
            if found.info.etag == etag:
                raise StoreError(error.message, path=key, is_passing=True) from error
            raise ObjectChanged("another writer has changed it", path=key) from error

    def _after(self, key: str, error: StoreError) -> _Found | None:
        """What is there after a put that failed; raises its error unless that is a reason to look.

        That nothing is there does not explain a lost answer.
        """
        if not isinstance(error, ObjectChanged | ObjectMissing) and not error.is_passing:
            raise error
        try:
            return self._find(key)
        except StoreError as unseen:
            if error.is_passing:
                raise error from None
            if isinstance(unseen, ObjectMissing):
                return None
            # Whose object it is that was in the way is not known: it may be ours.
            raise

    def put_large(self, key: str, pieces: Iterator[Bytes]) -> ObjectInfo:
        check_key(key)
        parts = Parts(pieces, self._settings.part_bytes)
        first, second = next(parts, b""), next(parts, None)
        if second is None:
            return self._put(key, [first], "overwrite", {})
        try:
            with _asking("multipart put", key):
                result = obstore.put(
                    self._store,
                    key,
                    chain((first, second), parts),
                    chunk_size=self._settings.part_bytes,
                    max_concurrency=self._settings.parts_at_once,
                )
            info = _written(key, parts.size, result)
        except StoreError as error:
            # The pieces' own error, even if giving up the upload failed as well.
            if parts.error is not None:
                raise parts.error from None
            info = self._completed(key, parts.etag, error)
        if info.etag.strip('"') == parts.etag:
            self._remember(info, parts.md5_hex)
        return info

    def put_headed(
        self, key: str, head_bytes: int, pieces: Iterator[Sequence[Bytes]], head: Callable[[], Bytes]
    ) -> ObjectInfo:
        # A bucket takes an object's bytes in their order.
        held = [b"".join(group) for group in pieces]
        return self.put_large(key, chain([head()], held))

    def _completed(self, key: str, etag: str, error: StoreError) -> ObjectInfo:
        """The object, if it was put all the same and only the answer was lost."""
        if isinstance(error, StoreRefused):
            raise error
        try:
            info = self.head(key)
        except StoreError:
            raise error from None
        if info.etag.strip('"') != etag:
            raise error
        return info

    def get(self, key: str, start: int = 0, length: int | None = None) -> bytes:
        check_key(key)
        check_range(key, start, length)
        if length == 0 or (length is None and start > 0):
            # S3 has no empty ranges, and none that begins at the end.
            size = self.head(key).size
            length = size - start if length is None else 0
            if start > size:
                raise StoreError("the range does not lie within the object", path=key)
            if not length:
                return b""
        with _asking("get", key):
            result = self._get(key, {} if length is None else {"range": (start, start + length)})
            wanted = (0, result.meta["size"]) if length is None else (start, start + length)
            if result.range != wanted:
                raise StoreError("the range does not lie within the object", path=key)
            data = result.bytes().to_bytes()
        if len(data) != wanted[1] - wanted[0]:
            raise StoreError(f"{len(data)} bytes came of {wanted[1] - wanted[0]}", path=key, is_passing=True)
        return data

    def head(self, key: str) -> ObjectInfo:
        check_key(key)
        return self._find(key).info

    def metadata(self, key: str) -> Mapping[str, str]:
        check_key(key)
        found = self._find(key).metadata
        return {name: value for name, value in found.items() if name not in NOT_METADATA}

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        # S3 sorts and some of its likenesses do not: a page is small, all of them are sorted here.
        directory = directory_of(prefix)
        found = []
        with _asking("list", prefix):
            for page in obstore.list(self._store, directory or None, chunk_size=LIST_PAGE):
                found += [_info(meta) for meta in page if meta["path"].startswith(prefix)]
        found.sort(key=lambda info: info.key.encode())
        return iter(found)

    def delete(self, key: str) -> None:
        check_key(key)
        try:
            with _asking("delete", key):
                obstore.delete(self._store, key)
        except ObjectMissing:
            pass

    def proves(self, info: ObjectInfo, md5_hex: str) -> bool:
        # The etag of a single put is its MD5, unless the store encrypts with keys of its own.
        if info.etag.strip('"') == md5_hex:
            return True
        with self._mutex:
            return self._proofs.get((info.key, info.etag)) == md5_hex

    def close(self) -> None:
        """Connections end with their object; nothing is under way once all calls have returned."""

    def _remember(self, info: ObjectInfo, md5_hex: str) -> None:
        """The etag of a multipart put is made of its parts' MD5s, and only its writer knows those."""
        with self._mutex:
            self._proofs[info.key, info.etag] = md5_hex
            while len(self._proofs) > PROOFS_MAX:
                self._proofs.popitem(last=False)

    def _put(
        self, key: str, pieces: Sequence[Bytes], mode: PutMode, attributes: dict[str, str]
    ) -> ObjectInfo:
        with _asking("put", key):
            result = obstore.put(
                self._store, key, iter(pieces), mode=mode, attributes=attributes, use_multipart=False
            )
        return _written(key, sum(map(len, pieces)), result)

    def _get(self, key: str, options: GetOptions) -> GetResult:
        return obstore.get(self._store, key, options=options)

    def _find(self, key: str) -> _Found:
        try:
            with _asking("head", key):
                result = self._get(key, {"head": True})
        except ObjectMissing:
            # The answer to HEAD has no body, so it does not tell a missing bucket from a missing object.
            with _asking("get", key):
                result = self._get(key, {"range": (0, 1)})
        return _Found(_info(result.meta), {str(name): value for name, value in result.attributes.items()})


def _connect(settings: S3Settings) -> S3Store:
    config: S3Config = {
        "disable_bulk_delete": True,
        "virtual_hosted_style_request": not settings.path_style,
        "skip_signature": settings.skip_signature,
    }
    given = ("endpoint", "region", "access_key_id", "secret_access_key", "session_token")
    # The names are those of the type, which cannot be seen through a comprehension.
    config.update({name: value for name in given if (value := getattr(settings, name)) is not None})  # type: ignore[typeddict-item]
    try:
        return S3Store(
            settings.bucket,
            prefix=settings.prefix or None,
            config=config,
            client_options={
                "allow_http": settings.allow_http,
                "connect_timeout": timedelta(milliseconds=settings.connect_timeout_ms),
                "read_timeout": timedelta(milliseconds=settings.stall_timeout_ms),
                "timeout": timedelta(milliseconds=settings.timeout_ms),
            },
            retry_config={
                "max_retries": settings.tries - 1,
                "retry_timeout": timedelta(milliseconds=settings.retry_ms),
                "backoff": {
                    "init_backoff": timedelta(milliseconds=100),
                    "max_backoff": timedelta(seconds=5),
                    "base": 2,
                },
            },
        )
    except (BaseError, ValueError) as error:
        raise StoreRefused(f"cannot be used: {error}".partition("\n")[0], path=settings.bucket) from error


@contextmanager
def _asking(operation: str, key: str) -> Iterator[None]:
    try:
        yield
    except (BaseError, FileNotFoundError) as error:
        raise store_error(operation, key, str(error)) from error


def _info(meta: ObjectMeta) -> ObjectInfo:
    modified_ms = round(meta["last_modified"].timestamp() * 1000)
    return ObjectInfo(meta["path"], meta["size"], meta["e_tag"] or "", modified_ms)


def _written(key: str, size: int, result: PutResult) -> ObjectInfo:
    """The store's answer to a put has no time: this machine's stands in for it."""
    return ObjectInfo(key, size, result["e_tag"] or "", wall_clock_ms())
