"""What one client wrote, every client reads: value, key, headers, timestamp and offset."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack

import pytest

from tests.clients.aiokafka_client import AiokafkaClient
from tests.clients.client import Client, ProducerOptions, StoredRecord, send_all
from tests.clients.confluent_client import ConfluentClient
from tests.clients.features import CODECS, reads_feature
from tests.clients.java_client import JavaClient
from tests.clients.kafka_python_client import KafkaPythonClient
from tests.clients.records import mixed_records, read, stored, unique
from tests.rig.jars import RigUnavailable
from tests.rig.skipping import skip_without_rig
from tests.support.gateway import Gateway

PYTHON_CLIENTS: Mapping[str, Client] = {
    "kafka-python": KafkaPythonClient(),
    "confluent-kafka": ConfluentClient(),
    "aiokafka": AiokafkaClient(),
}
JAVA_CLIENTS = {"Java 4": JavaClient("clients-4"), "Java 3.9": JavaClient("clients-3.9")}
CLIENTS: Mapping[str, Client] = {**PYTHON_CLIENTS, **JAVA_CLIENTS}
Written = dict[str, list[StoredRecord]]


@pytest.fixture(scope="module")
def java() -> Iterator[Mapping[str, str]]:
    """Starts the Java clients. Name → why it cannot run on this machine."""
    missing: dict[str, str] = {}
    with ExitStack() as stack:
        for name, client in JAVA_CLIENTS.items():
            try:
                stack.enter_context(client.running())
            except RigUnavailable as error:
                missing[name] = str(error)
        yield missing


@pytest.fixture(scope="module")
def written(gateway: Gateway, java: Mapping[str, str]) -> Mapping[str, Written]:
    """Writer → topic → what is in it."""
    return {name: write(gateway, client) for name, client in CLIENTS.items() if name not in java}


def write(gateway: Gateway, client: Client) -> Written:
    """A topic for each codec, with all that the client can send."""
    topics: Written = {}
    for codec in CODECS:
        topic, records = unique(codec), mixed_records(client)
        with client.producer(gateway.bootstrap, ProducerOptions(codec=codec)) as producer:
            assert send_all(producer, topic, 0, records) == list(range(len(records)))
        topics[topic] = stored(0, records)
    return topics


@pytest.mark.parametrize("writer", CLIENTS)
@pytest.mark.parametrize("reader", CLIENTS)
def test_reads_what_others_wrote(
    gateway: Gateway,
    java: Mapping[str, str],
    written: Mapping[str, Written],
    reader: str,
    writer: str,
    request: pytest.FixtureRequest,
) -> None:
    for name in (reader, writer):
        if name in java:
            with skip_without_rig():
                raise RigUnavailable(java[name])
    client = CLIENTS[reader]
    request.node.user_properties += [
        ("column", f"{client.name} {client.version}"),
        ("row", reads_feature(writer)),
    ]
    for topic, expected in written[writer].items():
        assert read(client, gateway.bootstrap, topic, 0, len(expected)) == expected
