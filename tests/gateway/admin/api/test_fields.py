"""Bytes as plain data and back."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barbicel.gateway.admin.api.fields import decode_field, encode_field
from barbicel.gateway.admin.exchange import Refusal


@pytest.mark.parametrize(
    ("data", "encoding", "shown"),
    [
        (b"", "utf-8", ""),
        (b"plain\ttext\r\n", "utf-8", "plain\ttext\r\n"),
        ("grün ☃".encode(), "utf-8", "grün ☃"),
        (b"\xff", "hex", "ff"),
        (b"bell\x07", "hex", "62656c6c07"),
        (b"\x1b[31mred", "hex", "1b5b33316d726564"),
        ("turned \u202e around".encode(), "hex", "7475726e656420e280ae2061726f756e64"),
    ],
)
def test_text_is_text_and_the_rest_is_hex(data: bytes, encoding: str, shown: str) -> None:
    row = encode_field(data)
    assert row == {"size_bytes": len(data), "is_cut": False, "encoding": encoding, "data": shown}


def test_null_is_not_nothing() -> None:
    assert encode_field(None) is None
    assert encode_field(b"") is not None


def test_what_is_large_is_cut_between_characters() -> None:
    row = encode_field("ä☃".encode() * 100, 11)
    assert row == {"size_bytes": 500, "is_cut": True, "encoding": "utf-8", "data": "ä☃ä☃"}
    binary = encode_field(b"\xff" * 100, 4)
    assert binary is not None
    assert binary["data"] == "ffffffff"


@given(st.binary())
def test_what_is_shown_can_be_published_again(data: bytes) -> None:
    row = encode_field(data)
    assert row is not None
    assert decode_field({"encoding": row["encoding"], "value": row["data"]}, "value") == data


@pytest.mark.parametrize(
    "body",
    [
        {"value": 1},
        {"value": ["a"]},
        {"value": "xyz", "encoding": "hex"},
        {"value": "a", "encoding": "base64"},
        {"value": "YQ=\n=", "encoding": "base64"},
        {"value": "a", "encoding": "latin-1"},
        {"value": "a", "encoding": ["hex"]},
        {"value": "a", "encoding": {}},
        {"value": "a", "encoding": None},
        {"value": "\ud800"},
    ],
)
def test_what_cannot_be_understood_is_refused(body: dict[str, Any]) -> None:
    with pytest.raises(Refusal) as caught:
        decode_field(body, "value")
    assert caught.value.status == 400


def test_base64_is_understood() -> None:
    assert decode_field({"value": "AP8=", "encoding": "base64"}, "value") == b"\x00\xff"
    assert decode_field({}, "value") is None
