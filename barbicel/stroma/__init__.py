"""Stroma: one durable model of consumption. What a group has acked, has in hand, and may still have."""

from barbicel.codecs.stroma_events import (
    Ack,
    BumpAckedUntil,
    ClearInflight,
    Commit,
    Event,
    MarkInflight,
    Release,
    Reset,
)
from barbicel.codecs.stroma_format import NO_DEADLINE_MS
from barbicel.codecs.stroma_snapshot import Inflight
from barbicel.stroma.expiry import Expired
from barbicel.stroma.file_sizes import GroupFileSizes
from barbicel.stroma.flusher import Flusher
from barbicel.stroma.names import GroupKey
from barbicel.stroma.ranges import Range
from barbicel.stroma.settings import StoreSettings, SyncPolicy
from barbicel.stroma.state import GroupState
from barbicel.stroma.storage import Available, ExpiredMessage, Storage
from barbicel.stroma.store import GroupStore

__all__ = [
    "NO_DEADLINE_MS",
    "Ack",
    "Available",
    "BumpAckedUntil",
    "ClearInflight",
    "Commit",
    "Event",
    "Expired",
    "ExpiredMessage",
    "Flusher",
    "GroupFileSizes",
    "GroupKey",
    "GroupState",
    "GroupStore",
    "Inflight",
    "MarkInflight",
    "Range",
    "Release",
    "Reset",
    "Storage",
    "StoreSettings",
    "SyncPolicy",
]
