"""CRC-32C one bit at a time: slow, obvious, and independent of the library that the product uses.

The goldens' CRCs were calculated with this and are checked with it.
"""

POLYNOMIAL_REFLECTED = 0x82F63B78
ALL_ONES = 0xFFFFFFFF


def crc32c(data: bytes) -> int:
    """The CRC-32C (Castagnoli) of data; crc32c(b"123456789") is 0xE3069283."""
    register = ALL_ONES
    for byte in data:
        register ^= byte
        for _ in range(8):
            low_bit = register & 1
            register >>= 1
            if low_bit:
                register ^= POLYNOMIAL_REFLECTED
    return register ^ ALL_ONES
