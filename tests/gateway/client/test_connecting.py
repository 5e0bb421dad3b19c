"""Addresses as text."""

from __future__ import annotations

import pytest

from barbicel.gateway.client.connecting import address_text


@pytest.mark.parametrize(
    ("host", "text"),
    [("localhost", "localhost:9092"), ("127.0.0.1", "127.0.0.1:9092"), ("::1", "[::1]:9092")],
)
def test_an_address_of_many_colons_is_in_brackets(host: str, text: str) -> None:
    assert address_text(host, 9092) == text
