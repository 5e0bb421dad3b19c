"""CRC-64/NVME against known values and against one that counts bits."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from barbicel.codecs.crc64 import crc64_nvme
from tests.golden.crc64_bitwise import crc64_nvme as crc64_bitwise


def test_known_values() -> None:
    assert crc64_nvme(b"123456789") == 0xAE8B14860A799888
    assert crc64_nvme(bytes(4096)) == 0x6482D367EB22B64E
    assert crc64_nvme(b"") == 0


@given(st.binary(max_size=200), st.integers(0, 200))
def test_in_two_parts_and_from_any_buffer(data: bytes, cut: int) -> None:
    whole = crc64_bitwise(data)
    assert crc64_nvme(data) == crc64_nvme(bytearray(data)) == whole
    assert crc64_nvme(memoryview(data)[cut:], crc64_nvme(data[:cut])) == whole
