"""Stroma: one durable model of consumption. What a group has acked, has in hand, and may still have."""

from barbicel.stroma.flusher import Flusher
from barbicel.stroma.names import GroupKey
from barbicel.stroma.settings import StoreSettings, SyncPolicy
from barbicel.stroma.storage import Storage
from barbicel.stroma.store import GroupStore

__all__ = ["Flusher", "GroupKey", "GroupStore", "Storage", "StoreSettings", "SyncPolicy"]
