"""A partition whose manifest, or whose log, on the disk is damaged, and the way back.

docs/operations.md tells the way.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

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


def test_of_a_log_that_is_gone_no_more_is_told_to_be_lost_than_is(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with embedded_broker(tmp_path) as broker:
        broker.create()
        broker.produce(SENT)
        assert broker.flush().problems == []
        broker.until(lambda: broker.local_start() == len(SENT))
        broker.produce(SENT[:1])  # this one is on the disk alone
    for path in (tmp_path / "data" / "topics").glob("t-*/0"):
        shutil.rmtree(path)
    caplog.clear()
    with embedded_broker(tmp_path) as broker:
        assert broker.read(len(SENT)) == SENT
        assert broker.local_start() == len(SENT)
    (told,) = [record.getMessage() for record in caplog.records if "had no log" in record.getMessage()]
    assert "whatever came from offset 100 on" in told
    assert "what lies below is read from the store" in told
