"""`barbicel manifest verify`: whether manifests, and the object store, are as they should be. Only reads."""

from __future__ import annotations

from collections.abc import Iterator

import click

from barbicel.cli.offsets import counted
from barbicel.cli.options import json_option
from barbicel.cli.page import Page, render_json
from barbicel.cli.streams import Streams, opened_streams, stream_options
from barbicel.codecs.aof2_events import RepairReason
from barbicel.disk import RealDisk
from barbicel.errors import CorruptFile
from barbicel.tier.manifest_log.stream import ManifestStream
from barbicel.tier.manifest_log.verify import Finding, Severity, verify

__all__ = ["verify_command"]

EXIT_CODES = {Severity.NOTE: 0, Severity.REPAIRABLE: 1, Severity.DAMAGE: 3}
_TITLES = {
    Severity.DAMAGE: "Damaged",
    Severity.REPAIRABLE: "Mended by itself at the next chance",
    Severity.NOTE: "As it should be",
}


@click.command("verify")
@click.argument("stream", metavar="[STREAM]", required=False)
@stream_options
@json_option
@click.pass_context
def verify_command(
    ctx: click.Context,
    stream: str | None,
    data: str | None,
    path: str | None,
    is_local: bool,
    as_json: bool,
) -> None:
    """Check every CRC of the manifests, and that the object store has what they say.

    STREAM is a topic, a partition (orders-0) or a stream's id; without it all are checked.

    \b
    Example:
      barbicel manifest verify orders-0 --data ./data

    \b
    Exit codes, the highest that applies:
      0  sound
      1  something is mended by itself at the next start, upload or reconciliation
      2  wrong usage, or it cannot be read
      3  damage
    """
    with opened_streams(RealDisk(), data, path, is_local) as streams:
        names = streams.names if stream is None else streams.named(stream)
        findings = {
            name: [
                *verify(
                    streams.directory(name),
                    stream_id=name,
                    disk=streams.disk,
                    store=streams.store,
                    keys=streams.keys,
                ),
                *_found_by_readers(streams, name),
            ]
            for name in names
        }
    if as_json:
        render_json({"streams": {name: list(map(_described, found)) for name, found in findings.items()}})
    else:
        _tell(Page(), findings)
    everything = [one.severity for found in findings.values() for one in found]
    ctx.exit(max(map(EXIT_CODES.__getitem__, everything), default=0))


def _found_by_readers(streams: Streams, name: str) -> Iterator[Finding]:
    """Damage that only shows in an object's content."""
    try:
        stream = ManifestStream.open(
            streams.directory(name), stream_id=name, disk=streams.disk, read_only=True
        )
    except CorruptFile:
        return  # which was found before
    with stream:
        for entry in stream.catalogue.needing_repair:
            if entry.repair is RepairReason.OBJECT_CORRUPT:
                message = f"segment {entry.segment_id}: somebody read it, and it was damaged"
                yield Finding(Severity.DAMAGE, entry.key, message)


def _described(finding: Finding) -> dict[str, object]:
    return {**finding._asdict(), "severity": finding.severity.value}


def _tell(page: Page, findings: dict[str, list[Finding]]) -> None:
    for severity, title in _TITLES.items():
        page.section(
            title,
            [
                f"{one.place}{'' if one.position is None else f', byte {one.position}'}: {one.message}"
                for found in findings.values()
                for one in found
                if one.severity is severity
            ],
        )
    is_sound = not any(one.severity is not Severity.NOTE for found in findings.values() for one in found)
    page.ending(f"{counted(len(findings), 'manifest')} {'sound' if is_sound else 'looked at'}.")
