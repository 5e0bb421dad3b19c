"""Record batches and their compression as kafka-python and aiokafka (its C code) write and read them."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

from aiokafka.record._crecords import default_records as aiokafka_records

from barbicel.codecs.kafka.new_batch import NewRecord
from barbicel.codecs.kafka.records import KafkaRecord

with warnings.catch_warnings():
    # kafka-python reads its schemas by functions that Python 3.11 deprecates and 3.13 does not.
    warnings.filterwarnings("ignore", "(read|open)_text is deprecated", DeprecationWarning)
    from kafka import codec as kafka_python_codec
    from kafka.record import default_records as kafka_python_records

__all__ = ["AIOKAFKA", "KAFKA_PYTHON", "OtherRecords", "kafka_python_codec"]


class OtherRecords(NamedTuple):
    """One of the two. Their classes have the same names and methods."""

    classes: Any

    def read(self, batch: bytes) -> Any:
        """Their own object, which also iterates over their own records."""
        return self.classes.DefaultRecordBatch(batch)

    def decode(self, batch: bytes) -> list[KafkaRecord]:
        return [
            KafkaRecord(
                record.offset,
                record.timestamp,
                record.key,
                record.value,
                tuple((key.encode(), value) for key, value in record.headers),
            )
            for record in self.read(batch)
        ]

    def build(self, records: Sequence[NewRecord], codec: int, producer: tuple[int, int, int]) -> bytes:
        builder = self.classes.DefaultRecordBatchBuilder(2, codec, 0, *producer, 1 << 20)
        for offset, (timestamp, key, value, headers) in enumerate(records):
            builder.append(offset, timestamp, key, value, [(name.decode(), body) for name, body in headers])
        return bytes(builder.build())


KAFKA_PYTHON = OtherRecords(kafka_python_records)
AIOKAFKA = OtherRecords(aiokafka_records)
