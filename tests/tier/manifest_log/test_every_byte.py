"""Every byte of every file of a stream's directory: flipped, and cut off. A right answer or a clear error."""

from __future__ import annotations

import struct
from random import Random

import pytest

from barbicel.codecs.manifest_snapshot import CatalogueImage
from barbicel.errors import CorruptFile
from barbicel.tier.manifest_log.layout import chunk_path, snapshot_path
from barbicel.tier.manifest_log.verify import Severity, verify
from tests.support.fault_disk import FaultDisk
from tests.tier.manifest_log.builders import ROOT, STREAM, begun, fill, opened

# What a header says of itself and no CRC covers; every other byte of a chunk must be missed.
TAIL_OFFSET = range(32, 40)
FLAGS = 56


def copy_of(files: dict[str, bytes]) -> FaultDisk:
    disk = FaultDisk()
    for path, data in files.items():
        disk.put(path, data)
    return disk


@pytest.fixture(scope="module")
def files() -> dict[str, bytes]:
    """A snapshot within a chunk, sealed chunks on both sides of it, and an active one, trimmed."""
    disk = FaultDisk()
    stream = opened(disk)
    fill(stream, 2)
    stream.append(*begun(500))
    stream.snapshot()
    stream.append(*begun(600))
    stream.seal()
    stream.append(*begun(700))
    stream.close()
    opened(disk).close()
    return disk.files()


@pytest.fixture(scope="module")
def image(files: dict[str, bytes]) -> CatalogueImage:
    return opened(copy_of(files), read_only=True).catalogue.image()


def outcome(files: dict[str, bytes], path: str, data: bytes) -> CatalogueImage | None:
    """The catalogue, or None for a refusal that names the file; either way nothing else has changed."""
    disk = copy_of({**files, path: data})
    try:
        stream = opened(disk, read_only=True)
    except CorruptFile as error:
        assert error.path is not None
        with pytest.raises(CorruptFile):
            opened(disk)
        assert disk.files() == {**files, path: data}
        return None
    return stream.catalogue.image()


def test_every_flipped_byte(files: dict[str, bytes], image: CatalogueImage) -> None:
    random = Random(1)
    for path, data in files.items():
        is_needed = path in (chunk_path(ROOT, 2), chunk_path(ROOT, 3))
        for position in range(len(data)):
            bit = random.randrange(8)
            flipped = bytearray(data)
            flipped[position] ^= 1 << bit
            found = outcome(files, path, bytes(flipped))
            assert found in (image, None)
            if is_needed and position not in TAIL_OFFSET and (position, bit) not in ((FLAGS, 0), (FLAGS, 1)):
                assert found is None, (path, position, bit)


def test_every_flag_of_a_header(files: dict[str, bytes], image: CatalogueImage) -> None:
    for index in (2, 3):
        path = chunk_path(ROOT, index)
        for flags in range(8):
            data = files[path][:FLAGS] + struct.pack("<Q", flags) + files[path][FLAGS + 8 :]
            found = outcome(files, path, data)
            assert found in (image, None)
            assert found is None or (flags < 4 and flags != 2)
            assert found == image or flags not in (1, 3)


def test_cut_at_every_byte(files: dict[str, bytes], image: CatalogueImage) -> None:
    for path, data in files.items():
        is_needed = path in (chunk_path(ROOT, 2), chunk_path(ROOT, 3))
        for size in range(len(data)):
            found = outcome(files, path, data[:size])
            assert found == (None if is_needed else image), (path, size)


def test_after_any_flip_that_is_survived_it_can_be_gone_on(files: dict[str, bytes]) -> None:
    random = Random(2)
    for path in (chunk_path(ROOT, 3), snapshot_path(ROOT, 1)):
        for position in range(0, len(files[path]), 3):
            flipped = bytearray(files[path])
            flipped[position] ^= 1 << random.randrange(8)
            disk = copy_of({**files, path: bytes(flipped)})
            try:
                stream = opened(disk)
            except CorruptFile:
                continue
            stream.append(*begun(900))
            stream.seal()
            assert opened(disk).catalogue.image() == stream.catalogue.image()


def test_verify_sees_whatever_cannot_be_opened(files: dict[str, bytes]) -> None:
    random = Random(3)
    assert verify(ROOT, stream_id=STREAM, disk=copy_of(files)) == []
    for path, data in files.items():
        for position in range(64, len(data), 5):
            flipped = bytearray(data)
            flipped[position] ^= 1 << random.randrange(8)
            disk = copy_of({**files, path: bytes(flipped)})
            findings = verify(ROOT, stream_id=STREAM, disk=disk)
            assert {finding.place for finding in findings} == {path}
            assert {finding.severity for finding in findings} == {Severity.DAMAGE}
            assert disk.files() == {**files, path: bytes(flipped)}


def test_the_error_names_chunk_position_segment_and_offset(files: dict[str, bytes]) -> None:
    path = chunk_path(ROOT, 3)
    data = bytearray(files[path])
    data[-1] ^= 1
    with pytest.raises(CorruptFile) as caught:
        opened(copy_of({**files, path: bytes(data)}))
    assert str(caught.value) == (
        f"{path}: at byte 116: chunk 3, segment 700, logical offset 799: payload_crc64 does not match"
        " (see 'barbicel manifest verify')"
    )
