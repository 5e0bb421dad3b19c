"""GET /api/tier, POST /api/tier/flush: what is in the object store, and to put there what is not."""

from __future__ import annotations

import logging
from typing import Any, NamedTuple

from barbicel.codecs.manifest_snapshot import SegmentEntry
from barbicel.gateway.admin.exchange import Asked
from barbicel.gateway.broker.broker import Broker
from barbicel.gateway.broker.partition import Partition
from barbicel.gateway.broker.tiering.status import status_of
from barbicel.gateway.broker.tiering.tiering import Tiering

__all__ = ["StoreSegment", "TierApi"]

_log = logging.getLogger(__name__)


class StoreSegment(NamedTuple):
    base_offset: int
    end_offset: int
    size_bytes: int


class TierApi:
    def __init__(self, broker: Broker, tiering: Tiering) -> None:
        self._broker = broker
        self._tiering = tiering

    async def show(self, _: Asked) -> dict[str, Any]:
        tiering = self._tiering
        return {
            "store": tiering.store.url,
            "namespace": tiering.keys.namespace,
            "is_ready": tiering.is_ready,
            "refusal": tiering.refusal,
            "partitions": await self._broker.read_cold(self._partitions),
        }

    def _partitions(self) -> list[dict[str, Any]]:
        return [
            status_of(
                attached.topic().name,
                attached.tiered.partition,
                attached.tiered.stream.catalogue,
                attached.tiered.log,
            )._asdict()
            for attached in self._tiering.partitions
        ]

    # --- for the page of a topic ----------------------------------------------------------------------

    def place_of_segment(self, partition: Partition, base_offset: int) -> str | None:
        return self._tiering.place_of_segment(partition, base_offset)

    def segments_in_store(self, partition: Partition) -> list[StoreSegment]:
        """Those that are nowhere else, the oldest first."""
        local = partition.log.segments
        below_offset = local[0].base_offset if local else partition.log.start_offset
        catalogues = [
            attached.tiered.stream.catalogue
            for attached in self._tiering.partitions
            if attached.tiered is partition.stored.tiered
        ]
        return [
            StoreSegment(entry.base_offset, entry.end_offset, _object_bytes(entry))
            for catalogue in catalogues
            for entry in catalogue.segments
            if entry.is_tiered and catalogue.start_offset < entry.end_offset <= below_offset
        ]

    async def flush(self, _: Asked) -> dict[str, Any]:
        """Answered when all is uploaded that could be."""
        _log.info("an operator asked for all sealed segments to be uploaded")
        return (await self._tiering.flush())._asdict()


def _object_bytes(entry: SegmentEntry) -> int:
    return 0 if entry.description is None else entry.description.object_bytes
