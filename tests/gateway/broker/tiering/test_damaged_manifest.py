"""A partition whose manifest on the disk is damaged, and the way back that docs/operations.md tells."""

from __future__ import annotations

import shutil
from pathlib import Path

from barbicel.codecs.kafka.error_codes import ErrorCode
from barbicel.disk import RealDisk
from barbicel.gateway.broker.tiering.restore import find_namespaces, restore
from barbicel.tier.directory import DirectoryObjects
from barbicel.tier.keys import Keys
from tests.gateway.broker.tiering.gated_store import embedded_broker, values
from tests.tier.segments import flipped

SENT = values(100)


def test_the_stores_manifest_takes_its_place_and_the_log_goes_on(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with embedded_broker(tmp_path) as broker:
        broker.create()
        broker.produce(SENT)
        assert broker.flush().problems == []
        broker.until(lambda: broker.local_start() == len(SENT))
        broker.produce(SENT)  # these are on the disk alone
    (stream,) = (data / "tier").iterdir()
    newest = max(stream.glob("*.mlog"))
    newest.write_bytes(flipped(newest.read_bytes(), 200))
    with embedded_broker(tmp_path) as broker:
        assert broker.fetched(0).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    store = DirectoryObjects(str(data / "object-store"), disk=RealDisk())
    (namespace,) = find_namespaces(store)
    (found,) = restore(store, Keys(namespace), RealDisk(), str(tmp_path / "again"))
    assert found.end_offset >= len(SENT)
    shutil.move(stream, tmp_path / "damaged")
    shutil.copytree(tmp_path / "again" / "tier" / stream.name, stream)
    with embedded_broker(tmp_path) as broker:
        assert broker.read(200) == SENT + SENT
        assert broker.flush().problems == []
        broker.until(lambda: broker.local_start() == 200)
        assert broker.read(200) == SENT + SENT
