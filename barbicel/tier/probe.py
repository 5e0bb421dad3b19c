"""Whether a store keeps the conditions that the tier is built on.

Some stores that speak S3 ignore If-None-Match or If-Match: two servers could then claim one namespace, each
sure that it is alone. So both are tried before anything is written, on an object of the probe's own.
"""

from __future__ import annotations

from uuid import uuid4

from barbicel.errors import ObjectChanged, ObjectExists, StoreRefused
from barbicel.tier.object_store import ObjectInfo, ObjectStore

__all__ = ["probe"]

FIRST, SECOND, THIRD = b"first", b"second", b"third"


def probe(store: ObjectStore, namespace: str) -> None:
    """Raises StoreRefused saying what is not enforced, or any StoreError of the store itself.

    Leaves nothing behind, unless the store goes away in between.
    """
    key = f"{namespace}/probe/{uuid4().hex}"
    created = store.put_new(key, [FIRST])
    try:
        _check_creates_once(store, key)
        _check_replaces_what_is_meant(store, created)
        _check_reads(store, key)
    finally:
        store.delete(key)


def _check_creates_once(store: ObjectStore, key: str) -> None:
    try:
        store.put_new(key, [SECOND])
    except ObjectExists:
        return
    raise _refusal(store, "creates an object that is there already (it ignores If-None-Match)")


def _check_replaces_what_is_meant(store: ObjectStore, created: ObjectInfo) -> None:
    replaced = store.replace(created.key, [SECOND], created.etag)
    try:
        store.replace(created.key, [THIRD], created.etag)
    except ObjectChanged:
        pass
    else:
        raise _refusal(store, "replaces an object that another writer has changed (it ignores If-Match)")
    if replaced.etag == created.etag:
        raise _refusal(store, "has one etag for two contents")


def _check_reads(store: ObjectStore, key: str) -> None:
    if store.get(key) != SECOND:
        raise _refusal(store, "does not answer with what was written last")
    if key not in [info.key for info in store.list(key)]:
        raise _refusal(store, "does not list an object that was written before")


def _refusal(store: ObjectStore, what: str) -> StoreRefused:
    return StoreRefused(
        f"this store {what}", path=store.url, hint="the tier needs a store that keeps conditions"
    )
