"""The measurements of the tier, in the order of the table: all of them in a directory, and then in S3."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from bench.report import Measurement
from bench.tier.cold import measure_cold
from bench.tier.filling import LARGE, count_messages, fill
from bench.tier.following import measure_following
from bench.tier.gateways import copied_gateway
from bench.tier.offload import EXTRA, measure_extra, measure_offload, upload
from bench.tier.scale import Scale, chosen_scale
from bench.tier.stores import OpenedPlace, Place, directory_place, s3_place

__all__ = ["TIER"]


def measure_directory(directory: str) -> list[Measurement]:
    return _measure("directory", Path(directory), directory_place(Path(directory, "directory")))


def measure_s3(directory: str) -> list[Measurement]:
    return _measure("S3", Path(directory), s3_place(Path(directory, "s3")))


TIER = (measure_directory, measure_s3)


def _measure(name: str, directory: Path, opened: OpenedPlace) -> list[Measurement]:
    scale = chosen_scale()
    with opened as place:
        rows = _rows(directory, place, scale)
    return [replace(row, name=f"{name}: {row.name}") for row in rows]


def _rows(directory: Path, place: Place, scale: Scale) -> list[Measurement]:
    filled, kept = _filled(directory, scale), place.below("kept")
    with copied_gateway(filled, directory / "kept", kept) as gateway:
        # An offload that does not count; its objects are those that are put and got.
        upload(gateway, LARGE)
        rows = [measure_offload(filled, directory, place, kept, scale.rounds)]
        rows += [measure_extra(gateway, place, kept, topic) for topic in EXTRA]
        with copied_gateway(filled, directory / "hot", place.below("hot")) as hot:
            rows += measure_cold(gateway, hot, kept, count_messages(filled, LARGE), scale.rounds)
    return rows + measure_following(filled, directory, place, scale.followed_messages, scale.rounds)


def _filled(directory: Path, scale: Scale) -> Path:
    """The same for both stores."""
    found = directory / "filled"
    return found / "data" if found.exists() else fill(found, scale)
