"""The conformance suite of `ObjectStore`: what every store does, a directory and a bucket alike."""

from __future__ import annotations

import hashlib
import random
import threading
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path

import pytest

from barbicel.disk import Bytes, RealDisk
from barbicel.errors import DiskError, ObjectChanged, ObjectExists, ObjectMissing, StoreError, StoreRefused
from barbicel.tier.object_store import KEY_BYTES_MAX, METADATA_BYTES_MAX, ObjectInfo, ObjectStore
from barbicel.tier.stores import open_store
from tests.support.object_store_server import ObjectStoreServer

PART_BYTES = 5 << 20
_prefixes = count()


@pytest.fixture(params=["directory", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ObjectStore]:
    if request.param == "directory":
        opened = open_store(f"file://{tmp_path}/store", disk=RealDisk())
        opened.put_new("made", [b""])  # there is a directory now
        opened.delete("made")
    else:
        server: ObjectStoreServer = request.getfixturevalue("s3_server")
        options = {**server.options, "part_bytes": str(PART_BYTES), "parts_at_once": "2"}
        opened = open_store(f"s3://bucket/conformance/{next(_prefixes)}", disk=RealDisk(), options=options)
    yield opened
    opened.close()


def keys(store: ObjectStore, prefix: str = "") -> list[str]:
    return [info.key for info in store.list(prefix)]


# One object


def test_what_was_put_is_read_listed_and_described(store: ObjectStore) -> None:
    put = store.put_new("a/b/object.kfs", [b"con", bytearray(b"te"), memoryview(b"xnt")[1:], b""])
    assert (put.key, put.size) == ("a/b/object.kfs", 7)
    assert store.get("a/b/object.kfs") == b"content"
    head = store.head("a/b/object.kfs")
    assert head[:3] == put[:3]
    assert abs(head.modified_ms - put.modified_ms) < 60_000
    assert list(store.list("a/")) == [head]


def test_an_object_may_be_empty(store: ObjectStore) -> None:
    assert store.put_new("empty", []).size == 0
    assert store.put_large("empty.large", iter([])).size == 0
    for key in ("empty", "empty.large"):
        assert store.get(key) == store.get(key, 0, 0) == store.get(key, 0, None) == b""
        assert store.head(key).size == 0


MISSING: list[Callable[[ObjectStore], object]] = [
    lambda store: store.get("none"),
    lambda store: store.get("none", 0, 0),
    lambda store: store.get("none", 3),
    lambda store: store.head("none"),
    lambda store: store.head("there/below"),
    lambda store: store.get("there/below"),
    lambda store: store.metadata("none"),
    lambda store: store.replace("none", [b"x"], '"0123"'),
]


@pytest.mark.parametrize("call", MISSING)
def test_what_is_not_there_is_missing(store: ObjectStore, call: Callable[[ObjectStore], object]) -> None:
    store.put_new("there", [b"1"])
    with pytest.raises(ObjectMissing) as caught:
        call(store)
    assert not caught.value.is_passing
    assert keys(store) == ["there"]


def test_a_deleted_object_is_gone_and_can_be_deleted_again(store: ObjectStore) -> None:
    store.put_new("a/b/c.kfs", [b"1"], {"name": "value"})
    store.put_new("a/d.kfs", [b"1"])
    store.delete("a/b/c.kfs")
    store.delete("a/b/c.kfs")
    store.delete("never/there")
    assert keys(store) == ["a/d.kfs"]
    with pytest.raises(ObjectMissing):
        store.get("a/b/c.kfs")
    store.put_new("a/b/c.kfs", [b"2"])
    assert store.get("a/b/c.kfs") == b"2"
    assert store.metadata("a/b/c.kfs") == {}


# Ranges

CONTENT = random.Random(1).randbytes(3 << 20)
RANGES = [
    (0, None),
    (0, len(CONTENT)),
    (0, 1),
    (1 << 20, 70_000),
    (len(CONTENT) - 1, 1),
    (len(CONTENT) - 1, None),
    (len(CONTENT), None),
    (len(CONTENT), 0),
    (0, 0),
    (17, 0),
]
NO_RANGES = [
    (len(CONTENT), 1),
    (len(CONTENT) + 1, None),
    (len(CONTENT) + 1, 0),
    (len(CONTENT) + 1, 5),
    (0, len(CONTENT) + 1),
    (5, len(CONTENT)),
    (0, 1 << 62),
    (1 << 62, None),
    (1 << 62, 1 << 62),
    (1 << 80, 1 << 80),
    (-1, None),
    (-1, 5),
    (0, -1),
]


def test_a_range_is_given_exactly(store: ObjectStore) -> None:
    store.put_new("object", [CONTENT])
    for start, length in RANGES:
        end = len(CONTENT) if length is None else start + length
        found = store.get("object", start, length)
        assert type(found) is bytes
        assert found == CONTENT[start:end], (start, length)


def test_a_range_beyond_the_object_is_an_error_and_never_fewer_bytes(store: ObjectStore) -> None:
    store.put_new("object", [CONTENT])
    for start, length in NO_RANGES:
        with pytest.raises(StoreError) as caught:
            store.get("object", start, length)
        assert not caught.value.is_passing, (start, length)


# Conditions


def test_an_object_is_created_once(store: ObjectStore) -> None:
    first = store.put_new("key", [b"first"], {"by": "one"})
    with pytest.raises(ObjectExists):
        store.put_new("key", [b"second"], {"by": "two"})
    assert store.get("key") == b"first"
    assert store.head("key").etag == first.etag
    assert store.metadata("key") == {"by": "one"}


def test_a_replacement_needs_the_etag_of_what_is_there(store: ObjectStore) -> None:
    first = store.put_new("key", [b"first"])
    second = store.replace("key", [b"sec", b"ond!"], first.etag)
    assert (second.size, store.get("key")) == (7, b"second!")
    assert store.head("key")[:3] == second[:3]
    for stale in (first.etag, '"0123456789abcdef0123456789abcdef"'):
        with pytest.raises(ObjectChanged):
            store.replace("key", [b"third"], stale)
    assert store.get("key") == b"second!"
    third = store.replace("key", [b"third"], store.head("key").etag)
    assert len({first.etag, second.etag, third.etag}) == 3


def test_many_replacements_in_a_row_have_an_etag_each(store: ObjectStore) -> None:
    etags = [store.put_new("key", [b"0"]).etag]
    for number in range(1, 12):
        etags.append(store.replace("key", [b"%d" % number], etags[-1]).etag)
    assert len(set(etags)) == len(etags)


def test_an_object_that_was_overwritten_is_another_one(store: ObjectStore) -> None:
    first = store.put_new("key", [b"first"], {"name": "value"})
    second = store.put_large("key", iter([b"sec", b"ond"]))
    assert store.get("key") == b"second"
    assert store.metadata("key") == {}
    with pytest.raises(ObjectChanged):
        store.replace("key", [b"third"], first.etag)
    store.replace("key", [b"third"], second.etag)
    with pytest.raises(ObjectExists):
        store.put_new("key", [b"fourth"])


def race(writers: int, write: Callable[[int], ObjectInfo]) -> list[int]:
    """Let all write at once; the numbers of those who were told that they have."""
    barrier = threading.Barrier(writers)

    def attempt(number: int) -> bool:
        barrier.wait()
        try:
            write(number)
        except (ObjectExists, ObjectChanged):
            return False
        return True

    with ThreadPoolExecutor(writers) as pool:
        return [number for number, won in enumerate(pool.map(attempt, range(writers))) if won]


def test_of_many_who_create_one_key_exactly_one_succeeds(store: ObjectStore) -> None:
    for attempt in range(8):
        key = f"key-{attempt}"
        won = race(8, lambda number: store.put_new(key, [b"writer %d" % number]))  # noqa: B023 - used at once
        assert len(won) == 1
        assert store.get(key) == b"writer %d" % won[0]


def test_of_many_who_replace_one_etag_exactly_one_succeeds(store: ObjectStore) -> None:
    etag = store.put_new("key", [b"start"]).etag
    for attempt in range(8):
        content = b"attempt %d writer " % attempt
        won = race(8, lambda number: store.replace("key", [content, b"%d" % number], etag))  # noqa: B023 - used at once
        assert len(won) == 1
        assert store.get("key") == content + b"%d" % won[0]
        etag = store.head("key").etag


def test_readers_see_whole_objects_while_they_are_replaced(store: ObjectStore) -> None:
    contents = [bytes([number]) * (100_000 + number) for number in range(12)]
    etag = store.put_new("key", [contents[0]]).etag
    done = threading.Event()

    def read() -> int:
        seen = 0
        while not done.is_set():
            assert store.get("key") in contents
            info = store.head("key")
            assert 100_000 <= info.size <= 100_012
            seen += 1
        return seen

    with ThreadPoolExecutor(2) as pool:
        readers = [pool.submit(read) for _ in range(2)]
        for content in contents[1:]:
            etag = store.replace("key", [content], etag).etag
        done.set()
        assert all(reader.result() for reader in readers)


# Large objects


def megabytes(size: int) -> Iterator[Bytes]:
    for number in range(size):
        yield bytes([number % 251]) * (1 << 20)


@pytest.mark.parametrize("size", [1, 4, 5, 6, 10, 13])
def test_a_large_object_is_put_in_parts_of_any_number(store: ObjectStore, size: int) -> None:
    content = b"".join(megabytes(size))
    info = store.put_large("large.kfs", megabytes(size))
    assert info.size == len(content)
    assert store.head("large.kfs")[:3] == info[:3]
    assert store.get("large.kfs") == content
    middle = len(content) // 2
    assert store.get("large.kfs", middle - 3, 7) == content[middle - 3 : middle + 4]


def test_pieces_may_be_of_any_size(store: ObjectStore) -> None:
    rng = random.Random(3)
    pieces = [
        rng.randbytes(rng.choice((0, 1, 1000, 300_000, PART_BYTES, 2 * PART_BYTES + 1))) for _ in range(9)
    ]
    info = store.put_large("large", iter(pieces))
    content = b"".join(pieces)
    assert store.get("large") == content
    assert store.proves(info, hashlib.md5(content).hexdigest())


def test_memory_for_a_large_object_is_bounded(store: ObjectStore) -> None:
    tracemalloc.start()
    try:
        store.put_large("large", megabytes(100))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert store.head("large").size == 100 << 20
    assert peak < 10 * PART_BYTES


def test_pieces_that_fail_leave_what_was_there(store: ObjectStore) -> None:
    class Broken(Exception):
        pass

    def pieces(size: int) -> Iterator[Bytes]:
        yield from megabytes(size)
        raise Broken

    def groups(size: int) -> Iterator[Sequence[Bytes]]:
        return ([piece] for piece in pieces(size))

    before = store.put_new("old", [b"old"])
    for size in (0, 1, 12):
        for key in ("old", "new"):
            with pytest.raises(Broken):
                store.put_large(key, pieces(size))
            with pytest.raises(Broken):
                store.put_headed(key, 4, groups(size), lambda: b"head")
    assert store.get("old") == b"old"
    assert keys(store) == ["old"]
    assert store.head("old").etag == before.etag


# An object whose first bytes are known last


def test_the_head_of_an_object_may_come_last(store: ObjectStore) -> None:
    seen: list[int] = []

    def groups() -> Iterator[Sequence[Bytes]]:
        for number in range(13):
            seen.append(number)
            yield [bytes([number]) * 1000, memoryview(bytes([number]) * 700_000)]

    def head() -> bytes:
        assert seen == list(range(13))
        assert keys(store) == []
        return b"HEAD"

    info = store.put_headed("a/headed", 4, groups(), head)
    content = b"HEAD" + b"".join(bytes([number]) * 701_000 for number in range(13))
    assert store.get("a/headed") == content
    assert store.head("a/headed")[:3] == info[:3]
    assert store.proves(info, hashlib.md5(content).hexdigest())
    # It takes the place of another one.
    store.put_headed("a/headed", 2, iter([[b"rest"]]), lambda: b"hd")
    assert store.get("a/headed") == b"hdrest"


def test_a_head_that_fails_leaves_what_was_there(store: ObjectStore) -> None:
    """Of any kind, also that which the store has for failures of its own."""
    store.put_new("old", [b"old"])
    for error in (ZeroDivisionError(), DiskError("write", "/elsewhere", OSError(5, "no")), KeyError()):

        def head(error: Exception = error) -> bytes:
            raise error

        for key in ("old", "new"):
            with pytest.raises(type(error)):
                store.put_headed(key, 4, iter([[b"rest"]]), head)
    assert keys(store) == ["old"]
    assert store.get("old") == b"old"


# Proofs


@pytest.mark.parametrize("size", [1, 12])
def test_a_store_vouches_for_what_it_has_and_for_nothing_else(store: ObjectStore, size: int) -> None:
    content = b"".join(megabytes(size))
    right, wrong = hashlib.md5(content).hexdigest(), hashlib.md5(b"other").hexdigest()
    info = store.put_large("large", megabytes(size))
    assert store.proves(info, right)
    assert not store.proves(info, wrong)
    small = store.put_new("small", [b"content"])
    assert store.proves(small, hashlib.md5(b"content").hexdigest())
    assert not store.proves(small, right)
    again = store.replace("small", [content], small.etag)
    assert store.proves(again, right)


# Metadata

METADATA = {"cluster-id": "x" * 36, "epoch": "7", "text": 'a = 1, b: "two"; {c}'}


def test_metadata_is_kept_as_it_was_given(store: ObjectStore) -> None:
    store.put_new("with", [b"1"], METADATA)
    store.put_new("without", [b"1"])
    assert store.metadata("with") == METADATA
    assert store.metadata("without") == {}
    store.replace("with", [b"2"], store.head("with").etag)
    assert store.metadata("with") == {}


@pytest.mark.parametrize(
    "metadata",
    [
        {"Name": "x"},
        {"na me": "x"},
        {"": "x"},
        {"name": "line\nbreak"},
        {"name": "é"},
        {"name": " x"},
        {"name": "x" * METADATA_BYTES_MAX},
    ],
)
def test_metadata_that_would_be_changed_is_refused(store: ObjectStore, metadata: dict[str, str]) -> None:
    with pytest.raises(StoreRefused):
        store.put_new("key", [b"1"], metadata)
    assert keys(store) == []


# Keys

ODD_KEYS = [
    "a",
    "a/a",
    "a/a.kfs",
    "a.kfs",
    "a.kfs/b",
    "a.kfs/b.kfs",
    "a-b",
    "a0",
    "a b",
    "a%20b",
    "a%2Fb",
    "a+b",
    "a&b=c?d#e",
    "%f",
    "x%d/y%f",
    "x%+/y",
    ".hidden",
    "..hidden/...",
    ".barbicel/LOCK",
    "quote'\"<>|*",
    "é/ü.kfs",
    "日本語/キー",
    "😀",
    "~tilde~",
    "a=b,c;d:e@f$g!(h)[i]{j}^`",
    "UPPER/lower",
    "upper/LOWER",
    # The S3 server of these tests has names of 255 bytes at most; S3 itself does not care.
    "n" * 255,
    "n" * 255 + "/m.kfs",
    "n" * 239 + ".kfs/" + "é" * 127,
    "n" * 240 + ".kfs",
    "%" * 200,
]


def test_odd_keys_are_kept_apart_and_listed_as_they_are(store: ObjectStore) -> None:
    for key in ODD_KEYS:
        store.put_new(key, [key.encode()])
    for key in ODD_KEYS:
        assert store.get(key) == key.encode()
        assert store.head(key).key == key
    assert keys(store) == sorted(ODD_KEYS, key=str.encode)
    for key in ODD_KEYS:
        store.delete(key)
    assert keys(store) == []


def test_a_key_may_have_the_most_bytes_that_s3_allows(store: ObjectStore) -> None:
    room = KEY_BYTES_MAX - 40  # what a prefix in the bucket takes
    key = "/".join(["d" * 199] * 4 + ["n" * (room - 800)])
    store.put_new(key, [b"1"])
    assert (store.get(key), keys(store)) == (b"1", [key])


@pytest.mark.parametrize(
    "key",
    [
        "",
        "/",
        "/a",
        "a/",
        "a//b",
        ".",
        "..",
        "a/../b",
        "../a",
        "a/.",
        "a\\b",
        "a\0b",
        "a\nb",
        "\x7f",
        "\ud800",
        "x" * 1025,
    ],
)
def test_keys_that_not_every_store_can_keep_are_refused(store: ObjectStore, key: str) -> None:
    calls: list[Callable[[], object]] = [
        lambda: store.put_new(key, [b"1"]),
        lambda: store.replace(key, [b"1"], "etag"),
        lambda: store.put_large(key, iter([b"1"])),
        lambda: store.get(key),
        lambda: store.head(key),
        lambda: store.metadata(key),
        lambda: store.delete(key),
    ]
    for call in calls:
        with pytest.raises(StoreRefused):
            call()
    assert keys(store) == []


# Lists

LISTED = [
    "a",
    "a-b/c",
    "a/b",
    "a/b/c",
    "a/bc",
    "a/bc/d",
    "a/c/d.kfs",
    "ab",
    "b/segment-1.index",
    "b/segment-1.kfs",
]
PREFIXES = ["", "a", "a/", "a/b", "a/b/", "a/bc", "a-", "b/segment-", "b/segment-1.k", "c", "a/b/c/d", "zz/z"]


@pytest.mark.parametrize("prefix", PREFIXES)
def test_a_prefix_is_that_of_a_text(store: ObjectStore, prefix: str) -> None:
    for key in LISTED:
        store.put_new(key, [key.encode()])
    found = list(store.list(prefix))
    assert [info.key for info in found] == sorted(
        (key for key in LISTED if key.startswith(prefix)), key=str.encode
    )
    assert [info.size for info in found] == [len(info.key) for info in found]
    assert all(info == store.head(info.key) for info in found[:2])


def test_a_list_may_have_more_than_one_page(store: ObjectStore) -> None:
    wanted = [f"many/{number // 500}/{number:05d}.kfs" for number in range(2100)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda key: store.put_new(key, [b"1"]), wanted))
    assert keys(store, "many/") == keys(store) == wanted
    assert keys(store, "many/2/01") == [key for key in wanted if key.startswith("many/2/01")]
