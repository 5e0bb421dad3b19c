"""Everything that confluent-kafka has to show."""

from __future__ import annotations

from tests.clients.administering import Administering
from tests.clients.confluent_client import ConfluentClient
from tests.clients.consuming import Consuming
from tests.clients.grouping import Grouping
from tests.clients.producing import Producing
from tests.clients.surviving import Surviving

CLIENT = ConfluentClient()


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
