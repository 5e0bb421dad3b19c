"""How a connection ends whose client has sent what cannot be served: behind its answers, and in time."""

from __future__ import annotations

import gc
import ssl
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from barbicel.codecs.kafka import messages
from barbicel.errors import LogStopped
from barbicel.gateway.kafka.connection import ENDING_SECONDS, LEAVING_SECONDS
from tests.gateway.kafka.in_memory import Gateway, MemoryTransport, batch
from tests.gateway.kafka.raw_client import RawClient
from tests.gateway.kafka.requests import fetch, metadata, only, produce, produced
from tests.support.gateway import running_gateway
from tests.support.secure_gateway import running_secure_gateway

# Nothing can follow: its length is beyond every limit.
BAD_FRAME = b"\x7f\xff\xff\xff"
# More than a small socket takes at once.
LARGE_BYTES = 900_000
DAY_MS = 24 * 3600 * 1000


def join(group_id: str) -> messages.Message:
    return messages.JoinGroupRequest(
        group_id=group_id,
        session_timeout_ms=1_800_000,
        rebalance_timeout_ms=DAY_MS,
        member_id="",
        group_instance_id=None,
        protocol_type="consumer",
        protocols=[messages.JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"")],
        reason=None,
    )


def api_versions() -> messages.Message:
    return messages.ApiVersionsRequest(client_software_name="test", client_software_version="1")


def ends(caplog: pytest.LogCaptureFixture) -> int:
    return sum(text.startswith("closing the connection of") for text in caplog.messages)


@pytest.mark.parametrize("answered_behind", [0, 1, 3])
def test_nobody_is_kept_for_what_another_request_waits_for(gateway: Gateway, answered_behind: int) -> None:
    client = gateway.connect()
    waiting = client.encoded(join("g"), 3)
    client.connection.dataReceived(waiting + client.encoded(api_versions(), 0) * answered_behind + BAD_FRAME)
    assert client.is_closed
    assert not client.has_answer


@pytest.fixture
def cut_off(monkeypatch: pytest.MonkeyPatch) -> list[MemoryTransport]:
    """Who was, without waiting for what is still to be sent."""
    cut_off: list[MemoryTransport] = []
    monkeypatch.setattr(MemoryTransport, "abortConnection", lambda transport: cut_off.append(transport))
    return cut_off


def test_nobody_is_kept_for_an_answer_that_does_not_come(
    gateway: Gateway, cut_off: list[MemoryTransport], monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway.create()
    client = gateway.connect()
    monkeypatch.setattr(gateway.broker.append, "_answer", lambda answers: None)
    client.connection.dataReceived(client.encoded(produce(batch(b"x")), 9) + BAD_FRAME)
    gateway.reactor.advance(ENDING_SECONDS - 1)
    assert not cut_off
    assert not client.is_closed
    gateway.reactor.advance(1)
    assert cut_off


def test_who_does_not_take_the_last_answer_is_cut_off(
    gateway: Gateway, cut_off: list[MemoryTransport]
) -> None:
    client = gateway.connect()
    client.connection.dataReceived(client.encoded(api_versions(), 0) + BAD_FRAME)
    assert client.is_closed
    gateway.reactor.advance(LEAVING_SECONDS - 1)
    assert not cut_off
    gateway.reactor.advance(1)
    assert cut_off


def test_the_deadline_of_a_connection_goes_with_it(gateway: Gateway, cut_off: list[MemoryTransport]) -> None:
    client = gateway.connect()
    client.connection.dataReceived(client.encoded(api_versions(), 0) + BAD_FRAME)
    client.lose()
    gateway.reactor.advance(ENDING_SECONDS)
    assert not cut_off


def test_who_was_never_answered_is_cut_off_at_once(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    client, cut_off = gateway.connect(), []
    monkeypatch.setattr(client.transport, "abortConnection", lambda: cut_off.append(True))
    client.connection.dataReceived(BAD_FRAME)
    assert cut_off


def test_the_end_of_a_connection_is_told_once(
    gateway: Gateway, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many of its requests have failed that get no answer."""
    gateway.create("sound")
    gateway.create("broken")
    client = gateway.connect()
    appender: Any = gateway.broker.append
    appended: list[tuple[Callable[[Any], None], Any]] = []
    monkeypatch.setattr(appender, "_answer", appended.extend)
    client.send(produce(batch(b"1"), topic="sound"), 9)
    for _ in range(4):
        client.send(produce(batch(b"2"), topic="broken", acks=0), 9)
        client.forget_answer()
    gateway.reactor.until(lambda: len(appended) == 5)
    monkeypatch.undo()
    sound, *broken = appended
    appender._answer([(done, LogStopped("the disk is gone", path="broken")) for done, _ in broken])
    assert ends(caplog) == 1
    assert not client.is_closed
    appender._answer([sound])
    assert only(produced(client.answer())).error_code == 0
    assert client.is_closed
    assert ends(caplog) == 1


def test_an_answered_produce_leaves_no_garbage_behind(gateway: Gateway) -> None:
    gateway.create()
    client = gateway.connect()
    client.ask(produce(batch(b"x")), 9)
    gc.collect()
    gc.disable()
    try:
        for _ in range(20):
            client.ask(produce(batch(b"x")), 9)
        assert gc.collect() == 0
    finally:
        gc.enable()


# --- over real sockets --------------------------------------------------------------------------------------


def secured(directory: Path, stack: ExitStack) -> tuple[tuple[str, int], ssl.SSLContext]:
    gateway = stack.enter_context(running_secure_gateway(directory, ("PLAINTEXT", "SSL")))
    context = ssl.create_default_context(cafile=str(gateway.authority.path))
    context.check_hostname = False
    return ("127.0.0.1", gateway.ports()["SSL"]), context


def plain(directory: Path, stack: ExitStack) -> tuple[tuple[str, int], None]:
    gateway = stack.enter_context(running_gateway(directory))
    return (gateway.host, gateway.port), None


@pytest.mark.parametrize("begin", [plain, secured])
def test_answers_that_were_sent_arrive_before_the_end(tmp_path: Path, begin: Any) -> None:
    """Also those that the kernel, or TLS, has taken and that were not read by then."""
    with ExitStack() as stack:
        address, context = begin(tmp_path, stack)
        client = stack.enter_context(RawClient(address, context=context))
        client.ask(metadata("t"), 9)
        assert only(produced(client.ask(produce(batch(b"x" * LARGE_BYTES)), 9))).error_code == 0
        client.send(metadata("t"), 9)
        client.send(fetch(0), 11)
        client.send_bytes(BAD_FRAME)
        assert only(client.receive().topics).error_code == 0
        records = only(only(client.receive().responses).partitions).records
        assert len(records) > LARGE_BYTES
        assert client.is_at_end()
