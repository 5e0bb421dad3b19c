"""Every conversation, by area. The listing of this directory is what is compared."""

from __future__ import annotations

from collections.abc import Mapping

from tests.differential.conversations import (
    api_versions,
    cluster,
    committed,
    configs,
    fetch,
    groups,
    idempotence,
    malformed,
    metadata,
    offsets,
    produce,
    topics,
)
from tests.differential.script import Conversation

__all__ = ["CONVERSATIONS"]

CONVERSATIONS: Mapping[str, Conversation] = {
    name: conversation
    for module in (
        api_versions,
        metadata,
        produce,
        idempotence,
        fetch,
        offsets,
        malformed,
        groups,
        committed,
        topics,
        configs,
        cluster,
    )
    for name, conversation in module.CONVERSATIONS.items()
}
