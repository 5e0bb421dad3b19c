"""`barbicel manifest inspect`: the records of a manifest, decoded. Changes nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator

import click

from barbicel.cli.options import json_option
from barbicel.cli.page import Page, time_text
from barbicel.cli.streams import Streams, opened_streams, stream_options
from barbicel.codecs.aof2_manifest import NO_SEGMENT
from barbicel.disk import RealDisk
from barbicel.tier.manifest_log.inspect import InspectedRecord, Unreadable, inspect, inspect_remote

__all__ = ["inspect_command"]

EXIT_DIVERGED = 1
EXIT_DAMAGED = 3


@click.command("inspect")
@click.argument("stream", metavar="STREAM")
@stream_options
@click.option(
    "--from-store", "is_remote", is_flag=True, help="The whole history that the store has, bundles too."
)
@json_option
@click.pass_context
def inspect_command(
    ctx: click.Context,
    stream: str,
    data: str | None,
    path: str | None,
    is_local: bool,
    is_remote: bool,
    as_json: bool,
) -> None:
    """Show every record of the manifest of STREAM, oldest first, and which objects are not what it says.

    STREAM is a topic, a partition (orders-0) or a stream's id. With --json each line is a JSON document.

    \b
    Example:
      barbicel manifest inspect orders-0 --data ./data

    \b
    Exit codes, the highest that applies:
      0  shown
      1  an object in the store is not what the manifest says
      2  wrong usage, or it cannot be read
      3  a chunk is damaged
    """
    if is_local and is_remote:
        raise click.UsageError("--local and --from-store are opposites")
    page, exit_code = Page(), 0
    with opened_streams(RealDisk(), data, path, is_local) as streams:
        for name in streams.named(stream):
            for found in _records(streams, name, is_remote):
                page.line(_json_line(name, found) if as_json else _line(found))
                exit_code = max(exit_code, _exit_code(found))
    ctx.exit(exit_code)


def _records(streams: Streams, name: str, is_remote: bool) -> Iterator[InspectedRecord | Unreadable]:
    if is_remote:
        assert streams.store is not None
        assert streams.keys is not None
        return inspect_remote(streams.store, streams.keys, name)
    return inspect(
        streams.directory(name),
        stream_id=name,
        disk=streams.disk,
        store=streams.store,
        keys=streams.keys,
    )


def _exit_code(found: InspectedRecord | Unreadable) -> int:
    if isinstance(found, Unreadable):
        return EXIT_DAMAGED
    return EXIT_DIVERGED if found.divergence else 0


def _fields(found: InspectedRecord) -> dict[str, object]:
    return {name: value for name, value in found.said._asdict().items() if not isinstance(value, bytes)}


def _line(found: InspectedRecord | Unreadable) -> str:
    if isinstance(found, Unreadable):
        return f"chunk {found.chunk_index} cannot be read: {found.error}"
    fields = " ".join(f"{name}={value}" for name, value in _fields(found).items())
    segment = "" if found.record.segment_id == NO_SEGMENT else f" segment={found.record.segment_id}"
    diverged = "" if found.divergence is None else f"  <-- {found.divergence}"
    place = f"{found.chunk_index}:{found.position}"
    when = time_text(found.record.timestamp_ms)
    return f"{place}  {when}  {type(found.said).__name__}{segment} {fields}{diverged}"


def _json_line(name: str, found: InspectedRecord | Unreadable) -> str:
    if isinstance(found, Unreadable):
        return json.dumps({"stream": name, "chunk": found.chunk_index, "error": str(found.error)})
    record = found.record
    return json.dumps(
        {
            "stream": name,
            "chunk": found.chunk_index,
            "position": found.position,
            "number": found.number,
            "type": type(found.said).__name__,
            "segment": None if record.segment_id == NO_SEGMENT else record.segment_id,
            "logical_offset": record.logical_offset,
            "timestamp_ms": record.timestamp_ms,
            "fields": _fields(found),
            "divergence": found.divergence,
        }
    )
