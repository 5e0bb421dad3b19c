"""The error codes against two other implementations of the protocol."""

from __future__ import annotations

import inspect
from typing import Any

import kafka.errors
from kio.schema import errors as kio_errors

from barbicel.codecs.kafka.error_codes import ErrorCode

# Code → the name that kafka-python has kept from before Kafka renamed it.
OLD_NAMES = {
    -1: "UNKNOWN",
    0: "NO_ERROR",
    6: "NOT_LEADER_FOR_PARTITION",
    10: "MESSAGE_SIZE_TOO_LARGE",
    17: "INVALID_TOPIC",
    39: "INVALID_REPLICATION_ASSIGNMENT",
}


def test_the_numbers_have_no_gap() -> None:
    assert [code.value for code in ErrorCode] == list(range(-1, 134))


def test_kio_has_the_same_codes() -> None:
    assert {code.name: code.value for code in ErrorCode} == {
        code.name.upper(): int(code) for code in kio_errors.ErrorCode
    }


def test_kafka_python_knows_none_by_another_name() -> None:
    classes: list[Any] = [kind for _, kind in inspect.getmembers(kafka.errors, inspect.isclass)]
    known = {kind.errno: kind.message for kind in classes if isinstance(getattr(kind, "errno", None), int)}
    ours = {code.value: OLD_NAMES.get(code.value, code.name) for code in ErrorCode if code.value in known}
    assert len(ours) > 120
    assert ours == {number: known[number] for number in ours}
