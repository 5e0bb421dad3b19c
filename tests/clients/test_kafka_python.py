"""Everything that kafka-python has to show."""

from __future__ import annotations

import gc
import logging
from collections.abc import Iterator

import pytest

from tests.clients.administering import Administering
from tests.clients.consuming import Consuming
from tests.clients.grouping import Grouping
from tests.clients.kafka_python_client import KafkaPythonClient
from tests.clients.producing import Producing
from tests.clients.surviving import Surviving

CLIENT = KafkaPythonClient()

# It forgets to close the sockets with which it could not connect while the gateway was down.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")


@pytest.fixture(scope="module", autouse=True)
def forgotten_sockets() -> Iterator[None]:
    """Found here, where that is known, and not by whichever test comes next."""
    log = logging.getLogger("kafka")
    level = log.level
    # What it logs about such a socket would keep it until the test is over.
    log.setLevel(logging.CRITICAL)
    yield
    log.setLevel(level)
    gc.collect()


class TestProducing(Producing):
    client = CLIENT


class TestConsuming(Consuming):
    client = CLIENT


class TestGrouping(Grouping):
    client = CLIENT


class TestAdministering(Administering):
    client = CLIENT


class TestSurviving(Surviving):
    client = CLIENT
