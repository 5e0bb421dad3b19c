"""A request as a value, its answer as a value, and a refusal as an error. No HTTP library is known here."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from urllib.parse import unquote

from barbicel.errors import BarbicelError

__all__ = ["JSON", "Answer", "Asked", "Refusal", "View", "as_json", "json_answer", "parse_body"]

JSON = "application/json"


class Refusal(BarbicelError):
    """Why a request is not served; `status` is HTTP's."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True)
class Asked:
    """`path` is as it was sent, the query is decoded. `names` has what the route's pattern has names for."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    host: str | None = None
    authorization: str | None = None
    accept: str = ""
    names: Mapping[str, str] = field(default_factory=dict)
    peer: tuple[str, int] = ("", 0)

    @property
    def section(self) -> str:
        """The first segment of the path, decoded."""
        return "".join(map(unquote, self.path.split("/")[1:2]))

    def whole(self, name: str, default: int, lowest: int = 0, highest: int = (1 << 63) - 1) -> int:
        """A number of the query. Raises Refusal if it is none, or out of its range."""
        text = self.query.get(name)
        if text is None:
            return default
        digits = text.removeprefix("-")
        if not (digits.isascii() and digits.isdigit() and len(digits) <= 19):
            raise Refusal(400, f"{name} is no whole number")
        number = int(text)
        if not lowest <= number <= highest:
            raise Refusal(400, f"{name} is {number}, allowed is {lowest} to {highest}")
        return number


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    content_type: str
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


# What can be told, as plain data; a page and a line of JSON are made of the same.
View: TypeAlias = Callable[[Asked], Awaitable[dict[str, Any]]]


def as_json(view: View) -> Callable[[Asked], Awaitable[Answer]]:
    """A view as a route's responder."""

    async def respond(asked: Asked) -> Answer:
        return json_answer(await view(asked))

    return respond


def json_answer(value: Any, status: int = 200) -> Answer:
    return Answer(status, JSON, json.dumps(value).encode("ascii") + b"\n")


def parse_body(asked: Asked) -> dict[str, Any]:
    """The JSON object that a request carries; nothing at all is an empty one. Raises Refusal."""
    if not asked.body:
        return {}
    try:
        value = json.loads(asked.body)
    except (ValueError, RecursionError):
        raise Refusal(400, "the body is no JSON") from None
    if not isinstance(value, dict):
        raise Refusal(400, "the body is no JSON object")
    return value
