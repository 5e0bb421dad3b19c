"""The quotas, kept durably. Reading never waits; changes do, and come from one thread at a time."""

from __future__ import annotations

from collections.abc import Mapping

from barbicel.codecs.access_file import MAX_ACCESS_FILE_BYTES, Entity, Quotas, decode_quotas, encode_quotas
from barbicel.disk import Disk
from barbicel.gateway.access.access_layout import AccessLayout, keep, restore
from barbicel.gateway.broker.topic_errors import InvalidRequest

__all__ = ["QuotaFile"]

# Each client's first request looks for its own.
MAX_QUOTAS = 10_000


class QuotaFile:
    """quotas.json and what is in it."""

    def __init__(self, disk: Disk, layout: AccessLayout) -> None:
        """Raises CorruptFile."""
        self._disk = disk
        self._layout = layout
        self.quotas: Quotas = restore(disk, layout.quotas, MAX_ACCESS_FILE_BYTES, decode_quotas) or {}

    def change(self, changes: Mapping[Entity, Mapping[str, float | None]]) -> Quotas:
        """All quotas as they are then, see `changed`. On return they survive a power cut."""
        quotas = self.changed(changes)
        keep(self._disk, self._layout, self._layout.quotas, encode_quotas(quotas))
        self.quotas = quotas
        return quotas

    def changed(self, changes: Mapping[Entity, Mapping[str, float | None]]) -> Quotas:
        """As they would be; a value of None is taken away. Raises InvalidRequest if too many."""
        quotas = dict(self.quotas)
        for entity, changed in changes.items():
            values = {**quotas.get(entity, {}), **changed}
            quotas[entity] = {key: value for key, value in values.items() if value is not None}
            if not quotas[entity]:
                del quotas[entity]
        if len(quotas) > max(MAX_QUOTAS, len(self.quotas)):
            raise InvalidRequest(f"more than {MAX_QUOTAS} quotas")
        return quotas
