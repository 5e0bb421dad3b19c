"""Settings of the HTTP listener for operators: rows of the table in settings.py."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from barbicel.config.setting import row
from barbicel.config.values import LONG_MAX, Choice, Rule, Switch, Text, ValueType, Whole

__all__ = ["AdminSettings", "HostNames"]

KIB = 1 << 10
MIB = 1 << 20

_HOST = re.compile(r"[a-z0-9]([a-z0-9._-]{0,252}[a-z0-9])?", re.ASCII)


@dataclass(frozen=True)
class HostNames(Rule):
    """Names of hosts, in lower case; none is allowed too."""

    type = ValueType.LIST
    allowed = "names of hosts, separated by commas, or nothing"

    def parse(self, text: str) -> tuple[str, ...]:
        return self.check(tuple(name.strip().lower() for name in text.split(",") if name.strip()))

    def check(self, value: object) -> tuple[str, ...]:
        if not isinstance(value, tuple) or not all(
            isinstance(name, str) and _HOST.fullmatch(name) for name in value
        ):
            raise self.refuse()
        return value

    def render(self, value: Any) -> str:
        return ",".join(value)


@dataclass(frozen=True, kw_only=True)
class AdminSettings:
    """A field is a setting."""

    admin_enable: bool = row(
        "admin.enable",
        True,
        Switch(),
        "The console, the JSON API, the metrics and the health checks are served, with HTTP.",
        section="Operators: console, JSON API, metrics, health",
    )
    admin_host: str = row(
        "admin.host",
        "127.0.0.1",
        Text(),
        "The address where they are served. Only this machine can connect, unless you change it. Whoever can"
        " connect can read everything, messages too; to change something takes the token.",
    )
    admin_port: int = row("admin.port", 8080, Whole(0, 0xFFFF), "Their port; 0 lets the system choose one.")
    admin_allowed_hosts: tuple[str, ...] = row(
        "admin.allowed.hosts",
        (),
        HostNames(),
        "Names by which browsers may call this server, beside localhost, admin.host and addresses. Others are"
        " refused: a web page could have its own name lead to this machine.",
    )
    admin_token_file: str = row(
        "admin.token.file",
        "admin.token",
        Text(),
        "The file with the token that changes need. If there is none, it is made, with a token that nobody"
        " can guess, for its owner's eyes only. A relative path starts in the data directory.",
    )
    admin_max_connections: int = row(
        "admin.max.connections",
        32,
        Whole(1, 1000),
        "Connections of operators and their tools at a time.",
    )
    admin_max_request_bytes: int = row(
        "admin.max.request.bytes",
        2 * MIB,
        Whole(KIB, 64 * MIB),
        "The largest request, which is a message that is published.",
    )
    admin_min_free_bytes: int = row(
        "admin.min.free.bytes",
        64 * MIB,
        Whole(0, LONG_MAX),
        "With less than this free on the disk of the data directory, /readyz says that the server is not"
        " ready.",
    )
    log_format: str = row(
        "log.format",
        "console",
        Choice(("console", "json")),
        "How the server's log looks, on the standard error: lines for people, or a JSON document a line.",
    )
