"""S3 where it fails: lost answers, broken bodies, refusals. The rest is in test_object_store.py."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count

import pytest

from barbicel.disk import Bytes, RealDisk
from barbicel.errors import ObjectChanged, ObjectExists, ObjectMissing, StoreError, StoreRefused
from barbicel.tier.object_store import ObjectStore
from barbicel.tier.offload import UploadStopped
from barbicel.tier.stores import open_store
from tests.support.fault_proxy import Fault, FaultProxy
from tests.support.object_store_server import ObjectStoreServer

_prefixes = count()
PART_BYTES = 5 << 20
DEADLINE_S = 30.0
POLL_S = 0.01
QUICK = {"part_bytes": str(PART_BYTES), "stall_timeout_ms": "2000", "retry_ms": "6000"}


@pytest.fixture
def proxy(s3_server: ObjectStoreServer) -> Iterator[FaultProxy]:
    with FaultProxy(s3_server.port) as proxy:
        yield proxy


@pytest.fixture
def url() -> str:
    return f"s3://bucket/faults/{next(_prefixes)}"


@pytest.fixture
def store(s3_server: ObjectStoreServer, proxy: FaultProxy, url: str) -> ObjectStore:
    """Through the proxy."""
    return open_store(
        url, disk=RealDisk(), options={**s3_server.options, **QUICK, "endpoint": proxy.endpoint}
    )


@pytest.fixture
def direct(s3_server: ObjectStoreServer, url: str) -> ObjectStore:
    """The same objects, without the proxy."""
    return open_store(url, disk=RealDisk(), options=s3_server.options)


def sent(proxy: FaultProxy, method: str) -> int:
    return sum(request.method == method for request in proxy.requests)


# A put that was done, whose writer was told otherwise

LOST = [
    (Fault.DROP_ANSWER, 1),
    (Fault.DROP_ANSWER, -1),
    (Fault.DONE_BUT_UNAVAILABLE, 1),
    (Fault.HANG, 1),
    (Fault.HANG, -1),
]


@pytest.mark.parametrize(("fault", "times"), [*LOST, (Fault.DONE_BUT_UNAVAILABLE, -1)])
def test_a_create_that_was_done_has_succeeded_whatever_was_answered(
    store: ObjectStore, direct: ObjectStore, proxy: FaultProxy, fault: Fault, times: int
) -> None:
    proxy.fail(fault, method="PUT", times=times)
    info = store.put_new("key", [b"content"], {"name": "value"})
    assert (info.size, direct.get("key")) == (7, b"content")
    assert info.etag == direct.head("key").etag
    assert direct.metadata("key") == {"name": "value"}


@pytest.mark.parametrize(("fault", "times"), LOST)
def test_a_replacement_that_was_done_has_succeeded_whatever_was_answered(
    store: ObjectStore, direct: ObjectStore, proxy: FaultProxy, fault: Fault, times: int
) -> None:
    first = direct.put_new("key", [b"first"])
    proxy.fail(fault, method="PUT", times=times)
    info = store.replace("key", [b"second"], first.etag)
    assert direct.get("key") == b"second"
    assert info.etag == direct.head("key").etag


@pytest.mark.parametrize("fault", [Fault.DROP_ANSWER, Fault.DONE_BUT_UNAVAILABLE])
def test_who_loses_a_race_is_told_so_although_its_own_answer_was_lost(
    store: ObjectStore, direct: ObjectStore, proxy: FaultProxy, fault: Fault
) -> None:
    first = direct.put_new("key", [b"theirs"])
    proxy.fail(fault, method="PUT")
    with pytest.raises(ObjectExists):
        store.put_new("key", [b"ours"])
    second = direct.replace("key", [b"theirs again"], first.etag)
    proxy.fail(fault, method="PUT")
    with pytest.raises(ObjectChanged):
        store.replace("key", [b"ours"], first.etag)
    assert direct.head("key").etag == second.etag


def test_a_conflict_that_cannot_be_looked_at_is_nobodys_yet(
    store: ObjectStore, direct: ObjectStore, proxy: FaultProxy
) -> None:
    first = direct.put_new("theirs", [b"theirs"])
    proxy.fail(Fault.UNAVAILABLE, method="HEAD", times=-1)
    calls: list[Callable[[], object]] = [
        lambda: store.put_new("key", [b"ours"]),
        lambda: store.replace("theirs", [b"ours"], first.etag),
    ]
    for call in calls:
        proxy.fail(Fault.DONE_BUT_UNAVAILABLE, method="PUT")
        with pytest.raises(StoreError) as caught:
            call()
        assert type(caught.value) is StoreError
        assert caught.value.is_passing


def test_the_same_content_of_another_writer_is_not_ours(store: ObjectStore, direct: ObjectStore) -> None:
    direct.put_new("key", [b"content"])
    with pytest.raises(ObjectExists):
        store.put_new("key", [b"content"])


# A store that is away

CALLS: dict[str, Callable[[ObjectStore], object]] = {
    "put_new": lambda store: store.put_new("new", [b"x"]),
    "replace": lambda store: store.replace("key", [b"x"], '"0123"'),
    "put_large": lambda store: store.put_large("large", megabytes(12)),
    "put_large of one part": lambda store: store.put_large("large", iter([b"x"])),
    "get": lambda store: store.get("key"),
    "get a range": lambda store: store.get("key", 1, 2),
    "head": lambda store: store.head("key"),
    "metadata": lambda store: store.metadata("key"),
    "list": lambda store: list(store.list("")),
    "delete": lambda store: store.delete("key"),
}


def megabytes(size: int) -> Iterator[Bytes]:
    for number in range(size):
        yield bytes([number]) * (1 << 20)


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("fault", [Fault.UNAVAILABLE, Fault.RESET])
def test_a_store_that_is_away_is_tried_a_few_times_and_is_worth_trying_later(
    store: ObjectStore,
    direct: ObjectStore,
    proxy: FaultProxy,
    fault: Fault,
    call: Callable[[ObjectStore], object],
) -> None:
    before = direct.put_new("key", [b"content"])
    proxy.fail(fault, times=-1)
    with pytest.raises(StoreError) as caught:
        call(store)
    assert caught.value.is_passing
    assert len(proxy.requests) <= 6  # three, and three that look what is there
    assert list(direct.list("")) == [direct.head("key")]
    assert direct.head("key").etag == before.etag


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_store_that_is_away_for_a_moment_is_not_noticed(
    store: ObjectStore, direct: ObjectStore, proxy: FaultProxy, call: Callable[[ObjectStore], object]
) -> None:
    direct.put_new("key", [b"content"])
    proxy.fail(Fault.UNAVAILABLE)
    with suppress(ObjectChanged):  # what a replacement with a wrong etag is told
        call(store)


def test_nobody_listens(s3_server: ObjectStoreServer) -> None:
    with FaultProxy(s3_server.port) as closed:
        endpoint = closed.endpoint
    store = open_store("s3://bucket", disk=RealDisk(), options={**s3_server.options, "endpoint": endpoint})
    with pytest.raises(StoreError) as caught:
        store.get("key")
    assert caught.value.is_passing


# Bodies that do not come whole


@pytest.mark.parametrize("read", [(0, None), (1000, 900_000)])
@pytest.mark.parametrize("fault", [Fault.TRUNCATE, Fault.STALL, Fault.HANG, Fault.DROP_ANSWER])
def test_a_body_that_ends_early_is_an_error_and_never_short_data(
    store: ObjectStore,
    direct: ObjectStore,
    proxy: FaultProxy,
    fault: Fault,
    read: tuple[int, int | None],
) -> None:
    direct.put_new("key", megabytes_at_once())
    proxy.fail(fault, method="GET", times=-1)
    started = time.monotonic()
    with pytest.raises(StoreError) as caught:
        store.get("key", *read)
    assert caught.value.is_passing
    assert time.monotonic() - started < 15


@pytest.mark.parametrize("fault", [Fault.TRUNCATE, Fault.STALL])
def test_a_body_that_ends_early_once_is_whole_or_an_error(
    store: ObjectStore, direct: ObjectStore, proxy: FaultProxy, fault: Fault
) -> None:
    content = megabytes_at_once()
    direct.put_new("key", content)
    proxy.fail(fault, method="GET")
    try:
        assert store.get("key") == b"".join(content)
    except StoreError as error:
        assert error.is_passing
    assert store.get("key") == b"".join(content)


def megabytes_at_once() -> list[Bytes]:
    return list(megabytes(2))


def test_a_list_that_ends_early_is_an_error(
    store: ObjectStore, direct: ObjectStore, proxy: FaultProxy
) -> None:
    for number in range(5):
        direct.put_new(f"key-{number}", [b"1"])
    proxy.fail(Fault.TRUNCATE, method="GET", times=-1)
    with pytest.raises(StoreError) as caught:
        list(store.list("key-"))
    assert caught.value.is_passing


# Large objects


@pytest.mark.parametrize(
    ("method", "path", "after"),
    [("POST", "uploads", 0), ("PUT", "partNumber=2", 0), ("PUT", "partNumber", 1)],
)
def test_a_large_put_that_fails_leaves_no_parts(
    store: ObjectStore,
    direct: ObjectStore,
    proxy: FaultProxy,
    s3_server: ObjectStoreServer,
    method: str,
    path: str,
    after: int,
) -> None:
    proxy.fail(Fault.UNAVAILABLE, method=method, path=path, after=after, times=-1)
    with pytest.raises(StoreError) as caught:
        store.put_large("large", megabytes(23))
    assert caught.value.is_passing
    assert list(direct.list("")) == []
    assert s3_server.unfinished_uploads("bucket") == []


def test_a_failure_of_the_pieces_is_told_even_if_the_upload_cannot_be_given_up(
    store: ObjectStore, direct: ObjectStore, proxy: FaultProxy
) -> None:
    def pieces() -> Iterator[Bytes]:
        yield from megabytes(12)
        raise KeyError("of the pieces")

    proxy.fail(Fault.UNAVAILABLE, method="DELETE", times=-1)
    with pytest.raises(KeyError, match="of the pieces"):
        store.put_large("large", pieces())
    assert list(direct.list("")) == []


@pytest.mark.parametrize("before", [0, 3, 7, 12, 22])
def test_a_large_put_that_its_writer_stops_leaves_what_was_there_and_no_parts(
    store: ObjectStore,
    direct: ObjectStore,
    proxy: FaultProxy,
    s3_server: ObjectStoreServer,
    before: int,
) -> None:
    """And a store that is away for a moment, in the middle of it, changes nothing about that.

    Parts that are on their way when it is stopped are another matter: a server may store them all the same.
    """
    parts = (before << 20) // PART_BYTES

    def pieces() -> Iterator[Bytes]:
        yield from megabytes(before)
        deadline = time.monotonic() + DEADLINE_S
        while parts > 1 and sum("partNumber" in one.path for one in proxy.forwarded) < parts:
            assert time.monotonic() < deadline, "not all parts were stored"
            time.sleep(POLL_S)
        raise UploadStopped("by the test")

    old = direct.put_new("large", [b"old"])
    unfinished = s3_server.unfinished_uploads("bucket")
    proxy.fail(Fault.UNAVAILABLE, method="PUT", path="partNumber=2")
    with pytest.raises(UploadStopped):
        store.put_large("large", pieces())
    assert [info.etag for info in direct.list("")] == [old.etag]
    assert s3_server.unfinished_uploads("bucket") == unfinished


@pytest.mark.parametrize("fault", [Fault.DROP_ANSWER, Fault.DONE_BUT_UNAVAILABLE])
@pytest.mark.parametrize("times", [1, -1])
def test_a_large_put_that_was_done_has_succeeded_whatever_was_answered(
    store: ObjectStore, direct: ObjectStore, proxy: FaultProxy, fault: Fault, times: int
) -> None:
    content = b"".join(megabytes(12))
    proxy.fail(fault, method="POST", path="uploadId", times=times)
    info = store.put_large("large", megabytes(12))
    assert direct.get("large") == content
    assert direct.head("large").etag == info.etag
    assert store.proves(info, hashlib.md5(content).hexdigest())


def test_only_its_writer_can_vouch_for_a_large_object(store: ObjectStore, direct: ObjectStore) -> None:
    content = b"".join(megabytes(12))
    info = store.put_large("large", megabytes(12))
    assert store.proves(info, hashlib.md5(content).hexdigest())
    assert not direct.proves(info, hashlib.md5(content).hexdigest())


# Refusals


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize(
    ("url", "changed", "hint"),
    [
        ("s3://bucket", {"secret_access_key": "wrong"}, "AWS_SECRET_ACCESS_KEY"),
        ("s3://bucket", {"access_key_id": "nobody"}, "AWS_ACCESS_KEY_ID"),
        ("s3://no-such-bucket/below", {}, "create the bucket first"),
    ],
)
def test_what_has_to_be_mended_is_not_tried_again(
    s3_server: ObjectStoreServer,
    proxy: FaultProxy,
    url: str,
    changed: dict[str, str],
    hint: str,
    call: Callable[[ObjectStore], object],
) -> None:
    options = {**s3_server.options, "endpoint": proxy.endpoint, **changed}
    store = open_store(url, disk=RealDisk(), options=options)
    if "no-such" in url and call is CALLS["delete"]:
        return  # there is nothing in a bucket that is not there
    with pytest.raises(StoreRefused) as caught:
        call(store)
    assert not caught.value.is_passing
    assert len(proxy.requests) <= 3
    # The answer to HEAD has no body, so it cannot say why.
    assert hint in str(caught.value) or "HEAD" in [request.method for request in proxy.requests]


def test_who_may_only_read_is_refused_to_write(s3_server: ObjectStoreServer, direct: ObjectStore) -> None:
    direct.put_new("key", [b"content"])
    reader = open_store(
        direct.url, disk=RealDisk(), options={**s3_server.options, "access_key_id": "barbicel-reader"}
    )
    assert reader.get("key") == b"content"
    etag = reader.head("key").etag
    for call in (
        lambda: reader.put_new("new", [b"x"]),
        lambda: reader.replace("key", [b"x"], etag),
        lambda: reader.put_large("key", megabytes(12)),
        lambda: reader.delete("key"),
    ):
        with pytest.raises(StoreRefused, match="AccessDenied"):
            call()
    assert direct.get("key") == b"content"


def test_no_secret_is_in_an_error(s3_server: ObjectStoreServer) -> None:
    options = {**s3_server.options, "secret_access_key": "hunter2hunter2"}
    store = open_store("s3://bucket", disk=RealDisk(), options=options)
    with pytest.raises(StoreRefused) as caught:
        store.get("key")
    assert "hunter2" not in f"{caught.value} {caught.value!r} {caught.value.__cause__}"


def test_a_missing_object_is_told_from_a_missing_bucket(
    s3_server: ObjectStoreServer, direct: ObjectStore
) -> None:
    nowhere = open_store("s3://no-such-bucket", disk=RealDisk(), options=s3_server.options)
    for store, error in ((direct, ObjectMissing), (nowhere, StoreRefused)):
        for call in (store.get, store.head, store.metadata):
            with pytest.raises(error):
                call("none")
