"""CRC-64/NVME one bit at a time: slow, obvious, and independent of the library that the product uses.

The goldens' CRCs were calculated with this and are checked with it.
"""

POLYNOMIAL_REFLECTED = 0x9A6C9329AC4BC9B5  # 0xAD93D23594C93659, its bits turned around
ALL_ONES = 0xFFFFFFFFFFFFFFFF


def crc64_nvme(data: bytes) -> int:
    """The CRC-64/NVME of data; crc64_nvme(b"123456789") is 0xAE8B14860A799888."""
    register = ALL_ONES
    for byte in data:
        register ^= byte
        for _ in range(8):
            low_bit = register & 1
            register >>= 1
            if low_bit:
                register ^= POLYNOMIAL_REFLECTED
    return register ^ ALL_ONES
