"""ApiVersions: what is advertised is what works."""

from __future__ import annotations

import struct

import pytest

from barbicel.codecs.kafka import messages
from barbicel.codecs.kafka.error_codes import ErrorCode
from barbicel.gateway.kafka.table import TABLE
from tests.gateway.kafka.in_memory import Gateway
from tests.gateway.kafka.requests import only

TELEMETRY = (71, 72)


def request(name: str = "test", version: str = "1.0") -> messages.Message:
    return messages.ApiVersionsRequest(client_software_name=name, client_software_version=version)


@pytest.mark.parametrize("version", range(5))
def test_the_whole_table_in_every_version(gateway: Gateway, version: int) -> None:
    answer = gateway.connect().ask(request(), version)
    assert answer.error_code == 0
    rows = {row.api_key: (row.min_version, row.max_version) for row in answer.api_keys}
    assert rows == {api.key: (api.first_version, api.last_version) for api in TABLE.values()}
    assert not set(TELEMETRY) & set(rows)


def test_every_version_that_is_offered_can_be_decoded_and_encoded() -> None:
    for api in TABLE.values():
        offered = range(api.first_version, api.last_version + 1)
        assert set(offered) <= set(messages.VERSIONS[api.key]), api.name


def test_produce_is_offered_from_0(gateway: Gateway) -> None:
    """librdkafka before 2.16 would send without compression otherwise."""
    assert TABLE[0].first_version == 0


@pytest.mark.parametrize("version", [5, 99, 32767])
def test_a_version_that_is_not_known_is_answered_in_version_0(gateway: Gateway, version: int) -> None:
    client = gateway.connect()
    frame = struct.pack(">hhih", 18, version, 77, -1) + b"\0 whatever"
    client.connection.dataReceived(struct.pack(">i", len(frame)) + frame)
    answer = client.transport.sent
    assert struct.unpack_from(">ii", answer) == (len(answer) - 4, 77)
    decoded = messages.decode_response(18, 0, memoryview(answer)[8:])
    assert decoded.error_code == ErrorCode.UNSUPPORTED_VERSION
    row = only(decoded.api_keys)
    assert (row.api_key, row.min_version, row.max_version) == (18, 0, 4)
    assert not client.is_closed


@pytest.mark.parametrize(("name", "version"), [("", "1"), ("a", ""), ("a b", "1"), ("a", "1-"), ("-a", "1")])
def test_a_client_without_a_proper_name_is_refused(gateway: Gateway, name: str, version: str) -> None:
    answer = gateway.connect().ask(request(name, version), 3)
    assert (answer.error_code, answer.api_keys) == (ErrorCode.INVALID_REQUEST, [])
