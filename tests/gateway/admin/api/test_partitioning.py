"""A key goes where Kafka's own clients put it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2 as kafkas_murmur2

from barbicel.gateway.admin.api.partitioning import murmur2, partition_of


@given(st.binary(max_size=100))
def test_the_hash_is_kafkas(key: bytes) -> None:
    assert murmur2(key) == kafkas_murmur2(key) & 0xFFFFFFFF


def test_the_partitions_are_kafkas() -> None:
    # From Kafka's own test of its hash, which has signed numbers.
    assert murmur2(b"21") == -973932308 & 0xFFFFFFFF
    assert murmur2(b"a-little-bit-long-string") == -985981536 & 0xFFFFFFFF
    assert {partition_of(b"%d" % number, 3) for number in range(100)} == {0, 1, 2}
