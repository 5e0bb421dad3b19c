# ruff: noqa: T201 - what an example is for is what it prints
"""Send ten orders with aiokafka.

    python examples/kafka_aiokafka_producer.py 127.0.0.1:9092

The topic is created by the first order.
"""

import asyncio
import sys

from aiokafka import AIOKafkaProducer

TOPIC = "orders"


async def main(bootstrap: str) -> None:
    # Idempotent: a send that is repeated after a lost connection is stored once, and in order.
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, enable_idempotence=True, compression_type="zstd")
    async with producer:
        # Orders of one customer have one key, so they are in one partition and stay in order.
        answers = [
            await producer.send(
                TOPIC,
                key=b"customer %d" % (number % 3),
                value=b"order %d" % number,
                headers=[("currency", b"EUR")],
            )
            for number in range(10)
        ]
        for number, stored in enumerate(await asyncio.gather(*answers)):
            print(f"order {number} is stored in partition {stored.partition} at offset {stored.offset}")


if __name__ == "__main__":
    asyncio.run(main(*(sys.argv[1:] or ["127.0.0.1:9092"])))
