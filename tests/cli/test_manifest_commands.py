"""`barbicel manifest inspect` and `verify`: what they show, and an exit code for whatever is wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from barbicel.errors import CorruptObject
from tests.cli.support import document, flip, run, snapshot, words
from tests.gateway.broker.tiering.gated_store import embedded_broker, values
from tests.tier.segments import flipped

SENT = values(100)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Two segments of one topic, in the store alone."""
    with embedded_broker(tmp_path) as broker:
        broker.create("orders")
        broker.produce(SENT, "orders")
        assert broker.flush().problems == []
        broker.until(lambda: broker.local_start("orders") == len(SENT))
    return tmp_path / "data"


def objects(data: Path, ending: str) -> list[Path]:
    return sorted((data / "object-store").rglob(f"*{ending}"))


def stream_of(data: Path) -> Path:
    (stream,) = (data / "tier").iterdir()
    return stream


# --- inspect ----------------------------------------------------------------------------------------------


def test_every_record_is_shown_with_its_fields(data: Path) -> None:
    before = snapshot(data / "tier")
    shown = run("manifest", "inspect", "orders-0", "--data", data)
    assert shown.exit_code == 0
    for kind in ("SegmentOpened", "SealSegment", "UploadStarted", "SegmentDescribed", "UploadDone"):
        assert shown.stdout.count(f"  {kind} ") == 2
    assert "LocalEvicted" in shown.stdout
    assert snapshot(data / "tier") == before


@pytest.mark.parametrize("options", [[], ["--local"], ["--from-store"]], ids=str)
def test_each_line_of_json_is_a_document(data: Path, options: list[str]) -> None:
    shown = run("manifest", "inspect", "orders", "--data", data, "--json", *options)
    assert shown.exit_code == 0
    rows: list[dict[str, Any]] = [json.loads(line) for line in shown.stdout.splitlines()]
    assert {row["stream"] for row in rows} == {stream_of(data).name}
    assert [row["number"] for row in rows] == list(range(len(rows)))
    done = [row for row in rows if row["type"] == "UploadDone"]
    assert [row["segment"] for row in done] == [row["logical_offset"] for row in done]
    assert all(row["fields"]["key"].endswith(".kfs") for row in done)
    assert all(row["divergence"] is None for row in rows)


def test_a_stream_has_three_names(data: Path) -> None:
    shown = {
        run("manifest", "inspect", name, "--data", data).stdout
        for name in ("orders", "orders-0", stream_of(data).name)
    }
    assert len(shown) == 1


def test_a_topic_with_a_long_name_is_found_by_it(tmp_path: Path) -> None:
    name = "n" * 249
    with embedded_broker(tmp_path) as broker:
        broker.create(name)
        broker.produce(SENT[:1], name)
        broker.flush()
    for wanted in (name, f"{name}-0"):
        assert run("manifest", "inspect", wanted, "--data", tmp_path / "data").exit_code == 0
    assert run("manifest", "inspect", f"{name}-1", "--data", tmp_path / "data").exit_code == 2


def test_an_object_that_is_gone_is_shown_beside_its_record(data: Path) -> None:
    objects(data, ".kfs")[0].unlink()
    shown = run("manifest", "inspect", "orders", "--data", data)
    assert shown.exit_code == 1
    assert "  <-- " in shown.stdout
    assert run("manifest", "inspect", "orders", "--data", data, "--local").exit_code == 0


def test_a_damaged_chunk_is_told_and_the_others_are_shown(data: Path) -> None:
    first = sorted(stream_of(data).glob("*.mlog"))[0]
    flip(first, 100)
    shown = run("manifest", "inspect", "orders", "--data", data)
    assert shown.exit_code == 3
    assert "cannot be read" in shown.stdout
    as_json = run("manifest", "inspect", "orders", "--data", data, "--json")
    assert as_json.exit_code == 3
    assert any("error" in json.loads(line) for line in as_json.stdout.splitlines())
    # The store has a sound one.
    assert run("manifest", "inspect", "orders", "--data", data, "--from-store").exit_code == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ["inspect"],
        ["inspect", "orders", "--local", "--from-store"],
        ["inspect", "payments"],
        ["inspect", "orders-1"],
        ["inspect", "orders", "--wrong"],
        ["verify", "payments"],
        ["verify", "--wrong"],
        ["verify", "orders", "another"],
    ],
    ids=" ".join,
)
def test_wrong_usage(data: Path, arguments: list[str]) -> None:
    answer = run("manifest", *arguments, "--data", data)
    assert (answer.exit_code, answer.stdout) == (2, "")


# --- verify -----------------------------------------------------------------------------------------------


def test_sound_manifests(data: Path) -> None:
    before = snapshot(data / "tier")
    for arguments in ([], ["orders"], ["orders-0"], ["--local"]):
        answer = run("manifest", "verify", *arguments, "--data", data)
        assert answer.exit_code == 0
        assert "1 manifest sound." in answer.stdout
    found = document(run("manifest", "verify", "--data", data, "--json"))
    assert list(found["streams"]) == [stream_of(data).name]
    assert all(one["severity"] == "note" for one in found["streams"][stream_of(data).name])
    assert snapshot(data / "tier") == before


def test_a_directory_without_manifests_is_sound(tmp_path: Path) -> None:
    with embedded_broker(tmp_path):
        pass
    answer = run("manifest", "verify", "--data", tmp_path / "data")
    assert (answer.exit_code, words(answer)) == (0, "0 manifests sound.")


@pytest.mark.parametrize("ending", [".kfs", ".index"])
def test_a_missing_object_is_damage(data: Path, ending: str) -> None:
    objects(data, ending)[0].unlink()
    answer = run("manifest", "verify", "--data", data)
    assert answer.exit_code == 3
    assert "missing" in answer.stdout
    assert run("manifest", "verify", "--data", data, "--local").exit_code == 0
    (found,) = document(run("manifest", "verify", "--data", data, "--json"))["streams"].values()
    assert "damage" in {one["severity"] for one in found}


def test_a_damaged_manifest_is_damage(data: Path) -> None:
    flip(sorted(stream_of(data).glob("*.mlog"))[0], 100)
    answer = run("manifest", "verify", "--data", data)
    assert answer.exit_code == 3
    assert "Damaged" in answer.stdout
    assert run("manifest", "verify", "--data", data, "--local").exit_code == 3


def test_what_a_crash_left_is_mended_by_itself(data: Path) -> None:
    (stream_of(data) / "snapshot_9.bin.tmp").write_bytes(b"half")
    answer = run("manifest", "verify", "--data", data)
    assert answer.exit_code == 1
    assert "Mended by itself" in answer.stdout


def test_damage_inside_of_an_object_is_told_once_somebody_has_read_it(tmp_path: Path, data: Path) -> None:
    path = objects(data, ".kfs")[0]
    changed = path.stat()
    with path.open("r+b") as file:
        damaged = flipped(path.read_bytes(), changed.st_size // 2)
        file.write(damaged)
    with embedded_broker(tmp_path) as broker:
        partition = broker.gateway.broker.topics.partition("orders", 0)
        assert partition is not None
        with pytest.raises(CorruptObject):
            _read_all(partition.stored)
    answer = run("manifest", "verify", "--data", data, "--local")
    assert answer.exit_code == 3
    assert "somebody read it, and it was damaged" in words(answer)
    status = run("tier", "status", "--data", data, "--json")
    assert status.exit_code == 3
    assert document(status)["partitions"][0]["needing_repair"] == 1


def _read_all(stored: Any) -> None:
    for offset in range(len(SENT)):
        stored.read(offset, len(SENT), 1, at_least_one=True)


def test_a_store_that_is_not_there_cannot_be_looked_into(data: Path, tmp_path: Path) -> None:
    config = tmp_path / "barbicel.toml"
    config.write_text(f'tier.store = "{tmp_path}/nowhere"\n')
    for verb in (["verify"], ["inspect", "orders"]):
        answer = run("manifest", *verb, "--data", data, "--config", config)
        assert answer.exit_code == 2
        assert "nowhere" in answer.stderr
    assert not (tmp_path / "nowhere").exists()
    assert run("manifest", "verify", "--data", data, "--config", config, "--local").exit_code == 0


def test_beside_a_running_server_nothing_is_disturbed(data: Path, tmp_path: Path) -> None:
    with embedded_broker(tmp_path) as broker:
        broker.produce(SENT, "orders")
        for command in (["inspect", "orders"], ["inspect", "orders", "--from-store"]):
            assert run("manifest", *command, "--data", data).exit_code == 0
        # 1 while there are records that the server has not committed yet.
        verified = run("manifest", "verify", "--data", data)
        assert (verified.exit_code in (0, 1), "Damaged" in verified.stdout) == (True, False)
        assert broker.flush().problems == []
        assert broker.read(200, "orders") == SENT + SENT
