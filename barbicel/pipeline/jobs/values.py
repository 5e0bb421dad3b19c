"""Values as columns, and what has to happen to those that are not what was promised.

A row that does not fit goes to the dead letters with all that it had and the reason. It neither stops the
others nor is it silently nulled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["Parsed", "parse_values"]

CORRUPT = "_corrupt"
PARSED = "_parsed"
REASON = "reason"


class Parsed(NamedTuple):
    rows: DataFrame
    dead_letters: DataFrame


def parse_values(frame: DataFrame, schema: str) -> Parsed:
    """Values that are JSON objects as the columns of a schema (`id BIGINT, name STRING`), in the place of
    `value`.

    A null value is a row of nulls: in a topic it stands for a deletion.
    """
    from pyspark.sql import functions as f

    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}
    text = f.col("value").cast("string")
    parsed = f.from_json(text, f"{schema}, {CORRUPT} STRING", options)
    # The cast does not tell of bytes that are no text.
    is_text = f.col("value").isNull() | f.expr("is_valid_utf8(cast(value as string))")
    marked = frame.withColumn(PARSED, parsed).withColumn(
        REASON,
        f.when(~is_text, f.lit("the value is no UTF-8 text"))
        .when(f.col(f"{PARSED}.{CORRUPT}").isNotNull(), f.lit(f"the value is not JSON of the form {schema}"))
        .when(f.col("value").isNotNull() & f.col(PARSED).isNull(), f.lit("the value is not a JSON object")),
    )
    kept = [name for name in frame.columns if name != "value"]
    good = marked.where(f.col(REASON).isNull()).select(*kept, f"{PARSED}.*").drop(CORRUPT)
    return Parsed(good, marked.where(f.col(REASON).isNotNull()).drop(PARSED))
