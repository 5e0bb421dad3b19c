# ruff: noqa: T201 - what an example is for is what it prints
"""Read orders with aiokafka, as a member of a group that goes on where it stopped.

    python examples/kafka_aiokafka_consumer.py 127.0.0.1:9092 10

It ends after so many orders. Start it again, and it reads the next ones.
"""

import asyncio
import sys

from aiokafka import AIOKafkaConsumer

TOPIC, GROUP = "orders", "billing-aiokafka"


async def main(bootstrap: str, count: int = 10) -> None:
    consumer = AIOKafkaConsumer(
        TOPIC,
        bootstrap_servers=bootstrap,
        group_id=GROUP,
        # A group that has never committed begins with the oldest order, not with the next.
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    done = 0
    async with consumer:
        while done < count:
            for orders in (await consumer.getmany(timeout_ms=1_000, max_records=count - done)).values():
                for order in orders:
                    # Other producers of this topic may send records without a key.
                    key, value = (order.key or b"").decode(), (order.value or b"").decode()
                    print(f"{key}: {value}, {dict(order.headers)}")
                    done += 1
            # After the work: what is not done yet is read again if this process dies.
            await consumer.commit()
    print(f"{done} orders are done")


if __name__ == "__main__":
    asyncio.run(main(*(sys.argv[1:2] or ["127.0.0.1:9092"]), *map(int, sys.argv[2:])))
