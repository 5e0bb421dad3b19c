# ruff: noqa: T201 - what an example is for is what it prints
"""Read orders with kafka-python, as a member of a group that goes on where it stopped.

    python examples/kafka_python_consumer.py 127.0.0.1:9092 10

It ends after so many orders. Start it again, and it reads the next ones.
"""

import sys

from kafka import KafkaConsumer

TOPIC, GROUP = "orders", "billing-kafka-python"


def main(bootstrap: str, count: int = 10) -> None:
    consumer = KafkaConsumer(
        TOPIC,
        bootstrap_servers=bootstrap,
        group_id=GROUP,
        # A group that has never committed begins with the oldest order, not with the next.
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    done = 0
    try:
        while done < count:
            for orders in consumer.poll(timeout_ms=1_000, max_records=count - done).values():
                for order in orders:
                    # Other producers of this topic may send records without a key.
                    key, value = (order.key or b"").decode(), (order.value or b"").decode()
                    print(f"{key}: {value}, {dict(order.headers)}")
                    done += 1
            # After the work: what is not done yet is read again if this process dies.
            consumer.commit()
    finally:
        consumer.close()
    print(f"{done} orders are done")


if __name__ == "__main__":
    main(*(sys.argv[1:2] or ["127.0.0.1:9092"]), *map(int, sys.argv[2:]))
