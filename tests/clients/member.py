"""A member of a group in a process of its own, so that it can be killed as a crash kills it.

`python -m tests.clients.member client bootstrap topic group` prints its partitions whenever they change.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tests.clients.aiokafka_client import AiokafkaClient
from tests.clients.client import Client
from tests.clients.confluent_client import ConfluentClient
from tests.clients.kafka_python_client import KafkaPythonClient

__all__ = ["CLIENTS", "killed_member"]

CLIENTS: dict[str, Client] = {
    client.name: client for client in (KafkaPythonClient(), ConfluentClient(), AiokafkaClient())
}


@contextmanager
def killed_member(client: Client, bootstrap: str, topic: str, group: str) -> Iterator[Callable[[], set[int]]]:
    """A member that is killed with SIGKILL at the end. Yields what tells its partitions, none at first."""
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-m", "tests.clients.member", client.name, bootstrap, topic, group],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    told: list[str] = [""]
    assert process.stdout is not None
    listener = threading.Thread(target=told.extend, args=(process.stdout,))
    listener.start()
    try:
        yield lambda: set(map(int, told[-1].split()))
    finally:
        process.kill()
        process.wait()
        listener.join()
        process.stdout.close()


def run(client: Client, bootstrap: str, topic: str, group: str) -> None:
    """Until it is killed."""
    before: set[int] = set()
    with client.consumer(bootstrap, group) as consumer:
        consumer.subscribe(topic)
        while True:
            consumer.poll()
            if consumer.assignment() != before:
                before = consumer.assignment()
                sys.stdout.write(" ".join(map(str, sorted(before))) + "\n")
                sys.stdout.flush()


if __name__ == "__main__":
    run(CLIENTS[sys.argv[1]], *sys.argv[2:])
