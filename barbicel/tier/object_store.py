"""What the tier asks of an object store: whole objects by key, created, replaced, deleted, never appended to.

Its invariants, which one conformance suite holds every store to:

- on return of a write the object is durable, and readers see all of it or nothing;
- a read gives exactly the bytes asked for, or an error: never fewer;
- of any number of writers that create one key, or replace one etag, exactly one succeeds, and it knows.

Every method may be called from any thread, waits for the store, and raises `StoreError`: the passing ones
(`is_passing`) are worth trying again later, `StoreRefused` is not until somebody mends the cause.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from barbicel.disk import Bytes
from barbicel.errors import StoreError, StoreRefused

__all__ = [
    "KEY_BYTES_MAX",
    "METADATA_BYTES_MAX",
    "ObjectInfo",
    "ObjectStore",
    "check_key",
    "check_metadata",
    "check_range",
    "directory_of",
]

# S3's limits, which every store here keeps to: what works on a directory works in a bucket.
KEY_BYTES_MAX = 1024
METADATA_BYTES_MAX = 2048


class ObjectInfo(NamedTuple):
    """An object as the store describes it. `etag` changes with every write; compare it, never parse it."""

    key: str
    size: int
    etag: str
    modified_ms: int


class ObjectStore(Protocol):
    """See the module."""

    url: str
    # Whether `proves` costs little, because the store knows MD5s by itself.
    knows_md5: bool
    # Whether `put_headed` needs memory for a few pieces, and not for all of them.
    streams_headed: bool

    def put_new(
        self, key: str, pieces: Sequence[Bytes], metadata: Mapping[str, str] | None = None
    ) -> ObjectInfo:
        """Create an object. Raises ObjectExists, and then nothing has changed."""

    def replace(self, key: str, pieces: Sequence[Bytes], etag: str) -> ObjectInfo:
        """Put new content in the place of what has this etag; its metadata goes.

        Raises ObjectChanged if another writer was there since, ObjectMissing if there is no object.
        """

    def put_large(self, key: str, pieces: Iterator[Bytes]) -> ObjectInfo:
        """Create or overwrite an object of any size in bounded memory.

        Readers see the old object until all pieces are durable. An error of the pieces themselves is
        passed on, and nothing has changed.
        """

    def put_headed(
        self, key: str, head_bytes: int, pieces: Iterator[Sequence[Bytes]], head: Callable[[], Bytes]
    ) -> ObjectInfo:
        """The same for an object whose first bytes are known last: `head` is asked once all pieces came.

        Before that there is nothing to be seen of it; an error of `head` is one of the pieces.
        """

    def get(self, key: str, start: int = 0, length: int | None = None) -> bytes:
        """`length` bytes from `start` on, or all to the end. Raises ObjectMissing.

        A range that does not lie within the object is an error.
        """

    def head(self, key: str) -> ObjectInfo:
        """Raises ObjectMissing."""

    def metadata(self, key: str) -> Mapping[str, str]:
        """What `put_new` was given. Raises ObjectMissing."""

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        """Every object whose key begins with the characters of `prefix`, sorted by the keys' UTF-8."""

    def delete(self, key: str) -> None:
        """On return there is no such object; that there was none is fine."""

    def proves(self, info: ObjectInfo, md5_hex: str) -> bool:
        """Whether the store itself vouches that this very object's content has this MD5.

        False means that it cannot tell: only reading the object back can.
        """

    def close(self) -> None: ...


def check_key(key: str) -> None:
    """Refuse keys that not every store can keep apart, before they reach one."""
    names = key.split("/")
    if not key or any(name in ("", ".", "..") for name in names):
        raise StoreRefused("a key is names with one slash between two, none of them '.' or '..'", path=key)
    # Some stores take a backslash for a slash.
    if not key.isprintable() or "\\" in key or len(key.encode()) > KEY_BYTES_MAX:
        raise StoreRefused(
            f"a key is printable text without backslashes, of at most {KEY_BYTES_MAX} bytes", path=repr(key)
        )


def directory_of(prefix: str) -> str:
    """What lies before the last slash of a prefix: whole names, which every store can look below."""
    directory = prefix.rpartition("/")[0]
    if directory:
        check_key(directory)
    return directory


def check_range(key: str, start: int, length: int | None) -> None:
    """Refuse what can be no range of an object, however large it is."""
    if start < 0 or (length is not None and length < 0) or start + (length or 0) >= 1 << 63:
        raise StoreError(f"{start} and {length} are no range", path=key)


def check_metadata(metadata: Mapping[str, str]) -> None:
    """Refuse metadata that a store would change on the way: it travels in HTTP headers."""
    for name, value in metadata.items():
        if not _is_metadata_name(name) or not (
            value.isascii() and value.isprintable() and value == value.strip()
        ):
            raise StoreRefused(f"metadata {name!r}: {value!r} cannot be kept unchanged")
    if sum(len(name) + len(value) for name, value in metadata.items()) > METADATA_BYTES_MAX:
        raise StoreRefused(f"metadata is larger than {METADATA_BYTES_MAX} bytes")


def _is_metadata_name(name: str) -> bool:
    return bool(name) and name.isascii() and name == name.lower() and name.replace("-", "").isalnum()
