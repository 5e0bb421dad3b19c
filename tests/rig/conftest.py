"""One real Kafka for all tests of the rig."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.rig.kafka_server import KafkaServer, running_kafka
from tests.rig.skipping import skip_without_rig


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaServer]:
    with skip_without_rig(), running_kafka(tmp_path_factory.mktemp("kafka")) as server:
        yield server
