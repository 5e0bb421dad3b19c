"""What is told of a failure in Spark: the reasons, not the stacks."""

from __future__ import annotations

import pytest

from barbicel.pipeline.jobs.reasons import reason_of

OWN = """Job aborted due to stage failure: Task 0 in stage 1.0 failed 1 times
Traceback (most recent call last):
  File "/x/reading.py", line 1, in read_split
barbicel.errors.CorruptLog: /data/1.log: at byte 7: the record's crc32c does not match (see 'barbicel log')

\tat org.apache.spark.api.python.BasePythonRunner.handle(PythonRunner.scala:1)
"""
JAVA = """An error occurred while calling o55.toRdd.
: org.apache.kafka.common.KafkaException: Failed to create new KafkaAdminClient
\tat org.apache.kafka.clients.admin.KafkaAdminClient.createInternal(KafkaAdminClient.java:561)
\tat org.apache.spark.sql.kafka010.ConsumerStrategy.createAdmin$(ConsumerStrategy.scala:46)
\tat java.base/java.lang.Thread.run(Thread.java:840)
Caused by: org.apache.kafka.common.config.ConfigException: no resolvable bootstrap urls
\tat org.apache.kafka.clients.ClientUtils.parse(ClientUtils.java:89)
\t... 84 more
"""


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (OWN, "/data/1.log: at byte 7: the record's crc32c does not match (see 'barbicel log')"),
        (
            JAVA,
            "org.apache.kafka.common.KafkaException: Failed to create new KafkaAdminClient; Caused by:"
            " org.apache.kafka.common.config.ConfigException: no resolvable bootstrap urls",
        ),
        ("one line", "one line"),
        ("", ""),
    ],
)
def test_the_reasons_are_told_and_no_stacks(text: str, told: str) -> None:
    assert reason_of(RuntimeError(text)) == told
