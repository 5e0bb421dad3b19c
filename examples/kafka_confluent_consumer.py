# ruff: noqa: T201 - what an example is for is what it prints
"""Read orders with confluent-kafka, as a member of a group that goes on where it stopped.

    python examples/kafka_confluent_consumer.py 127.0.0.1:9092 10

It ends after so many orders. Start it again, and it reads the next ones.
"""

import sys

from confluent_kafka import Consumer

TOPIC, GROUP = "orders", "billing-confluent"


def main(bootstrap: str, count: int = 10) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": GROUP,
            # A group that has never committed begins with the oldest order, not with the next.
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([TOPIC])
    done = 0
    try:
        while done < count:
            order = consumer.poll(1.0)
            if order is None or order.error() is not None:
                continue  # nothing new, or a connection that it will open again by itself
            key, value = (order.key() or b"").decode(), (order.value() or b"").decode()
            print(f"{key}: {value}, {dict(order.headers() or ())}")
            done += 1
            # After the work: what is not done yet is read again if this process dies.
            consumer.commit(message=order, asynchronous=False)
    finally:
        consumer.close()
    print(f"{done} orders are done")


if __name__ == "__main__":
    main(*(sys.argv[1:2] or ["127.0.0.1:9092"]), *map(int, sys.argv[2:]))
