"""The decoder of the direct source without Spark: record batches to columns."""

from __future__ import annotations

import os
import time
from functools import partial

from barbicel.codecs.kafka.columns import OpenedBatch, Wanted, decode_columns, is_compiled, open_batch
from barbicel.codecs.kafka.columns_plain import decode_plain
from barbicel.codecs.kafka.new_batch import NewRecord, build_batch
from barbicel.codecs.kafka.record_batch import Batch, decode_header
from bench.report import Measurement, compare
from bench.rounds import interleave
from bench.spark import scale

__all__ = ["measure_decoding"]

VALUE_BYTES = 100
BATCH_ROWS = 1000
MAX_BYTES = 1 << 30


def measure_decoding(directory: str) -> list[Measurement]:
    stored = _batches()
    contenders = {
        "compiled": partial(_seconds, stored, True),
        "plain": partial(_seconds, stored, False),
    }
    for warm_up in contenders.values():
        warm_up()
    took = interleave(contenders, scale.ROUNDS)
    compiled = "compiled" if is_compiled() else "not compiled on this machine"
    return [
        compare(
            "decode to columns",
            "rows/s",
            [scale.DECODED_ROWS / seconds for seconds in took["compiled"]],
            [scale.DECODED_ROWS / seconds for seconds in took["plain"]],
            against="the plain decoder, in Python",
            reading=(
                f"{scale.DECODED_ROWS:,} records of {VALUE_BYTES} bytes in batches of {BATCH_ROWS}, on one"
                f" core, CRCs checked; the decoder is {compiled}."
            ),
        )
    ]


def _batches() -> list[memoryview]:
    batch = [
        NewRecord(1_700_000_000_000 + number, None, os.urandom(VALUE_BYTES)) for number in range(BATCH_ROWS)
    ]
    return [
        memoryview(build_batch(batch, base_offset=first))
        for first in range(0, scale.DECODED_ROWS, BATCH_ROWS)
    ]


def _seconds(stored: list[memoryview], is_fast: bool) -> float:
    start = time.perf_counter()
    opened: list[OpenedBatch] = [
        open_batch(Batch(decode_header(batch), batch), max_bytes=MAX_BYTES) for batch in stored
    ]
    columns = decode_columns(opened, Wanted()) if is_fast else decode_plain(opened, Wanted())
    took = time.perf_counter() - start
    assert columns.rows == scale.DECODED_ROWS
    return took
