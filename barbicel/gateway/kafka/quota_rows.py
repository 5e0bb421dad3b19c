"""Whom a quota is for, as the two APIs about quotas write it (KIP-546)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from barbicel.codecs.access_file import Entity
from barbicel.gateway.broker.topic_errors import InvalidRequest

__all__ = ["KINDS", "entity_from"]

# Kafka also has quotas for addresses, which limit how fast they connect; here max.connections.per.ip does.
KINDS = ("client-id", "user")
MAX_NAME_CHARS = 255


def entity_from(parts: Iterable[Any]) -> Entity:
    """Raises InvalidRequest."""
    rows = [(part.entity_type, part.entity_name) for part in parts]
    kinds = [kind for kind, _ in rows]
    if not rows or len(set(kinds)) < len(kinds) or not set(kinds) <= set(KINDS):
        raise InvalidRequest(f"a quota is for a user, a client-id or both, not for {kinds!r:.100}")
    for _, name in rows:
        if name is not None and (not 1 <= len(name) <= MAX_NAME_CHARS or not name.isprintable()):
            raise InvalidRequest("the name is empty, long, or cannot be printed")
    return tuple(sorted(rows, key=lambda row: row[0]))
