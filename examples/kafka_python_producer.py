# ruff: noqa: T201 - what an example is for is what it prints
"""Send ten orders with kafka-python.

    python examples/kafka_python_producer.py 127.0.0.1:9092

The topic is created by the first order.
"""

import sys

from kafka import KafkaProducer

TOPIC = "orders"


def main(bootstrap: str) -> None:
    # It is idempotent by default: a send that is repeated after a lost connection is stored once.
    producer = KafkaProducer(bootstrap_servers=bootstrap, compression_type="gzip")
    try:
        # Orders of one customer have one key, so they are in one partition and stay in order.
        answers = [
            producer.send(
                TOPIC,
                key=b"customer %d" % (number % 3),
                value=b"order %d" % number,
                headers=[("currency", b"EUR")],
            )
            for number in range(10)
        ]
        for number, answer in enumerate(answers):
            stored = answer.get(timeout=30)
            print(f"order {number} is stored in partition {stored.partition} at offset {stored.offset}")
    finally:
        producer.close()


if __name__ == "__main__":
    main(*(sys.argv[1:] or ["127.0.0.1:9092"]))
