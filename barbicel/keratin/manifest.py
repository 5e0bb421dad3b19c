"""The manifest on the disk: read with every check, replaced atomically."""

from __future__ import annotations

from barbicel.codecs.keratin_format import Manifest, decode_manifest, encode_manifest
from barbicel.disk import Disk, read_file, replace_file
from barbicel.errors import CorruptFile, DiskError
from barbicel.keratin.layout import Layout
from barbicel.keratin.settings import LogSettings

__all__ = ["read_manifest", "settings_in", "settings_of", "write_manifest"]

# Two million segments; a larger file is no manifest.
MAX_MANIFEST_BYTES = 64 << 20


def read_manifest(disk: Disk, layout: Layout) -> Manifest:
    """Raises CorruptFile, naming the file, unless it is whole and does not contradict itself."""
    try:
        manifest = decode_manifest(read_file(disk, layout.manifest, MAX_MANIFEST_BYTES))
        _check_consistency(manifest)
    except CorruptFile as error:
        error.path = layout.manifest
        raise
    return manifest


def _check_consistency(manifest: Manifest) -> None:
    expected = manifest.segments[0].base_offset if manifest.segments else manifest.active_base_offset
    first_base = expected
    for base_offset, last_offset, _, _ in manifest.segments:  # by place: every opening goes through them
        if base_offset != expected or last_offset < base_offset:
            raise CorruptFile(f"segment {base_offset}..{last_offset} does not follow {expected}")
        expected = last_offset + 1
    if manifest.active_base_offset != expected or manifest.next_offset < expected:
        raise CorruptFile(
            f"active base {manifest.active_base_offset} and next offset {manifest.next_offset}"
            f" do not follow {expected}"
        )
    if not first_base <= manifest.log_start_offset <= manifest.next_offset:
        raise CorruptFile(f"log start {manifest.log_start_offset} lies outside of the log")


def write_manifest(disk: Disk, layout: Layout, manifest: Manifest) -> None:
    """On return the new manifest survives a power cut. Everything below its next_offset must already."""
    replace_file(disk, layout.new_manifest, layout.manifest, [encode_manifest(manifest)])


def settings_of(disk: Disk, layout: Layout) -> LogSettings:
    """The settings that the log was last used with, the defaults if its manifest does not say."""
    try:
        return settings_in(read_manifest(disk, layout))
    except (CorruptFile, DiskError):
        return LogSettings()


def settings_in(manifest: Manifest | None) -> LogSettings:
    """The settings that a manifest has, if it is sound and they can be used, or else the defaults."""
    if manifest is None:
        return LogSettings()
    try:
        return LogSettings(
            segment_max_bytes=manifest.segment_max_bytes,
            index_stride_bytes=manifest.index_stride_bytes,
            max_open_segments=manifest.max_open_segments,
        )
    except ValueError:
        return LogSettings()
