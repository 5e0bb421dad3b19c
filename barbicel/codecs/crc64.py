"""CRC-64/NVME, the checksum of the manifest log and of whole segments.

Polynomial 0xAD93D23594C93659, reflected, initial value and final XOR all ones. Imported only where tiering
is on: the library is not needed otherwise.
"""

from __future__ import annotations

from anycrc import Model

from barbicel.disk import Bytes

__all__ = ["crc64_nvme"]

_calculate = Model("CRC64-NVME").calc


def crc64_nvme(data: Bytes, previous: int = 0) -> int:
    """The CRC of data, or of everything that gave `previous` and then data. Of no bytes at all it is 0."""
    return int(_calculate(data, previous))
