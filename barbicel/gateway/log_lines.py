"""How the server's log looks: lines for people, or a JSON document a line for programs.

The fields of a document: time (UTC, to the millisecond), level, logger, message, and exception (a traceback)
where there is one. A document is always one line, and so is a line for people: what clients send can be in
either, and nobody may write a line of the log by sending one. Only a traceback has lines of its own, and they
are indented.
"""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from types import TracebackType
from typing import TypeAlias

__all__ = ["FORMATTERS", "ConsoleFormatter", "JsonFormatter"]

INDENT = "    "

_ExcInfo: TypeAlias = (
    tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]
)


class ConsoleFormatter(logging.Formatter):
    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:
        return _visible(super().formatMessage(record))

    def formatException(self, ei: _ExcInfo) -> str:
        return "\n".join(f"{INDENT}{_visible(line)}" for line in super().formatException(ei).split("\n"))


class JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, UTC)
        document = {
            "time": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            document["exception"] = self.formatException(record.exc_info)
        return json.dumps(document)


def _visible(text: str) -> str:
    r"""Line ends, what moves a terminal's cursor, and half characters, as \n, \x1b, \udc80 and the like."""
    if text.isprintable():
        return text
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text
    )


FORMATTERS: dict[str, logging.Formatter] = {"console": ConsoleFormatter(), "json": JsonFormatter()}
