"""Record batches put together by hand from the specification, and a way to tell lies with a right CRC.

Each golden stands as its fields, one a line. Their CRCs were calculated with tests/golden/crc32c_bitwise.py,
and `with_crc` uses that too: no byte here is from the code under test. Hypothesis chooses
`any_records`.
"""

from __future__ import annotations

import struct

from hypothesis import strategies as st

from barbicel.codecs.kafka.new_batch import NewRecord
from tests.golden.crc32c_bitwise import crc32c

__all__ = ["APPEND_TIME", "COMMIT", "PLAIN", "RECORDS_AT", "any_records", "batch_of", "times", "with_crc"]

RECORDS_AT = 61
CRC_AT, ATTRIBUTES_AT = 17, 21

# Offset 5: at 1000, no key, value "a". Offset 6: at 997, key "k", no value, header "h" without a value.
PLAIN = bytes.fromhex(
    "0000000000000005"  # baseOffset 5
    "00000044"  # batchLength 68
    "00000007"  # partitionLeaderEpoch 7
    "02"  # magic
    "9b9528b0"  # crc
    "0000"  # attributes
    "00000001"  # lastOffsetDelta
    "00000000000003e8"  # baseTimestamp 1000
    "00000000000003e8"  # maxTimestamp 1000
    "ffffffffffffffff"  # producerId -1
    "ffff"  # producerEpoch -1
    "ffffffff"  # baseSequence -1
    "00000002"  # recordsCount
    "0e 00 00 00 01 0261 00"  # length 7, attributes, timestamp +0, offset +0, null, 1 byte "a", no headers
    "14 00 05 02 026b 01 02 0268 01"  # length 10, attributes, -3, +1, "k", null, 1 header: "h", null
)

# LogAppendTime and transactional. The second record: 300 ms later, a value of 100 bytes, so 2-byte varints.
APPEND_TIME = bytes.fromhex(
    "0000000000000000"  # baseOffset
    "000000a7"  # batchLength 167
    "ffffffff"  # partitionLeaderEpoch -1
    "02"  # magic
    "9f63c4d7"  # crc
    "0018"  # attributes: LogAppendTime, transactional
    "00000001"  # lastOffsetDelta
    "00000000000003e8"  # baseTimestamp 1000
    "0000000000000514"  # maxTimestamp 1300
    "0000000000000007"  # producerId 7
    "0001"  # producerEpoch 1
    "7fffffff"  # baseSequence 2^31 - 1
    "00000002"  # recordsCount
    "0e 00 00 00 01 0261 00"  # as above
    "d801 00 d804 02 01 c801"  # length 108, attributes, timestamp +300, offset +1, null, 100 bytes
    + "76" * 100  # "v"
    + "00"  # no headers
)

# The marker that commits producer 42's transaction, by the coordinator's epoch 9.
COMMIT = bytes.fromhex(
    "0000000000000064"  # baseOffset 100
    "00000042"  # batchLength 66
    "00000002"  # partitionLeaderEpoch 2
    "02"  # magic
    "2f182b27"  # crc
    "0030"  # attributes: transactional, control
    "00000000"  # lastOffsetDelta
    "00000000000003e8"  # baseTimestamp 1000
    "00000000000003e8"  # maxTimestamp 1000
    "000000000000002a"  # producerId 42
    "0003"  # producerEpoch 3
    "ffffffff"  # baseSequence -1
    "00000001"  # recordsCount
    "20 00 00 00 08 0000 0001 0c 0000 00000009 00"  # key: version 0, commit; value: version 0, epoch 9
)


def with_crc(batch: bytes) -> bytes:
    """The batch with its CRC set right, whatever else is wrong with it."""
    crc = struct.pack(">I", crc32c(batch[ATTRIBUTES_AT:]))
    return batch[:CRC_AT] + crc + batch[ATTRIBUTES_AT:]


def batch_of(records: bytes, *, count: int, attributes: int = 0, base_timestamp: int = 1000) -> bytes:
    """A batch as a client sends it, of these bytes as its records, whatever they are."""
    head = struct.pack(">qiib", 0, 49 + len(records), -1, 2)
    fields = struct.pack(">hiqqqhii", attributes, count - 1, base_timestamp, 1000, -1, -1, -1, count)
    return with_crc(head + bytes(4) + fields + records)


blobs = st.none() | st.binary(max_size=20) | st.binary(min_size=60, max_size=150)
times = st.integers(0, 2**45) | st.just(-1) | st.integers(1_700_000_000_000, 1_700_000_000_200)
header_keys = st.text(max_size=5).map(str.encode) | st.just(b"kestrel-expiry-ms")
any_records = st.lists(
    st.builds(NewRecord, times, blobs, blobs, st.lists(st.tuples(header_keys, blobs), max_size=3).map(tuple)),
    min_size=1,
    max_size=80,
)
