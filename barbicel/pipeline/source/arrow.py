"""Columns → Arrow record batches in the schema of Spark's Kafka connector. Nothing is copied that is wide."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from barbicel.codecs.kafka.columns import BinaryColumn, Columns, Wanted
from barbicel.pipeline.source.options import BadOption
from barbicel.pipeline.source.splits import Split

__all__ = ["KAFKA_SCHEMA", "KAFKA_SCHEMA_WITH_HEADERS", "ArrowRows", "RecordBatch"]

RecordBatch: TypeAlias = pa.RecordBatch

_HEADER = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
KAFKA_SCHEMA = StructType(
    [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("timestampType", IntegerType()),
    ]
)
KAFKA_SCHEMA_WITH_HEADERS = StructType([*KAFKA_SCHEMA.fields, StructField("headers", ArrayType(_HEADER))])

# Beyond these a time in milliseconds has no 64 bits of microseconds; such a cell is null.
MAX_TIME_MS = (2**63 - 1) // 1000
ASCII_END = 128
# Half of a pair, as UTF-8 must not have it: Java replaces what there is of it at once, Python byte by byte.
_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")
_REPLACED = "\ufffd".encode()


class ArrowRows:
    """Makes record batches of those columns that a schema has."""

    def __init__(self, schema: StructType) -> None:
        known = KAFKA_SCHEMA_WITH_HEADERS
        for field in schema.fields:
            if field.name not in known.names:
                raise BadOption(
                    f"there is no column {field.name!r}", hint=f"there are {', '.join(known.names)}"
                )
            if field.dataType != known[field.name].dataType:
                shown = known[field.name].dataType.simpleString()
                raise BadOption(f"the column {field.name!r} is of type {shown}")
        self._schema: pa.Schema = to_arrow_schema(schema, timezone="UTC")
        self._names: Sequence[str] = schema.names

    def wanted(self, split: Split) -> Wanted:
        names = self._names
        return Wanted(
            split.from_offset, split.end_offset, "key" in names, "value" in names, "headers" in names
        )

    def batch(self, columns: Columns, split: Split) -> pa.RecordBatch:
        arrays = [_BUILDERS[name](columns, split, self._schema.field(name).type) for name in self._names]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


def _binary(column: BinaryColumn | None, kind: pa.DataType) -> pa.Array:
    assert column is not None
    validity = None
    if not column.is_there.all():
        validity = pa.py_buffer(np.packbits(column.is_there, bitorder="little"))
    buffers = [validity, pa.py_buffer(column.bounds), pa.py_buffer(column.data)]
    return pa.Array.from_buffers(kind, len(column.is_there), buffers)


def _text(column: BinaryColumn, kind: pa.DataType) -> pa.Array:
    """Bytes that are no UTF-8 become replacement characters, as in Java's clients."""
    if column.data.size and column.data.max() >= ASCII_END:
        cells = _binary(column, pa.binary()).to_pylist()
        return pa.array([_SURROGATE.sub(_REPLACED, cell).decode("utf-8", "replace") for cell in cells], kind)
    return _binary(column, kind)


def _key(columns: Columns, split: Split, kind: pa.DataType) -> pa.Array:
    return _binary(columns.keys, kind)


def _value(columns: Columns, split: Split, kind: pa.DataType) -> pa.Array:
    return _binary(columns.values, kind)


def _topic(columns: Columns, split: Split, kind: pa.DataType) -> pa.Array:
    return pa.repeat(pa.scalar(split.topic, kind), columns.rows)


def _partition(columns: Columns, split: Split, kind: pa.DataType) -> pa.Array:
    return pa.array(np.full(columns.rows, split.partition, np.int32), kind)


def _offset(columns: Columns, split: Split, kind: pa.DataType) -> pa.Array:
    return _fixed(columns.offsets, kind)


def _timestamp(columns: Columns, split: Split, kind: pa.DataType) -> pa.Array:
    times = columns.timestamps_ms
    if not times.size or (times.max() <= MAX_TIME_MS and times.min() >= -MAX_TIME_MS):
        return _fixed(times * 1000, kind)
    is_odd = (times > MAX_TIME_MS) | (times < -MAX_TIME_MS)
    return pa.array(np.where(is_odd, 0, times) * 1000, pa.int64(), mask=is_odd).cast(kind)


def _timestamp_type(columns: Columns, split: Split, kind: pa.DataType) -> pa.Array:
    return _fixed(columns.timestamp_types, kind)


def _headers(columns: Columns, split: Split, kind: pa.DataType) -> pa.Array:
    """A record without headers has null, as in the connector."""
    column = columns.headers
    assert column is not None
    struct = kind.value_type
    count = len(column.keys.is_there)
    children = [_text(column.keys, struct.field(0).type), _binary(column.values, struct.field(1).type)]
    items = pa.Array.from_buffers(struct, count, [None], children=children)
    has_any = np.diff(column.bounds) > 0
    validity = None if has_any.all() else pa.py_buffer(np.packbits(has_any, bitorder="little"))
    return pa.Array.from_buffers(
        kind, columns.rows, [validity, pa.py_buffer(column.bounds)], children=[items]
    )


def _fixed(numbers: npt.NDArray[np.int64] | npt.NDArray[np.int32], kind: pa.DataType) -> pa.Array:
    whole = np.ascontiguousarray(numbers)
    return pa.Array.from_buffers(kind, len(whole), [None, pa.py_buffer(whole)])


_BUILDERS: Mapping[str, Callable[[Columns, Split, pa.DataType], pa.Array]] = {
    "key": _key,
    "value": _value,
    "topic": _topic,
    "partition": _partition,
    "offset": _offset,
    "timestamp": _timestamp,
    "timestampType": _timestamp_type,
    "headers": _headers,
}
