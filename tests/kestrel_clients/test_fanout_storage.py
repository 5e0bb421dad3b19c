"""A fanout child is a reader of its master's log: it costs a position, and no copy of an item."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from tests.clients.client import until
from tests.kestrel_clients.raw_client import Memcache
from tests.support.gateway import Gateway, running_gateway

# Small segments, so that there are some to drop.
SEGMENT_BYTES = 1 << 20
ITEM_BYTES, ITEMS = 10_000, 400
CHILDREN = 8
# What a child may take on the disk, whatever the items are: its position, and the events that led there.
CHILD_BYTES = 64 << 10


def write_config(directory: Path) -> Path:
    path = directory / "barbicel.toml"
    path.write_text(f"[kestrel.default]\ndefaultJournalSize = {SEGMENT_BYTES}\n")
    return path


def stored_bytes(gateway: Gateway) -> int:
    """As the disk has them: files are made larger than what is in them."""
    total = 0
    for directory, _, names in os.walk(gateway.data):
        for name in names:
            with suppress(FileNotFoundError):  # it went meanwhile
                total += os.lstat(Path(directory) / name).st_blocks * 512
    return total


def item(number: int) -> bytes:
    return b"%d " % number + os.urandom(ITEM_BYTES)


def fill(client: Memcache, queue: str, items: list[bytes]) -> None:
    for data in items:
        client.send_put(queue, data)
    assert all(client.read_stored() for _ in items)


def read_all(gateway: Gateway, queue: str, items: list[bytes]) -> None:
    with Memcache(gateway.kestrel_port) as reader:
        assert [reader.get(f"{queue}/close/open") for _ in items] == items
        assert reader.get(f"{queue}/close") is None


def test_children_share_the_log(tmp_path: Path) -> None:
    items = [item(number) for number in range(ITEMS)]
    with (
        running_gateway(tmp_path, durability="write", config=str(write_config(tmp_path))) as gateway,
        Memcache(gateway.kestrel_port) as client,
    ):
        start = stored_bytes(gateway)
        fill(client, "alone", items)
        alone = stored_bytes(gateway) - start
        assert alone > ITEMS * ITEM_BYTES

        readers = ["many", *(f"many+{number}" for number in range(CHILDREN))]
        for name in readers:
            assert client.get(name) is None
        start = stored_bytes(gateway)
        fill(client, "many", items)
        assert stored_bytes(gateway) - start < alone + CHILDREN * CHILD_BYTES
        *others, last = readers
        for name in others:
            read_all(gateway, name, items)
        # Everything is still there for the last one, and there once.
        assert stored_bytes(gateway) - start < alone + CHILDREN * CHILD_BYTES
        read_all(gateway, last, items)
        until(
            "the space is given back",
            lambda: client.get("many/t=100") or stored_bytes(gateway) - start < alone - 2 * SEGMENT_BYTES,
        )
        assert [client.stat(name, "items") for name in readers] == [0] * len(readers)
        # What nobody has read stays.
        read_all(gateway, "alone", items)
