"""Numbers, times and bytes as people read them."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from barbicel.gateway.admin.console.formats import (
    render_bytes,
    render_count,
    render_duration,
    render_hex,
    render_pretty,
    render_rate,
    render_time,
)


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (None, "\u2013"),
        (0, "0 B"),
        (999, "999 B"),
        (1000, "0.977 KiB"),
        (1 << 20, "1 MiB"),
        (1536, "1.5 KiB"),
        (270553174016, "252 GiB"),
        (1 << 70, "1.05e+06 PiB"),
    ],
)
def test_bytes(size: int | None, text: str) -> None:
    assert render_bytes(size) == text


def test_counts_and_rates() -> None:
    assert render_count(1234567) == "1\u202f234\u202f567"
    assert render_count(None) == render_rate(None) == "\u2013"
    assert [render_rate(number) for number in (0, 0.04, 3.14159, 12.7, 1500)] == [
        "0",
        "0.0",
        "3.1",
        "13",
        "1\u202f500",
    ]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 ms"), (0.0123, "12.3 ms"), (1, "1 s"), (61, "1 min 1 s"), (3600, "1 h"), (90061, "1 d 1 h")],
)
def test_durations(seconds: float, text: str) -> None:
    assert render_duration(seconds) == text


def test_times() -> None:
    assert render_time(1794854591739) == "2026-11-16 18:43:11.739"
    assert render_time(0) == "1970-01-01 00:00:00.000"
    assert render_time(None) == render_time(-1) == "\u2013"
    assert render_time(2**62) == str(2**62)


def test_hex_has_sixteen_bytes_a_line() -> None:
    assert render_hex("") == ""
    assert render_hex(bytes(range(60, 78)).hex()) == (
        "00000000  3c 3d 3e 3f 40 41 42 43 44 45 46 47 48 49 4a 4b  <=>?@ABCDEFGHIJK\n"
        "00000010  4c 4d                                            LM"
    )


def test_json_has_a_line_for_each_member_and_is_not_changed_otherwise() -> None:
    text = '{"a":1.50e2, "b" : [ ], "c":[{},"x\\"{,:}"],"a":null}'
    assert render_pretty(text) == (
        '{\n  "a": 1.50e2,\n  "b": [],\n  "c": [\n    {},\n    "x\\"{,:}"\n  ],\n  "a": null\n}'
    )


@pytest.mark.parametrize("text", ["", "plain", "{", "{'a': 1}", "[1,]", "[" * 5000, '"text"', "12", "{}x"])
def test_what_is_no_json_stays_as_it_is(text: str) -> None:
    assert render_pretty(text) == text


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inside: st.lists(inside) | st.dictionaries(st.text(), inside),
)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(_JSON, st.sampled_from([None, 0, 3]), st.booleans())
def test_pretty_json_is_the_same_json(value: object, indent: int | None, ascii_only: bool) -> None:
    pretty = render_pretty(json.dumps(value, indent=indent, ensure_ascii=ascii_only))
    assert json.loads(pretty) == value
    assert not isinstance(value, list | dict) or pretty == json.dumps(
        value, indent=2, ensure_ascii=ascii_only
    )


@pytest.mark.parametrize(
    "text", ["[" * 900 + "1" + ",1" * 30_000 + "]" * 900, '{"a":' * 500 + "[]" + "}" * 500 + " " * 1000]
)
def test_json_that_is_nested_without_end_does_not_become_endless(text: str) -> None:
    """64 KB of it became 57 MB, for each message of a page."""
    assert len(render_pretty(text)) <= 8 * len(text) + 4096


def test_json_that_is_nested_as_people_do_is_laid_out() -> None:
    text = '{"a":{"b":{"c":{"d":{"e":{"f":[1,[],{}]}}}}}}'
    assert render_pretty(text).count("\n") == 16
