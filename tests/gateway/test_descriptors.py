"""Who may have open files: the shares of a limit, and what is refused before they are used up."""

from __future__ import annotations

import pytest

from barbicel.errors import BarbicelError
from barbicel.gateway.broker.topic_errors import TooManyPartitions
from barbicel.gateway.descriptors import LEAST_CLIENTS, OF_A_PARTITION, OF_A_TIER, OF_THE_SERVER, Descriptors


def in_use(descriptors: Descriptors) -> int:
    """What is open at worst."""
    storage = descriptors.groups + descriptors.readers + descriptors.partitions * OF_A_PARTITION
    return OF_THE_SERVER + storage + descriptors.clients


def fill_with_partitions(descriptors: Descriptors) -> None:
    def add_until_refused() -> None:
        while True:
            descriptors.add_partitions(1)

    with pytest.raises(TooManyPartitions, match="the limit is .*raise it"):
        add_until_refused()


def fill_with_clients(descriptors: Descriptors) -> None:
    while not descriptors.refuses_client():
        descriptors.clients += 1


@pytest.mark.parametrize("limit", [200, 256, 1024, 4096, 65_536])
def test_clients_take_what_storage_leaves_and_no_more(limit: int) -> None:
    descriptors = Descriptors(limit)
    descriptors.start_with(5)
    fill_with_clients(descriptors)
    assert in_use(descriptors) == limit
    assert descriptors.clients >= LEAST_CLIENTS


@pytest.mark.parametrize("limit", [200, 256, 1024, 4096, 65_536])
def test_partitions_leave_room_for_clients_and_for_a_restart(limit: int) -> None:
    descriptors = Descriptors(limit)
    fill_with_partitions(descriptors)
    assert descriptors.partitions >= 5
    assert in_use(descriptors) + LEAST_CLIENTS <= limit
    Descriptors(limit).start_with(descriptors.partitions)
    fill_with_clients(descriptors)
    assert descriptors.clients >= LEAST_CLIENTS
    assert in_use(descriptors) <= limit


def test_partitions_are_not_created_over_the_heads_of_clients() -> None:
    descriptors = Descriptors(1024)
    fill_with_clients(descriptors)
    with pytest.raises(TooManyPartitions):
        descriptors.add_partitions(1)
    descriptors.clients -= OF_A_PARTITION
    descriptors.add_partitions(1)
    assert descriptors.refuses_client()
    descriptors.remove_partitions(1)
    assert not descriptors.refuses_client()


def test_more_partitions_than_can_be_opened_are_told_before_any_is() -> None:
    with pytest.raises(BarbicelError, match=r"500 partitions need \d+ open files, and the limit is 1024"):
        Descriptors(1024).start_with(500)


def test_refused_clients_are_told_of_now_and_then(caplog: pytest.LogCaptureFixture) -> None:
    times_ms = iter((0, 1, 9_999, 10_000, 10_001))
    descriptors = Descriptors(100, lambda: next(times_ms))
    assert all(descriptors.refuses_client() for _ in range(5))
    assert len(caplog.records) == 2
    assert "ulimit -n" in caplog.text


def test_partitions_with_a_tier_have_their_manifests_open_besides() -> None:
    plain, tiered = Descriptors(1024), Descriptors(1024, is_tiered=True)
    room = 1024 - OF_THE_SERVER - plain.groups - plain.readers - LEAST_CLIENTS
    plain.start_with(room // OF_A_PARTITION)
    most = room // (OF_A_PARTITION + OF_A_TIER)
    tiered.start_with(most)
    with pytest.raises(TooManyPartitions):
        tiered.add_partitions(1)
