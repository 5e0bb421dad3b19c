"""A partition whose older segments lie in an object store: what the manifest on this machine says of them,
and the log behind them, as one."""

from __future__ import annotations

from barbicel.clock import wall_clock_ms
from barbicel.disk import Disk
from barbicel.pipeline.source.log_shape import survey_log
from barbicel.pipeline.source.options import Options
from barbicel.pipeline.source.places import Place
from barbicel.pipeline.source.shapes import LogStretch, ObjectStretch, Shape
from barbicel.tier.manifest_log.stream import ManifestStream

__all__ = ["survey_place"]

EMBEDDED_STORE = "object-store"


def survey_place(
    disk: Disk, place: Place, options: Options, known: Shape | None = None, from_offset: int | None = None
) -> Shape:
    """All of a partition, in the store and on the disk. `known` is what an earlier look has found.

    Whoever wants only what is at from_offset and behind it may get no more than that.
    Raises what survey_log does, CorruptManifest.
    """
    if place.objects:
        first, last = place.objects[0], place.objects[-1]
        return Shape(first.base_offset, last.end_offset, place.objects)
    last_known = None if known is None else known.stretches[-1]
    # The log first: what it has given up by now, the manifest has by now.
    log = survey_log(
        disk,
        place.directory,
        up_to=options.read_up_to,
        known=last_known if isinstance(last_known, LogStretch) else None,
    )
    manifest = _manifest_directory(place)
    if from_offset is not None and from_offset >= log.start_offset:
        return log
    if manifest is None or not disk.exists(manifest):
        return log
    return _joined(disk, place, options, manifest, log)


def _manifest_directory(place: Place) -> str | None:
    if place.data is None:
        return None
    return f"{place.data}/tier/{_stream_id(place)}"


def _stream_id(place: Place) -> str:
    *_, topic_dir, partition = place.directory.split("/")
    return f"{topic_dir}-{partition}"


def _joined(disk: Disk, place: Place, options: Options, manifest: str, log: Shape) -> Shape:
    store_url = options.store or f"{place.data}/{EMBEDDED_STORE}"
    with ManifestStream.open(
        manifest, stream_id=_stream_id(place), disk=disk, clock=wall_clock_ms, read_only=True
    ) as stream:
        start_offset = stream.catalogue.start_offset
        tiered = [entry for entry in stream.catalogue.segments if entry.is_tiered]
    older = [
        ObjectStretch(
            store_url,
            entry.key,
            entry.base_offset,
            min(entry.end_offset, log.start_offset),
            entry.description.object_bytes,
            entry.description.max_timestamp_ms,
        )
        for entry in tiered
        if entry.description is not None
        and entry.base_offset < log.start_offset
        and entry.end_offset > start_offset
    ]
    first = min([log.start_offset, *(stretch.base_offset for stretch in older)])
    return Shape(max(start_offset, first), log.end_offset, (*older, *log.stretches))
