"""What must not leave a machine in a report: passwords, tokens and keys, wherever they stand in a text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

__all__ = ["HIDDEN", "hide", "is_secret_name", "secrets_in"]

HIDDEN = "(hidden)"
# Shorter ones would hide half of every text, and are no secret anyway.
LEAST_CHARS = 6

_SECRET_NAME = re.compile(
    r"password|passwd|secret|credential|access_key|private|api_?key|(^|[._])token$", re.I
)
_IN_URL = re.compile(r"(?<=://)[^/\s@]+(?=@)")
_ASSIGNED = re.compile(
    r"(?i)\b((?:\w|[.-])*(?:password|passwd|secret|token|authorization|credential)\w*[\"']?\s*[=:]\s*)"
    r"(?:bearer\s+|basic\s+)?(\"[^\"]*\"|'[^']*'|[^\s,;]+)"
)


def is_secret_name(name: str) -> bool:
    """Of a setting or a variable whose value is not to be shown. One that names a file is no secret."""
    return bool(_SECRET_NAME.search(name)) and not name.lower().endswith(("file", "location"))


def secrets_in(variables: Mapping[str, str]) -> list[str]:
    return [value for name, value in variables.items() if is_secret_name(name) and len(value) >= LEAST_CHARS]


def hide(text: str, known: Iterable[str] = ()) -> str:
    """The text without known secrets, and without what looks like one."""
    for secret in sorted(known, key=len, reverse=True):
        if len(secret) >= LEAST_CHARS:
            text = text.replace(secret, HIDDEN)
    return _ASSIGNED.sub(rf"\1{HIDDEN}", _IN_URL.sub(HIDDEN, text))
