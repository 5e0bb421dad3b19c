"""A digest of rows that does not depend on their order, so that every task can compute its part of it.

A row becomes bytes in which no two rows are alike (each field with its length, null apart from empty), then
its SHA-256. The digest of many rows is the sum of theirs, as eight numbers of 32 bits each added up modulo
2^64: unlike with xor, a row that is there twice does not go away. It tells accidents apart, not an adversary.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column

__all__ = ["WORDS", "add_digests", "digest_words", "headers_field", "render_digest", "row_digest"]

WORDS = 8
_LENGTH_DIGITS = 16


def row_digest(fields: Sequence[Column]) -> Column:
    """The SHA-256 of a row, as bytes. Fields are binary."""
    from pyspark.sql import functions as f

    return f.unhex(f.sha2(reduce(_joined, map(_field, fields)), 256))


def headers_field(headers: Column) -> Column:
    """The headers of a record as one binary field; none at all is the same as an empty list."""
    from pyspark.sql import functions as f

    def joined(so_far: Column, header: Column) -> Column:
        return f.concat(so_far, _field(header["key"].cast("binary")), _field(header["value"]))

    return f.aggregate(f.coalesce(headers, f.array()), f.lit(b""), joined)


def _field(value: Column) -> Column:
    from pyspark.sql import functions as f

    length = f.lpad(f.hex(f.octet_length(value)), _LENGTH_DIGITS, "0")
    return f.coalesce(f.concat(f.concat(f.lit("+"), length).cast("binary"), value), f.lit(b"-"))


def _joined(left: Column, right: Column) -> Column:
    from pyspark.sql import functions as f

    return f.concat(left, right)


def digest_words(digests: pa.Array) -> NDArray[np.uint64]:
    """An Arrow column of `row_digest`s, a row of eight numbers for each."""
    joined = b"".join(digests.to_pylist())
    return np.frombuffer(joined, dtype=">u4").reshape(-1, WORDS).astype(np.uint64)


def add_digests(sums: Iterable[Sequence[int]]) -> tuple[int, ...]:
    """Sums of parts as the sum of all."""
    total = [0] * WORDS
    for words in sums:
        total = [(left + right) % (1 << 64) for left, right in zip(total, words, strict=True)]
    return tuple(total)


def render_digest(words: Sequence[int]) -> str:
    """128 hex digits."""
    return "".join(f"{word:016x}" for word in words)
