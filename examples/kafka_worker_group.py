"""Three worker processes share the tasks of a topic; one of them is killed, and the others do its part.

    python examples/kafka_worker_group.py 127.0.0.1:9092

Each worker commits a task after it is done. So a task that was under way in the worker that died is done
again by another: at least once, never not at all.
"""

import subprocess
import sys
import time

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

TOPIC, GROUP = f"tasks-{time.time_ns()}", "workers"
PARTITIONS, TASKS, WORKERS = 6, 60, 3
# How long a worker may be silent before the others get its partitions. The shortest that is allowed.
SESSION_TIMEOUT_MS = 6_000


def work(bootstrap: str, topic: str, name: str) -> None:
    """One worker, until it is ended."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": GROUP,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": SESSION_TIMEOUT_MS,
            "heartbeat.interval.ms": 500,
        }
    )
    consumer.subscribe([topic], on_assign=lambda _, places: say_places(name, places))
    while True:
        task = consumer.poll(1.0)
        if task is not None and task.error() is None:
            time.sleep(0.1)  # the work
            say(f"{name} has done {(task.value() or b'').decode()}")
            consumer.commit(message=task, asynchronous=False)


def say(line: str) -> None:
    """As one piece: the workers all write to one terminal."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def say_places(name: str, places: list[TopicPartition]) -> None:
    say(f"{name} has partitions {sorted(place.partition for place in places)}")


def write_tasks(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS)])[TOPIC].result()
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(TASKS):
        producer.produce(TOPIC, value=b"task %d" % number, partition=number % PARTITIONS)
    producer.flush()


def done_tasks(watcher: Consumer) -> int:
    """How many the group has committed."""
    places = [TopicPartition(TOPIC, partition) for partition in range(PARTITIONS)]
    return sum(max(place.offset, 0) for place in watcher.committed(places, timeout=30))


def main(bootstrap: str) -> None:
    write_tasks(bootstrap)
    names = [f"worker {number}" for number in range(WORKERS)]
    workers = [subprocess.Popen([sys.executable, __file__, bootstrap, TOPIC, name]) for name in names]
    # It never subscribes, so it is no member; it only asks how far the group is.
    watcher = Consumer({"bootstrap.servers": bootstrap, "group.id": GROUP})
    try:
        while done_tasks(watcher) < TASKS // 4:
            time.sleep(0.1)
        workers[0].kill()
        say(f"{names[0]} is killed")
        while done_tasks(watcher) < TASKS:
            time.sleep(0.1)
        say(f"all {TASKS} tasks are done")
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()
        watcher.close()


if __name__ == "__main__":
    work(*sys.argv[1:]) if len(sys.argv) > 2 else main(*(sys.argv[1:] or ["127.0.0.1:9092"]))
