"""Where to begin and where to end in a partition: options → offsets, held against what the log has.

An offset that the log does not have any more, or not yet, is a loss of data: an error, or with
failOnDataLoss=false the nearest one that it has.
"""

from __future__ import annotations

from barbicel.disk import Disk
from barbicel.errors import OffsetOutOfRange
from barbicel.pipeline.source.options import EARLIEST, LATEST, BadOption, OffsetSpec, Options
from barbicel.pipeline.source.places import Place
from barbicel.pipeline.source.shapes import Shape
from barbicel.pipeline.source.times import first_offset_at

__all__ = ["held_against", "resolve_end", "resolve_start"]


def resolve_start(disk: Disk, place: Place, shape: Shape, options: Options, default: OffsetSpec) -> int:
    spec = options.starting or default
    found = _resolve(disk, place, shape, options, spec, "startingOffsets")
    if found is not None:
        return found
    if options.is_late_start_an_error:
        raise BadOption(
            f"no record of {place.topic}-{place.partition} is as late as {spec.of(*place.key)}",
            hint="startingOffsetsByTimestampStrategy=latest then begins at the end",
        )
    return shape.end_offset


def resolve_end(disk: Disk, place: Place, shape: Shape, options: Options) -> int:
    spec = options.ending or OffsetSpec(LATEST)
    if spec.of(*place.key) == EARLIEST and not spec.is_time:
        raise BadOption("endingOffsets cannot be the earliest ones")
    found = _resolve(disk, place, shape, options, spec, "endingOffsets")
    return shape.end_offset if found is None else found


def _resolve(
    disk: Disk, place: Place, shape: Shape, options: Options, spec: OffsetSpec, name: str
) -> int | None:
    value = spec.of(*place.key)
    if value is None:
        raise BadOption(
            f"{name} say nothing about partition {place.partition} of topic {place.topic!r}",
            hint="they have to name all partitions; -2 is the earliest offset, -1 the latest",
        )
    if spec.is_time:
        return first_offset_at(disk, place, shape, value, options)
    if value == EARLIEST:
        return shape.start_offset
    if value == LATEST:
        return shape.end_offset
    return held_against(shape, place, value, options.fail_on_data_loss)


def held_against(shape: Shape, place: Place, offset: int, fail_on_data_loss: bool) -> int:
    """The offset if the log has it, its end included. Raises OffsetOutOfRange."""
    if shape.start_offset <= offset <= shape.end_offset:
        return offset
    if not fail_on_data_loss:
        return min(max(offset, shape.start_offset), shape.end_offset)
    error = OffsetOutOfRange(offset, shape.start_offset, shape.end_offset, place.directory)
    error.hint = (
        f"{place.topic}-{place.partition} was trimmed, deleted or is shorter than it was;"
        " failOnDataLoss=false reads what there is"
    )
    raise error
