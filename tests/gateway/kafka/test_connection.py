"""A connection: order, refusals, and what a client can make the server hold."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest

from barbicel.codecs.kafka import messages
from barbicel.gateway.kafka.connection import LITTLE_BYTES, MAX_REQUESTS_UNDER_WAY, KafkaConnection
from tests.gateway.kafka.in_memory import Client, Gateway, batch, in_memory_gateway
from tests.gateway.kafka.requests import fetch, list_offsets, metadata, only, produce, produced, values_of

API_VERSIONS = 18


def api_versions() -> messages.Message:
    return messages.ApiVersionsRequest(client_software_name="test", client_software_version="1")


def init_producer_id() -> messages.Message:
    return messages.InitProducerIdRequest(
        transactional_id=None, transaction_timeout_ms=1, producer_id=-1, producer_epoch=-1
    )


def closing_reasons(caplog: pytest.LogCaptureFixture) -> list[str]:
    start = "closing the connection of 10.0.0.1:40000: "
    return [text.removeprefix(start) for text in caplog.messages if text.startswith(start)]


# --- order ----------------------------------------------------------------------------------------------


def test_answers_leave_in_the_order_of_the_requests(gateway: Gateway) -> None:
    gateway.create()
    client = gateway.connect()
    client.send(list_offsets(5), 5)  # looks on the disk, in a thread
    client.send(api_versions(), 3)
    client.send(init_producer_id(), 4)  # in another thread
    client.send(metadata("t"), 9)
    assert not client.transport.sent
    kinds = [type(client.answer()).__name__ for _ in range(4)]
    assert kinds == [
        "ListOffsetsResponse",
        "ApiVersionsResponse",
        "InitProducerIdResponse",
        "MetadataResponse",
    ]


def test_what_came_before_a_request_that_cannot_be_read_is_answered(
    gateway: Gateway, caplog: pytest.LogCaptureFixture
) -> None:
    gateway.create()
    for spoiled in (b"\x7f\xff\xff\xff", struct.pack(">ihhih", 12, 3, 9, 7, -1) + b"\x80\x80"):
        client = gateway.connect()
        stream = b"".join(client.encoded(produce(batch(b"value")), 9) for _ in range(3))
        client.connection.dataReceived(stream + spoiled)
        offsets = [only(produced(client.answer())).base_offset for _ in range(3)]
        assert offsets == [offsets[0] + number for number in range(3)]
        gateway.reactor.until(lambda client=client: client.is_closed)
        client.lose()
        assert gateway.server._queued_bytes == 0
    assert len(closing_reasons(caplog)) == 2


def test_what_came_before_a_refusal_without_an_answer_is_answered_and_nothing_behind_it(
    gateway: Gateway,
) -> None:
    topic = gateway.create()
    client = gateway.connect()
    wanted = produce(batch(b"first")), produce(batch(b"x"), topic="unknown", acks=0), produce(batch(b"third"))
    client.connection.dataReceived(b"".join(client.encoded(one, 9) for one in wanted))
    assert only(produced(client.answer())).base_offset == 0
    gateway.reactor.until(lambda: client.is_closed)
    assert not client.transport.sent
    assert topic.partitions[0].end_offset == 1


def test_answers_of_one_group_of_appends_leave_together(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway.create()
    client = gateway.connect()
    appender: Any = gateway.broker.append
    groups: list[Any] = []
    monkeypatch.setattr(appender, "_answer", lambda answers: groups.extend(answers))
    for value in (b"first", b"second", b"third"):
        client.send(produce(batch(value)), 9)
    gateway.reactor.until(lambda: len(groups) == 3)
    monkeypatch.undo()
    sent: list[bytes] = []
    monkeypatch.setattr(client.transport, "write", sent.append)
    appender._answer(groups[:2])
    assert len(sent) == 1
    appender._answer(groups[2:])
    assert len(sent) == 2
    assert [struct.unpack_from(">i", part, 4)[0] for part in sent] == [1, 3]


@pytest.mark.parametrize("step", [1, 3, 1000])
def test_requests_may_arrive_in_any_pieces(gateway: Gateway, step: int) -> None:
    client = gateway.connect()
    stream = b"".join(client.encoded(api_versions(), version) for version in range(5))
    for start in range(0, len(stream), step):
        client.connection.dataReceived(stream[start : start + step])
    for _ in range(5):
        assert client.answer().error_code == 0
    assert not client.connection.is_within_a_frame


def test_requests_before_a_bad_one_are_answered(gateway: Gateway, caplog: pytest.LogCaptureFixture) -> None:
    client = gateway.connect()
    client.connection.dataReceived(client.encoded(api_versions(), 0) + b"\xff\xff\xff\xff")
    assert client.has_answer
    assert client.is_closed
    assert "a request of -1 bytes" in only(closing_reasons(caplog))


@pytest.mark.parametrize("acks", [0, 1, -1])
def test_who_asks_behind_what_it_has_produced_finds_it(gateway: Gateway, acks: int) -> None:
    gateway.create()
    client = gateway.connect()
    written = client.encoded(produce(batch(b"a"), acks=acks), 9)
    if not acks:
        client.forget_answer()
    read = client.encoded(fetch(0, max_wait_ms=0), 12) + client.encoded(list_offsets(-1), 7)
    client.connection.dataReceived(written + read)
    if acks:
        assert only(produced(client.answer())).error_code == 0
    assert values_of(only(only(client.answer().responses).partitions)) == [b"a"]
    assert only(only(client.answer().topics).partitions).offset == 1
    assert not client.connection.is_within_a_frame
    assert not client.is_paused


def test_what_is_produced_is_not_kept_waiting_for_what_was_before(gateway: Gateway) -> None:
    gateway.create()
    client, other = gateway.connect(port=1), gateway.connect(port=2)
    two = [client.encoded(produce(batch(value), acks=1), 9) for value in (b"a", b"b")]
    client.connection.dataReceived(b"".join(two))
    assert len(client.connection._slots) == 2
    other.send(api_versions(), 0)
    assert other.has_answer
    assert [only(produced(client.answer())).base_offset for _ in two] == [0, 1]


def test_what_waits_behind_a_produce_is_not_read_on_and_holds_its_bytes(gateway: Gateway) -> None:
    gateway.create()
    client = gateway.connect()
    stream = client.encoded(produce(batch(b"a"), acks=1), 9) + client.encoded(metadata("t"), 9)
    client.connection.dataReceived(stream)
    assert client.is_paused
    assert gateway.server._queued_bytes == len(stream)
    client.answer()
    assert only(client.answer().topics).error_code == 0
    assert not client.is_paused
    assert gateway.server._queued_bytes == 0


# --- what cannot be answered ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        (struct.pack(">hhih", 999, 0, 1, -1), "API key 999 is not served"),
        (struct.pack(">hhih", -1, 0, 1, -1), "API key -1 is not served"),
        (struct.pack(">hhih", 3, 99, 1, -1) + b"\0", "Metadata version 99 is not served, only 0 to 13"),
        (struct.pack(">hhih", 3, -1, 1, -1), "Metadata version -1 is not served, only 0 to 13"),
        (struct.pack(">hhih", 4, 0, 1, -1), "API key 4 is not served"),  # LeaderAndIsr, of brokers
        (struct.pack(">hhi", 3, 1, 1), "the frame ends before the client id"),
        (struct.pack(">hhih", 3, 1, 1, 500), "the client id has 500 bytes"),
        (struct.pack(">hhih", 3, 1, 1, -1) + b"\x7f\xff\xff\xff", "topics"),
        (struct.pack(">hhih", 0, 3, 1, -1) + b"\xff\xff\0\1\0\0\0\0\x7f\xff\xff\xff", "topics"),
    ],
)
def test_what_cannot_be_answered_closes_the_connection_with_a_reason(
    gateway: Gateway, caplog: pytest.LogCaptureFixture, frame: bytes, reason: str
) -> None:
    client = gateway.connect()
    client.connection.dataReceived(struct.pack(">i", len(frame)) + frame)
    assert client.is_closed
    assert not client.transport.sent
    assert reason in only(closing_reasons(caplog))
    client.connection.dataReceived(struct.pack(">i", len(frame)) + frame)
    assert len(closing_reasons(caplog)) == 1


def test_a_fault_of_ours_closes_the_connection_and_is_an_error_in_the_log(
    gateway: Gateway, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = gateway.connect()
    monkeypatch.setattr(type(gateway.broker.topics), "by_name", lambda self, name: 1 // 0)
    client.send(metadata("t"), 9)
    assert client.is_closed
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == [
        "Metadata of 10.0.0.1:40000 failed"
    ]


# --- back-pressure --------------------------------------------------------------------------------------


def test_a_flood_is_served_a_hundred_at_a_time(gateway: Gateway) -> None:
    client = gateway.connect()
    flood = b"".join(client.encoded(init_producer_id(), 0) for _ in range(250))
    client.connection.dataReceived(flood)
    assert len(client.connection._slots) == MAX_REQUESTS_UNDER_WAY
    assert client.is_paused
    ids = [client.answer().producer_id for _ in range(250)]
    assert ids == sorted(set(ids))
    assert not client.is_paused
    assert gateway.server._queued_bytes == 0


def test_who_does_not_read_is_neither_served_nor_read_from(gateway: Gateway) -> None:
    topic = gateway.create()
    client = gateway.connect()
    client.ask(produce(batch(b"x" * 400_000)), 9)
    client.transport.is_read = False
    # Far more answers than memory, if all of them were made.
    client.connection.dataReceived(b"".join(client.encoded(fetch(0), 11) for _ in range(1000)))
    assert len(client.transport.sent) < 1_000_000
    assert client.is_paused
    assert 400_000 < gateway.server.answers.held_bytes < 1_000_000
    served = 0
    while client.connection._frames.is_within_a_frame or client.transport.sent:
        served += client.transport.drain().count(b"x" * 400_000)
    assert served == 1000
    assert gateway.server.answers.held_bytes == 0
    assert not client.is_paused
    assert topic.partitions[0].end_offset == 1


def test_nothing_behind_a_fetch_is_served_before_it(gateway: Gateway) -> None:
    topic = gateway.create()
    client, other = gateway.connect(), gateway.connect(port=2)
    client.send(fetch(0, max_wait_ms=1000), 11)
    client.send(produce(batch(b"mine")), 9)
    assert client.is_paused
    other.ask(produce(batch(b"theirs")), 9)
    assert values_of(only(only(client.answer().responses).partitions)) == [b"theirs"]
    assert only(produced(client.answer())).base_offset == 1
    assert topic.partitions[0].end_offset == 2


def partial_frame(client: Client, size: int) -> tuple[bytes, bytes]:
    """The start of a large ApiVersions-like request, and the rest of it."""
    body = messages.encode_request(api_versions(), 3)
    whole = client.frame(API_VERSIONS, 3, body + bytes(size - len(body)))
    return whole[: size // 2], whole[size // 2 :]


CROWDED: dict[str, Any] = {
    "socket_request_max_bytes": 400 << 10,
    "queued_max_request_bytes": 400 << 10,
    "message_max_bytes": 1000,
}


def test_a_full_budget_lets_one_begun_request_after_the_other_be_finished(tmp_path: Path) -> None:
    with in_memory_gateway(tmp_path / "data", **CROWDED) as gateway:
        clients = [gateway.connect(port=port) for port in range(4)]
        parts = [partial_frame(client, 400_000) for client in clients]
        for client, (start, _) in zip(clients, parts, strict=True):
            client.connection.dataReceived(start)
        # The third found the budget used up; it may go on all the same, and nobody after it.
        assert [client.is_paused for client in clients] == [False, False, False, True]
        for client, (_, rest) in list(zip(clients, parts, strict=True))[2:]:
            assert not client.is_paused
            client.connection.dataReceived(rest)
            assert client.answer().error_code == 0
        for client, (_, rest) in list(zip(clients, parts, strict=True))[:2]:
            client.connection.dataReceived(rest)
            assert client.answer().error_code == 0
        assert gateway.server._queued_bytes == 0
        assert not any(client.is_paused for client in clients)


def test_half_sent_requests_keep_nobody_from_sending_small_ones(tmp_path: Path) -> None:
    with in_memory_gateway(tmp_path / "data", **CROWDED) as gateway:
        old = gateway.connect(port=1)
        harmful = [gateway.connect(port=port) for port in range(2, 8)]
        for client in harmful:
            client.connection.dataReceived(partial_frame(client, 400_000)[0])
        assert not gateway.server.has_room
        new = gateway.connect(port=9)
        for _ in range(3):
            for client in (old, new):
                assert client.ask(api_versions(), 3).error_code == 0
                assert not client.is_paused
        # And what it takes to find out that somebody sends more than little is little, too.
        assert new.transport.bufferSize == LITTLE_BYTES
        new.connection.dataReceived(partial_frame(new, 400_000)[0][:LITTLE_BYTES])
        assert new.is_paused


def test_what_a_lost_connection_held_is_given_back(gateway: Gateway) -> None:
    gateway.create()
    client = gateway.connect()
    client.send(fetch(0, max_wait_ms=60_000), 11)
    client.connection.dataReceived(partial_frame(client, 4000)[0])
    assert gateway.server._queued_bytes > 2000
    assert gateway.reactor.getDelayedCalls()
    client.lose()
    assert gateway.server._queued_bytes == 0
    topic = gateway.broker.topics.by_name("t")
    assert topic is not None
    assert not topic.partitions[0].waiters


def test_an_answer_after_the_connection_is_lost_goes_nowhere(gateway: Gateway) -> None:
    client, other = gateway.connect(), gateway.connect(port=2)
    client.send(init_producer_id(), 0)
    client.lose()
    assert other.ask(init_producer_id(), 0).error_code == 0
    assert not client.transport.sent


# --- turns ----------------------------------------------------------------------------------------------


@pytest.fixture
def busy(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> Gateway:
    """Every request takes a millisecond."""
    serve = KafkaConnection._serve

    def slowly(connection: KafkaConnection, frame: bytearray) -> None:
        gateway.reactor.rightNow += 0.001
        serve(connection, frame)

    monkeypatch.setattr(KafkaConnection, "_serve", slowly)
    return gateway


def flood(client: Client, count: int) -> None:
    client.connection.dataReceived(b"".join(client.encoded(api_versions(), 0) for _ in range(count)))


def turn(gateway: Gateway) -> None:
    """What a reactor does: calls that are made in a turn for now are for the next one."""
    reactor = gateway.reactor
    for call in [call for call in reactor.getDelayedCalls() if call.getTime() <= reactor.seconds()]:
        reactor.calls.remove(call)
        call.func(*call.args, **call.kw)


def answered(client: Client) -> int:
    """How many more answers there are than before."""
    count = 0
    while client.has_answer:
        client.answer()
        count += 1
    return count


def test_who_sends_thousands_of_requests_is_served_a_few_at_a_time(busy: Gateway) -> None:
    client, other = busy.connect(port=1), busy.connect(port=2)
    flood(client, 1000)
    assert 1 <= answered(client) <= 10
    assert client.is_paused
    flood(other, 1)
    assert answered(other) == 1
    turn(busy)
    assert 1 <= answered(client) <= 10
    for _ in range(1000):
        turn(busy)
    assert answered(client) > 900
    assert not client.is_paused
    assert not client.connection.is_within_a_frame
    assert busy.server._queued_bytes == 0
    assert not [call for call in busy.reactor.getDelayedCalls() if call.getTime() <= busy.reactor.seconds()]


def test_floods_are_served_in_turns(busy: Gateway) -> None:
    clients = [busy.connect(port=port) for port in range(5)]
    for client in clients:
        flood(client, 200)
    total = [answered(client) for client in clients]
    for _ in range(20):
        started_s = busy.reactor.seconds()
        turn(busy)
        # However many there are, others are read from soon.
        assert busy.reactor.seconds() - started_s < 0.02
        total = [before + answered(client) for before, client in zip(total, clients, strict=True)]
    assert min(total) >= 20
    assert max(total) - min(total) <= 10


def test_who_goes_while_it_waits_for_its_turn_gets_none(busy: Gateway) -> None:
    client = busy.connect()
    flood(client, 100)
    answered(client)
    client.lose()
    turn(busy)
    assert not client.transport.sent
    assert busy.server._queued_bytes == 0


def test_a_stop_does_not_wait_for_requests_whose_turn_has_not_come(busy: Gateway) -> None:
    client = busy.connect()
    flood(client, 100)
    served = answered(client)
    busy.server.drain()
    assert client.is_closed
    turn(busy)
    assert answered(client) == 0
    assert served < 100
