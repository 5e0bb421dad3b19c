"""InitProducerId: every producer gets an id of its own, over restarts too."""

from __future__ import annotations

import errno
import threading
from pathlib import Path
from typing import Any

import pytest

from barbicel.codecs.kafka import messages
from barbicel.codecs.kafka.error_codes import ErrorCode
from tests.gateway.kafka.in_memory import Gateway, in_memory_gateway
from tests.support.fault_disk import FaultDisk


def request(
    transactional_id: str | None = None, producer_id: int = -1, producer_epoch: int = -1
) -> messages.Message:
    return messages.InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout_ms=1000,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
    )


@pytest.mark.parametrize("version", range(6))
def test_every_version_gives_a_new_id(gateway: Gateway, version: int) -> None:
    client = gateway.connect()
    answers = [client.ask(request(), version) for _ in range(3)]
    assert {(answer.error_code, answer.producer_epoch) for answer in answers} == {(0, 0)}
    assert len({answer.producer_id for answer in answers}) == 3


def test_ids_are_not_given_out_twice_over_a_restart(tmp_path: Path) -> None:
    ids = []
    for _ in range(3):
        with in_memory_gateway(tmp_path / "data") as gateway:
            ids.append(gateway.connect().ask(request(), 4).producer_id)
    assert len(set(ids)) == 3


def test_an_id_does_not_wait_for_the_changes_of_topics(gateway: Gateway) -> None:
    """Creating thousands of partitions takes many seconds."""
    is_over = threading.Event()
    change = gateway.broker.change(lambda: is_over.wait(30))
    try:
        assert gateway.connect().ask(request(), 4).error_code == ErrorCode.NONE
    finally:
        is_over.set()
    assert gateway.reactor.result(change)


def test_a_producer_that_has_an_id_gets_another(gateway: Gateway) -> None:
    client = gateway.connect()
    first = client.ask(request(), 4)
    second = client.ask(request(producer_id=first.producer_id, producer_epoch=0), 4)
    assert second.producer_id != first.producer_id
    assert second.producer_epoch == 0


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"producer_id": 5}, ErrorCode.INVALID_REQUEST),
        ({"producer_epoch": 5}, ErrorCode.INVALID_REQUEST),
        ({"producer_id": -2, "producer_epoch": -2}, ErrorCode.INVALID_REQUEST),
        ({"transactional_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"transactional_id": "x"}, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
    ],
)
def test_refusals(gateway: Gateway, fields: dict[str, Any], code: ErrorCode) -> None:
    answer = gateway.connect().ask(request(**fields), 4)
    assert (answer.error_code, answer.producer_id) == (code, -1)


def test_a_disk_that_fails_is_a_storage_error() -> None:
    disk = FaultDisk()
    with in_memory_gateway("/data", disk) as gateway:
        disk.fail("write", errno.EIO, path_contains="cluster", times=99)
        assert gateway.connect().ask(request(), 4).error_code == ErrorCode.KAFKA_STORAGE_ERROR
