"""Frames that are no requests: does the server close, answer, or wait?"""

from __future__ import annotations

import struct

from barbicel.codecs.kafka.messages import encode_request
from tests.differential.asking import fetch, metadata, produce
from tests.differential.script import SendBytes, Steps, conversations_of
from tests.differential.talk import LENGTH, frame, header

__all__ = ["CONVERSATIONS"]

METADATA, PRODUCE, FETCH, API_VERSIONS = 3, 0, 1, 18


def frames_that_are_no_requests() -> Steps:
    for label, data in {
        "length 0": LENGTH.pack(0),
        "length -1": LENGTH.pack(-1),
        "length 1": LENGTH.pack(1) + b"\0",
        "a length of 2 GB": LENGTH.pack((1 << 31) - 1),
        "a length above the limit": LENGTH.pack(104_857_601),
        "half a header": frame(header(METADATA, 1)[:6]),
        "a client id that is cut": frame(struct.pack(">hhih", METADATA, 1, 1, 100)),
        "a negative client id": frame(struct.pack(">hhih", METADATA, 1, 1, -2)),
        "HTTP": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "TLS": bytes.fromhex("16030100a5010000a10303") + bytes(200),
        "an unknown API": frame(struct.pack(">hhih", 999, 0, 1, 0)),
        "a negative API": frame(struct.pack(">hhih", -1, 0, 1, 0)),
        "an API between brokers": frame(struct.pack(">hhih", 4, 0, 1, 0) + bytes(20)),
        "an unknown version of Metadata": frame(struct.pack(">hhih", METADATA, 99, 1, 0) + bytes(20)),
        "a negative version of Metadata": frame(struct.pack(">hhih", METADATA, -1, 1, 0) + bytes(20)),
        "an old version of Fetch": frame(struct.pack(">hhih", FETCH, 3, 1, 0) + bytes(40)),
        "an unknown version of Produce": frame(struct.pack(">hhih", PRODUCE, 99, 1, 0) + bytes(40)),
    }.items():
        yield SendBytes(label, data)


def bodies_that_are_cut() -> Steps:
    for name, key, version, body in (
        ("Metadata", METADATA, 1, encode_request(metadata("t"), 1)),
        ("Metadata", METADATA, 12, encode_request(metadata("t"), 12)),
        ("Produce", PRODUCE, 3, encode_request(produce("t", b"x" * 70), 3)),
        ("Produce", PRODUCE, 9, encode_request(produce("t", b"x" * 70), 9)),
        ("Fetch", FETCH, 11, encode_request(fetch("t", {0: 0}), 11)),
        ("Fetch", FETCH, 12, encode_request(fetch("t", {0: 0}), 12)),
    ):
        for keep in (0, 1, len(body) // 2, len(body) - 1):
            yield SendBytes(f"{name} {version}, {keep} bytes", frame(header(key, version) + body[:keep]))


def counts_that_cannot_be() -> Steps:
    most = LENGTH.pack((1 << 31) - 1)
    for label, key, version, body in (
        ("topics of Metadata", METADATA, 1, most),
        ("topics of Metadata, compact", METADATA, 12, b"\xff\xff\xff\xff\x0f"),
        ("topics of Metadata, endless", METADATA, 12, b"\xff" * 20),
        ("topics of Metadata, negative", METADATA, 1, LENGTH.pack(-5)),
        ("topics of Produce", PRODUCE, 3, struct.pack(">hhi", -1, -1, 1000) + most),
        ("topics of Produce, null", PRODUCE, 3, struct.pack(">hhi", -1, -1, 1000) + LENGTH.pack(-1)),
        ("a name of Metadata", METADATA, 1, LENGTH.pack(1) + struct.pack(">h", 32767)),
        ("a null name of Metadata", METADATA, 1, LENGTH.pack(1) + struct.pack(">h", -1)),
        ("tagged fields", METADATA, 12, b"\x01\x00\x00" + b"\xff\xff\xff\xff\x0f"),
    ):
        yield SendBytes(label, frame(header(key, version) + body))


def bytes_that_are_too_many() -> Steps:
    for key, version, body in (
        (METADATA, 12, encode_request(metadata("too-many"), 12)),
        (METADATA, 1, encode_request(metadata(), 1)),
        (FETCH, 12, encode_request(fetch("too-many", {0: 0}), 12)),
        (API_VERSIONS, 0, b""),
    ):
        data = frame(header(key, version) + body + b"\0\0\0")
        yield SendBytes(f"after API {key} version {version}", data, (key, version))


CONVERSATIONS = conversations_of(
    frames_that_are_no_requests, bodies_that_are_cut, counts_that_cannot_be, bytes_that_are_too_many
)
