"""The two forms of the server's log."""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path

from barbicel.gateway.log_lines import FORMATTERS
from tests.support.gateway import running_gateway


def record(message: str, *arguments: object, is_error: bool = False) -> logging.LogRecord:
    error = sys.exc_info() if is_error else None
    return logging.LogRecord("barbicel.part", logging.WARNING, "file.py", 1, message, arguments, error)


def test_a_document_a_line_whatever_is_in_the_text() -> None:
    line = FORMATTERS["json"].format(record("from %s", 'evil"\n2026-01-01 INFO forged'))
    assert "\n" not in line
    document = json.loads(line)
    assert document["message"] == 'from evil"\n2026-01-01 INFO forged'
    assert (document["level"], document["logger"]) == ("WARNING", "barbicel.part")
    assert document["time"].endswith("Z")


FORGED = 'evil"\n2026-01-01 00:00:00,000 INFO barbicel.part forged\r\x1b[2Kgone \u2028\udc80'


def test_a_line_for_people_is_one_line_whatever_a_client_has_sent() -> None:
    line = FORMATTERS["console"].format(record("from %s", FORGED))
    assert line.isprintable()
    assert line.endswith(
        r'from evil"\n2026-01-01 00:00:00,000 INFO barbicel.part forged\r\x1b[2Kgone \u2028\udc80'
    )


def test_what_is_not_ascii_stays_readable() -> None:
    assert FORMATTERS["console"].format(record("from %s", "Zoë 東京")).endswith("from Zoë 東京")


def test_a_traceback_cannot_be_taken_for_lines_of_the_log() -> None:
    try:
        raise KeyError("missing") from ValueError(FORGED)
    except KeyError:
        first, *others = FORMATTERS["console"].format(record("failed", is_error=True)).split("\n")
    assert first.endswith("WARNING barbicel.part failed")
    assert any("KeyError: 'missing'" in line for line in others)
    assert any("forged" in line for line in others)
    for line in others:
        assert line.startswith("    ")
        assert line.isprintable()


def test_an_exception_comes_with_its_traceback() -> None:
    try:
        raise KeyError("missing")
    except KeyError:
        line = FORMATTERS["json"].format(record("failed", is_error=True))
    assert "KeyError: 'missing'" in json.loads(line)["exception"]


def test_a_server_writes_documents(tmp_path: Path) -> None:
    with running_gateway(tmp_path, log_format="json") as gateway:
        pass
    lines = [json.loads(line) for line in gateway.log.read_text().splitlines()]
    assert lines[-1]["message"] == "stopped"
