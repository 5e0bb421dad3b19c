"""Where the leader of a partition is now: tagged fields that Produce and Fetch answers share (KIP-951).

A field that is absent takes no byte, and no version before it has a place for it.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

from barbicel.codecs.kafka.wire import (
    FLEXIBLE,
    INT32,
    NO_TAGGED_FIELDS,
    encode_tagged_fields,
)

__all__ = ["CurrentLeader", "NodeEndpoint", "encode_current_leader", "encode_node_endpoints"]

NODE_ENDPOINTS_TAG = 0
CURRENT_LEADER = struct.Struct(
    ">"
    "i"  # leader_id
    "i"  # leader_epoch
    "x"  # no tagged fields
)


class CurrentLeader(NamedTuple):
    leader_id: int
    leader_epoch: int


class NodeEndpoint(NamedTuple):
    node_id: int
    host: str
    port: int
    rack: str | None = None


def encode_current_leader(leader: CurrentLeader) -> bytes:
    """What stands in the tagged field; its tag is the message's own."""
    return CURRENT_LEADER.pack(*leader)


def encode_node_endpoints(endpoints: Sequence[NodeEndpoint]) -> bytes:
    """The tagged fields at the end of an answer: the endpoints if there are any."""
    if not endpoints:
        return NO_TAGGED_FIELDS
    pieces = [FLEXIBLE.length(len(endpoints))]
    for node_id, host, port, rack in endpoints:
        pieces += (INT32.pack(node_id), FLEXIBLE.string(host))
        pieces += (INT32.pack(port), FLEXIBLE.string(rack), NO_TAGGED_FIELDS)
    return encode_tagged_fields([(NODE_ENDPOINTS_TAG, b"".join(pieces))])
