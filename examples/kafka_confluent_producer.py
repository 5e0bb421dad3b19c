# ruff: noqa: T201 - what an example is for is what it prints
"""Send ten orders with confluent-kafka.

    python examples/kafka_confluent_producer.py 127.0.0.1:9092

The topic is created by the first order.
"""

import sys

from confluent_kafka import KafkaError, Message, Producer

TOPIC = "orders"


def answered(error: KafkaError | None, message: Message) -> None:
    """Called for every order when it is stored, or when that failed for good."""
    if error is not None:
        raise SystemExit(f"an order is not stored: {error}")
    value = (message.value() or b"").decode()
    print(f"{value} is stored in partition {message.partition()} at offset {message.offset()}")


def main(bootstrap: str) -> None:
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            # A send that is repeated after a lost connection is stored once, and in order.
            "enable.idempotence": True,
            "compression.type": "lz4",
        }
    )
    for number in range(10):
        producer.produce(
            TOPIC,
            # Orders of one customer have one key, so they are in one partition and stay in order.
            key=b"customer %d" % (number % 3),
            value=b"order %d" % number,
            headers=[("currency", b"EUR")],
            on_delivery=answered,
        )
    # Calls `answered`; what it returns is still on its way.
    if producer.flush(30):
        raise SystemExit("not every order was answered in time")


if __name__ == "__main__":
    main(*(sys.argv[1:] or ["127.0.0.1:9092"]))
