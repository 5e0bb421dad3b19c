"""One queue, both protocols: a Kafka producer feeds Kestrel workers, a Kafka consumer reads what they put.

    python examples/kestrel_and_kafka.py 127.0.0.1:22133 127.0.0.1:9092

A queue is a topic with one partition, and reading it is a group: `kestrel`. So its position can be seen
beside those of Kafka's groups.
"""

import sys
import time

import memcache
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer
from confluent_kafka.admin import AdminClient

RUN = time.time_ns()
JOBS, RESULTS = f"jobs-{RUN}", f"results-{RUN}"
COUNT = 5


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")


def produce_jobs(bootstrap: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "compression.type": "lz4"})
    for number in range(COUNT):
        producer.produce(JOBS, value=b"job %d" % number)
    # A record without a value is no job: workers never see it.
    producer.produce(JOBS, key=b"job 0", value=None)
    producer.flush()
    say(f"{COUNT} jobs were produced")


def work(address: str) -> None:
    """A memcache client, which knows nothing of Kafka."""
    client = memcache.Client([address])
    job = client.get(f"{JOBS}/open")
    while job is not None:
        if not client.set(RESULTS, f"{job.decode()} is done", time=3600):
            sys.exit("a result was not stored")
        # After the result is stored: a crash in between does the job again, and loses none.
        job = client.get(f"{JOBS}/close/open")
    client.disconnect_all()


def consume_results(bootstrap: str) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reports",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([RESULTS])
    read = 0
    while read < COUNT:
        record = consumer.poll(1.0)
        if record is None or record.error() is not None:
            continue
        read += 1
        headers = dict(record.headers() or ())
        lifetime_s = (int(headers["kestrel-expiry-ms"]) - record.timestamp()[1]) / 1000
        say(f"{(record.value() or b'').decode()}, to be kept for {lifetime_s:.0f} s")
        consumer.commit(message=record, asynchronous=False)
    consumer.close()


def show_positions(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for group in ("kestrel", "reports"):
        asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
        for place in asked[group].result().topic_partitions:
            if place.topic in (JOBS, RESULTS):
                say(f"{group} is at {place.offset} of {place.topic.partition('-')[0]}")


def main(address: str, bootstrap: str) -> None:
    produce_jobs(bootstrap)
    work(address)
    consume_results(bootstrap)
    show_positions(bootstrap)


if __name__ == "__main__":
    main(*(sys.argv[1:] or ["127.0.0.1:22133", "127.0.0.1:9092"]))
