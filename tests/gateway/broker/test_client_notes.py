"""Lines about clients: not more, and not longer, than somebody reads."""

from __future__ import annotations

import logging

import pytest

from barbicel.gateway.broker.client_notes import INTERVAL_MS, MAX_CHARS, MAX_CLIENTS, MAX_ENDS, ClientNotes
from tests.keratin.builders import ManualClock

PEER = ("10.0.0.1", 40_000)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(0)


@pytest.fixture
def notes(clock: ManualClock, caplog: pytest.LogCaptureFixture) -> ClientNotes:
    caplog.set_level(logging.INFO)
    return ClientNotes(clock)


def test_of_each_client_there_is_a_line_in_some_seconds(
    notes: ClientNotes, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(100):
        notes.tell(PEER, "refused")
    notes.tell(("10.0.0.2", 1), "refused too")
    clock.now_ms += INTERVAL_MS
    notes.tell(PEER, "again", logging.WARNING)
    assert [(record.levelno, record.getMessage()) for record in caplog.records] == [
        (logging.INFO, "10.0.0.1:40000, refused"),
        (logging.INFO, "10.0.0.2:1, refused too"),
        (logging.WARNING, "10.0.0.1:40000, again (99 lines like this were left out)"),
    ]


def test_a_line_is_short(notes: ClientNotes, caplog: pytest.LogCaptureFixture) -> None:
    notes.tell(PEER, "x" * 32_000)
    assert len(caplog.records[0].getMessage()) < MAX_CHARS + 50


def test_clients_that_come_and_go_are_forgotten(notes: ClientNotes) -> None:
    for port in range(3 * MAX_CLIENTS):
        notes.tell(("10.0.0.1", port), "refused")
    assert len(notes._told) == MAX_CLIENTS


def test_a_machine_that_is_sent_away_again_and_again_does_not_fill_the_log(
    notes: ClientNotes, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    for port in range(1000):
        notes.tell_end(("10.0.0.66", port), "rubbish")
    assert len(caplog.records) == MAX_ENDS
    notes.tell_end(PEER, "too slow")
    assert caplog.records[-1].getMessage() == "closing the connection of 10.0.0.1:40000: too slow"
    clock.now_ms += INTERVAL_MS
    notes.tell_end(("10.0.0.66", 1), "rubbish")
    told = f"rubbish ({1000 - MAX_ENDS} lines like this were left out)"
    assert caplog.records[-1].getMessage() == f"closing the connection of 10.0.0.66:1: {told}"


def test_a_clock_that_is_set_back_silences_nobody(
    notes: ClientNotes, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    clock.now_ms = 10 * INTERVAL_MS
    notes.tell(PEER, "before")
    clock.now_ms = INTERVAL_MS
    notes.tell(PEER, "after")
    assert len(caplog.records) == 2
