"""Groups of unmodified clients: they share partitions, and take over from those who leave or die."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from kafka import KafkaProducer

from tests.gateway.kafka.group_members import MEMBERS, AioMember, ConfluentMember, Member, poll_until
from tests.gateway.kafka.group_requests import fetch
from tests.gateway.kafka.raw_client import RawClient
from tests.support.gateway import Gateway, running_gateway

PARTITIONS = 4
EVERYTHING = set(range(PARTITIONS))
MESSAGES = {f"message {number}".encode() for number in range(40)}
# Shorter than Kafka allows by default, so that nobody waits long for the dead.
SHORT_SESSION_MS = 1_000


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    directory: Path = tmp_path_factory.mktemp("rebalance")
    with running_gateway(
        directory, num_partitions=str(PARTITIONS), group_min_session_timeout_ms=str(SHORT_SESSION_MS)
    ) as running:
        yield running
    if AioMember.loop is not None:
        AioMember.loop.close()
        AioMember.loop = None
    assert "Traceback" not in running.log.read_text()


@pytest.fixture(scope="module")
def topic(gateway: Gateway) -> str:
    """With messages in every partition."""
    with closing(KafkaProducer(bootstrap_servers=gateway.bootstrap)) as producer:
        sent = [
            producer.send("shared", value, partition=place % PARTITIONS)
            for place, value in enumerate(sorted(MESSAGES))
        ]
        for future in sent:
            future.get(timeout=20)
    return "shared"


def shared(members: list[Member]) -> bool:
    """Whether every partition is with one member, and every member has one at least."""
    parts = [member.assigned() for member in members]
    return all(parts) and sorted(number for part in parts for number in part) == sorted(EVERYTHING)


@pytest.mark.parametrize("kind", MEMBERS)
def test_members_share_the_partitions(gateway: Gateway, topic: str, kind: str) -> None:
    group = f"sharing-{kind}"
    with ExitStack() as opened:
        first = opened.enter_context(closing(MEMBERS[kind](gateway.bootstrap, group, topic)))
        poll_until(lambda: first.assigned() == EVERYTHING, first)
        second = MEMBERS[kind](gateway.bootstrap, group, topic)
        try:
            poll_until(lambda: shared([first, second]), first, second)
            poll_until(lambda: {*first.values, *second.values} == MESSAGES, first, second)
        finally:
            second.close()
        poll_until(lambda: first.assigned() == EVERYTHING, first)
    # Who closes commits what it has read.
    with RawClient((gateway.host, gateway.port)) as client:
        committed = fetch(client, 2, group, None, {})
    assert {place: row[0] for place, row in committed.items()} == {
        (topic, number): len(MESSAGES) // PARTITIONS for number in EVERYTHING
    }


def test_members_of_all_clients_make_one_group(gateway: Gateway, topic: str) -> None:
    with ExitStack() as opened:
        members = [
            opened.enter_context(closing(member(gateway.bootstrap, "mixed", topic)))
            for member in MEMBERS.values()
        ]
        poll_until(lambda: shared(members), *members)
        poll_until(lambda: {value for member in members for value in member.values} == MESSAGES, *members)


DOOMED = """
import sys
from tests.gateway.kafka.group_members import ConfluentMember, poll_until
bootstrap, group, topic, session_ms = sys.argv[1:]
member = ConfluentMember(bootstrap, group, topic, **{"session.timeout.ms": int(session_ms)})
poll_until(lambda: bool(member.assigned()), member)
print("assigned", flush=True)
poll_until(lambda: False, member)
"""


def test_a_member_that_is_killed_is_replaced(gateway: Gateway, topic: str) -> None:
    arguments = [gateway.bootstrap, "bereaved", topic, str(SHORT_SESSION_MS)]
    doomed = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", DOOMED, *arguments],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert doomed.stdout is not None
    with ExitStack() as opened:
        opened.callback(doomed.stdout.close)
        opened.callback(doomed.wait, 20)
        opened.callback(doomed.kill)
        assert doomed.stdout.readline() == b"assigned\n"
        heir = opened.enter_context(closing(ConfluentMember(gateway.bootstrap, "bereaved", topic)))
        poll_until(lambda: len(heir.assigned()) == PARTITIONS // 2, heir)
        doomed.kill()
        poll_until(lambda: heir.assigned() == EVERYTHING, heir)


def test_a_static_member_restarts_unnoticed(gateway: Gateway, topic: str) -> None:
    def member(name: str) -> ConfluentMember:
        return ConfluentMember(gateway.bootstrap, "static", topic, **{"group.instance.id": name})

    with ExitStack() as opened:
        stays = opened.enter_context(closing(member("stays")))
        restarts = member("restarts")
        poll_until(lambda: shared([stays, restarts]), stays, restarts)
        before, rebalances = restarts.assigned(), stays.rebalances
        restarts.close()
        again = opened.enter_context(closing(member("restarts")))
        poll_until(lambda: bool(again.assigned()), stays, again)
        assert again.assigned() == before
        assert stays.rebalances == rebalances
