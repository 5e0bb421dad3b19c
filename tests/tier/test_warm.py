"""Warm artifacts: what compressing changes, what a crash leaves, what damage does."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from random import Random

import pytest

from barbicel.codecs.kafka.compression import Codec
from barbicel.codecs.kafka.new_batch import NewRecord, build_batch
from barbicel.codecs.kafka.record_batch import CODEC_BITS, decode_batch
from barbicel.codecs.kafka.records import decode_records
from barbicel.disk import RealDisk
from barbicel.errors import CorruptFile, DiskError
from barbicel.tier.packing import pieces, survey
from barbicel.tier.warm import (
    list_warm,
    open_warm,
    read_warm,
    recompress,
    remove_warm,
    sweep_warm,
    warm_path,
    write_warm,
)
from tests.codecs.kafka.golden_batches import COMMIT, PLAIN
from tests.support.fault_disk import Call, Fate, FaultDisk, Operation
from tests.tier.segments import T, batch, flipped, object_bytes

CODECS = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]
DIRECTORY = "/tier/orders-0"


def compressible(base_offset: int, count: int = 20) -> bytes:
    """Records whose values are alike."""
    records = [NewRecord(T + number, None, b"as like as two eggs") for number in range(count)]
    return build_batch(records, base_offset=base_offset, leader_epoch=3)


BATCHES = [compressible(0), compressible(20), batch(40, 1, 5), compressible(100, 30)]


def fault_disk() -> FaultDisk:
    disk = FaultDisk()
    disk.make_directory(DIRECTORY)
    return disk


# --- compressing ----------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", CODECS)
def test_only_codec_length_and_crc_change(codec: Codec) -> None:
    (smaller,) = recompress([BATCHES[0]], codec)
    old, new = decode_batch(memoryview(BATCHES[0])).header, decode_batch(memoryview(smaller)).header
    assert new.codec == codec
    assert len(smaller) < len(BATCHES[0])
    changed = {name for name in old._fields if getattr(old, name) != getattr(new, name)}
    assert changed == {"batch_length", "crc", "attributes"}
    assert new.attributes & ~CODEC_BITS == old.attributes
    assert list(decode_records(memoryview(smaller), max_bytes=1 << 20)) == list(
        decode_records(memoryview(BATCHES[0]), max_bytes=1 << 20)
    )


@pytest.mark.parametrize(
    "untouched",
    [
        COMMIT,
        batch(0, 1, 5),
        batch(0, 50, 0, codec=Codec.GZIP),
        batch(0, 50, 0, codec=Codec.LZ4),
        batch(0, 1, 5000),
    ],
    ids=["control", "tiny", "gzip", "lz4", "random"],
)
def test_what_stays_as_it_is(untouched: bytes) -> None:
    assert list(recompress([untouched], Codec.ZSTD)) == [untouched]


def test_no_codec_changes_nothing() -> None:
    assert list(recompress(BATCHES, Codec.NONE)) == BATCHES


@pytest.mark.parametrize("position", [16, 18, 22, 60, 100])
def test_damaged_batch_gets_no_good_crc(position: int) -> None:
    with pytest.raises(CorruptFile):
        list(recompress([flipped(BATCHES[0], position)], Codec.ZSTD))


# --- the file -------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", [Codec.NONE, *CODECS])
def test_artifact_is_a_whole_segment(tmp_path: Path, codec: Codec) -> None:
    disk, directory = RealDisk(), os.fspath(tmp_path)
    artifact = write_warm(disk, directory, iter(BATCHES), codec, T)
    assert artifact.path == warm_path(directory, 0)
    content = Path(artifact.path).read_bytes()
    assert content == object_bytes([bytes(item) for item in recompress(BATCHES, codec)])[0]
    assert open_warm(disk, artifact.path) == artifact
    assert b"".join(pieces(artifact.packed, read_warm(disk, artifact))) == content
    assert list_warm(disk, directory) == {0: artifact.path}
    remove_warm(disk, artifact.path)
    remove_warm(disk, artifact.path)
    assert list_warm(disk, directory) == {}


def test_artifact_is_named_for_the_segment_even_if_its_first_offsets_are_lost(tmp_path: Path) -> None:
    artifact = write_warm(RealDisk(), os.fspath(tmp_path), BATCHES[1:], Codec.ZSTD, T, base_offset=7)
    assert list_warm(RealDisk(), os.fspath(tmp_path)) == {7: artifact.path}
    assert artifact.packed.base_offset == 20


def test_file_that_changed_is_not_uploaded(tmp_path: Path) -> None:
    disk = RealDisk()
    artifact = write_warm(disk, os.fspath(tmp_path), BATCHES, Codec.NONE, T)
    path = Path(artifact.path)
    path.write_bytes(flipped(path.read_bytes(), 150))
    with pytest.raises(CorruptFile):
        list(pieces(artifact.packed, read_warm(disk, artifact)))
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(CorruptFile):
        list(pieces(artifact.packed, read_warm(disk, artifact)))


def test_every_flipped_byte_and_every_cut_is_noticed(tmp_path: Path) -> None:
    disk, batches = RealDisk(), [PLAIN, batch(7, 2)]
    artifact = write_warm(disk, os.fspath(tmp_path), batches, Codec.NONE, T)
    path = Path(artifact.path)
    content = path.read_bytes()
    for position in range(len(content)):
        path.write_bytes(flipped(content, position, 0x10))
        if 20 <= position < 28:  # the time of its creation, which nothing repeats
            open_warm(disk, artifact.path)
            continue
        with pytest.raises(CorruptFile) as caught:
            open_warm(disk, artifact.path)
        assert caught.value.path == artifact.path
        path.write_bytes(content[:position])
        with pytest.raises(CorruptFile):
            open_warm(disk, artifact.path)


# --- faults ---------------------------------------------------------------------------------------


FAILING: list[tuple[Operation, int]] = [("create", 0), ("write", 0), ("write", 3), ("fdatasync", 0)]


@pytest.mark.parametrize(("operation", "after"), FAILING)
def test_failed_write_leaves_nothing(operation: Operation, after: int) -> None:
    disk = fault_disk()
    disk.fail(operation, errno.ENOSPC, after=after)
    with pytest.raises(DiskError):
        write_warm(disk, DIRECTORY, BATCHES, Codec.ZSTD, T)
    assert disk.names(DIRECTORY) == []


def test_damage_on_the_way_leaves_nothing() -> None:
    disk = fault_disk()
    with pytest.raises(CorruptFile):
        write_warm(disk, DIRECTORY, [BATCHES[0], flipped(BATCHES[1], 100)], Codec.ZSTD, T)
    assert disk.names(DIRECTORY) == []


@pytest.mark.parametrize("fate", list(Fate))
def test_power_cut_at_every_call_leaves_a_whole_artifact_or_none(fate: Fate) -> None:
    disk, random, whole = fault_disk(), Random(5), []

    def cut(call: Call) -> None:
        found = disk.crash(fate, random)
        sweep_warm(found, DIRECTORY)
        for path in list_warm(found, DIRECTORY).values():
            whole.append(open_warm(found, path).packed)
        assert not [name for name in found.names(DIRECTORY) if name.endswith(".new")]
        again = write_warm(found, DIRECTORY, BATCHES, Codec.ZSTD, T)
        assert open_warm(found, again.path) == again

    disk.observer = cut
    artifact = write_warm(disk, DIRECTORY, BATCHES, Codec.ZSTD, T)
    disk.observer = None
    assert all(packed == artifact.packed for packed in whole)
    found = disk.crash(fate, random)
    assert open_warm(found, artifact.path) == artifact


def test_temporary_of_a_crash_is_in_nobodys_way() -> None:
    disk = fault_disk()
    disk.put(warm_path(DIRECTORY, 0) + ".new", b"left over")
    disk.put(f"{DIRECTORY}/00000000000000000003.mlog", b"another's")
    assert list_warm(disk, DIRECTORY) == {}
    write_warm(disk, DIRECTORY, BATCHES, Codec.NONE, T)
    assert survey(BATCHES, T) == open_warm(disk, warm_path(DIRECTORY, 0)).packed
    disk.put(warm_path(DIRECTORY, 9) + ".new", b"left over")
    sweep_warm(disk, DIRECTORY)
    assert sorted(disk.names(DIRECTORY)) == ["00000000000000000003.mlog", "segment-00000000000000000000.kfs"]
